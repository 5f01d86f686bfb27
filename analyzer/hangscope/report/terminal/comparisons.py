"""What differs between ranks: a row a value, the values that must agree first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE
from hangscope.model import ComparedValue, Comparison, Report
from hangscope.report.comparisons import differing, lone_lines, properties, who_has
from hangscope.report.printable import one_line
from hangscope.report.proof import place_words
from hangscope.report.spans import HIGH, count_words, fold_hosts, rank_numbers
from hangscope.report.terminal.screen import Screen, columns

_WIDE = 110
"""From so many columns on, the table says where each value stands."""
_ROWS = 12
_VALUES = 4
_LINES = 3
_NAME = 24
_LEAST = 16
_VALUE_ROWS = 2


def show_comparisons(screen: Screen, report: Report) -> None:
    """The part of the page that compares ranks and hosts; nothing when all are alike, unless that helps."""
    compared = properties(report.comparisons)
    different = differing(report.comparisons)
    if different or (compared and screen.options.verbose):
        screen.heading(_title(len(different), len(compared)))
        most = len(different) if screen.options.verbose else _ROWS
        if different:
            _show_table(screen, different[:most])
        if len(different) > most:
            left = count_words(len(different) - most, "more difference")
            screen.prose(f"and {left} (--verbose shows all)", indent=1, style="dim")
        equal = [c for c in compared if not c.differs]
        if screen.options.verbose and equal:
            if different:
                screen.blank()
                screen.prose("equal wherever they are printed:", indent=1, style="dim")
            _show_table(screen, equal)
    elif compared and report.verdict.cause == INSUFFICIENT_EVIDENCE:
        ranks = {rank for c in compared for value in c.values for rank in value.ranks}
        whose = f" of {count_words(len(ranks), 'rank')}" if ranks else ""
        screen.heading("What differs between ranks")
        things = "1 property" if len(compared) == 1 else f"{len(compared):,} properties"
        screen.prose(f"Compared {things} (versions, settings, network){whose}: all equal.", indent=1)
    # where the answer is clear, they are the trouble that followed
    if screen.options.verbose or report.verdict.confidence < HIGH:
        _show_lone_lines(screen, lone_lines(report.comparisons))


def _title(different: int, compared: int) -> str:
    return f"What differs between ranks ({different:,} of {compared:,} compared)"


def _show_table(screen: Screen, comparisons: Sequence[Comparison]) -> None:
    """Columns: a mark for what must agree, aspect, value, ranks, hosts, and on wide pages where it stands."""
    places = screen.width >= _WIDE
    name = min(max((len(one_line(c.aspect)) for c in comparisons), default=0), _NAME)
    table = columns(1, name, *([None] * (4 if places else 3)))
    heads = ("", "", "value", "ranks", "hosts", *(["shown by"] if places else []))
    table.add_row(*(Text(head, style="dim") for head in heads))
    room = max((screen.width - name) // 3, _LEAST) * _VALUE_ROWS
    for comparison in comparisons:
        wrong = comparison.must_agree and comparison.differs
        most = len(comparison.values) if screen.options.verbose else _VALUES
        for number, value in enumerate(comparison.values[:most]):
            row = [
                Text("!" if wrong and number == 0 else "", style="bold red"),
                Text(one_line(comparison.aspect) if number == 0 else "", overflow="fold"),
                Text(
                    screen.shorten(value.text, room),
                    style="bold red" if wrong and number else "bold",
                    overflow="fold",
                ),
                Text(_ranks(value), overflow="fold"),
                Text(_hosts(value), overflow="fold"),
                Text(place_words(value.evidence.at) if value.evidence else "", style="dim", overflow="fold"),
            ]
            table.add_row(*row[: len(heads)])
        if len(comparison.values) > most:
            more = Text(f"and {count_words(len(comparison.values) - most, 'more value')}", style="dim")
            table.add_row(Text(""), Text(""), more)
    screen.show(table, indent=1)


def _ranks(value: ComparedValue) -> str:
    return rank_numbers(value.ranks, most=40)


def _hosts(value: ComparedValue) -> str:
    """Its hosts; of what nobody knows the rank and host of, the file."""
    if value.hosts or not value.names:
        return one_line(fold_hosts(value.hosts))
    left = len(value.names) - 1
    return one_line(value.names[0]) + (f" and {count_words(left, 'more file')}" if left else "")


def _show_lone_lines(screen: Screen, lines: Sequence[ComparedValue]) -> None:
    """Warnings and errors that one rank alone printed."""
    if not lines:
        return
    screen.heading(
        "Printed by one rank only" if len(lines) == 1 else f"Printed by one rank only ({len(lines):,} lines)"
    )
    most = len(lines) if screen.options.verbose else _LINES
    for value in lines[:most]:
        head = Text(who_has(value, most=40), style="bold", overflow="fold")
        if value.evidence is not None:
            head.append(f"  {place_words(value.evidence.at)}", style="dim")
        screen.show(head, indent=1)
        if value.evidence is not None:
            screen.quote(value.evidence, indent=3, rows=2)
    if len(lines) > most:
        screen.prose(f"and {count_words(len(lines) - most, 'more line')} (--verbose shows all)", indent=1, style="dim")
