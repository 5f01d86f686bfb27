"""The page that compares two jobs: their verdicts, where their calls part, what is another."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from hangscope.diagnose.catalogue import NO_FAULT_FOUND
from hangscope.model import ComparedValue
from hangscope.model.difference import CallDifference, Called, Difference, JobDifference, JobSide
from hangscope.report.differences import (
    before_words,
    call_title,
    called_words,
    calls_words,
    mark,
    other_hosts,
    ranks_words,
    reading_of,
    silence,
    value_words,
    verdict_words,
)
from hangscope.report.options import RenderOptions
from hangscope.report.printable import one_line
from hangscope.report.proof import place_words
from hangscope.report.spans import count_words
from hangscope.report.terminal.screen import Screen, columns

_GROUPS = 4
_ROWS = 24
_VALUES = 3
_NAME = 24
_LEAST, _MOST = 20, 100
_VALUE_ROWS = 3


def render_difference(difference: JobDifference, options: RenderOptions) -> str:
    """The page."""
    screen = Screen(options)
    if options.quiet:
        return _quiet(difference) + "\n"
    _show_sides(screen, difference)
    _show_calls(screen, difference)
    _show_differences(screen, difference)
    return screen.text()


def _quiet(difference: JobDifference) -> str:
    first = difference.calls.differences[:1]
    parts = [count_words(len(difference.differences), "difference")]
    parts += [f"calls part at {call_title(one)}" for one in first]
    parts += [f"{len(difference.equal)} properties equal"]
    return "; ".join(parts)


def _show_sides(screen: Screen, difference: JobDifference) -> None:
    table = columns(4, None)
    for label, side in (("Good", difference.good), ("Bad", difference.bad)):
        content = Text(one_line(side.name), overflow="fold")
        style = "green" if side.verdict.cause == NO_FAULT_FOUND else "red"
        content.append(f"\n{verdict_words(side)}", style=style)
        table.add_row(Text(label, style="bold"), content)
    screen.show(table, indent=1, width=screen.prose_width)
    for label, side, expected in (("good", difference.good, True), ("bad", difference.bad, False)):
        if (side.verdict.cause == NO_FAULT_FOUND) is not expected:
            screen.prose(_surprise(label, side), indent=1, style="yellow")


def _surprise(label: str, side: JobSide) -> str:
    found = "shows no fault" if side.verdict.cause == NO_FAULT_FOUND else "has a fault"
    return f"Note: the {label} job {found}; `hangscope analyze {one_line(side.name)}` tells more."


def _show_calls(screen: Screen, difference: JobDifference) -> None:
    calls = difference.calls
    found = calls.differences
    screen.heading("Where the calls part" if found else "Calls")
    screen.prose(calls_words(calls), indent=1)
    most = len(found) if screen.options.verbose else _GROUPS
    for one in found[:most]:
        screen.blank()
        _show_call(screen, one)
    if len(found) > most:
        screen.prose(
            f"and in {count_words(len(found) - most, 'more group')} (--verbose shows all)", indent=1, style="dim"
        )


def _show_call(screen: Screen, difference: CallDifference) -> None:
    title = call_title(difference)
    head = Text(title[:1].upper() + title[1:], style="bold")
    head.append(f"; {before_words(difference)}", style="not bold dim")
    screen.show(head, indent=1)
    table = columns(4, None, None, None)
    for label, called in (("good", difference.good), ("bad", difference.bad)):
        everyone = sum(len(one.ranks) for one in called)
        for number, one in enumerate(called):
            odd = label == "bad" and not _is_in(one, difference.good)
            table.add_row(
                Text(label if number == 0 else ""),
                Text(ranks_words(one, everyone), overflow="fold"),
                Text(called_words(one), style="bold red" if odd else "bold", overflow="fold"),
                Text(_place(one), style="dim", overflow="fold"),
            )
    screen.show(table, indent=3)
    meaning = reading_of(difference)
    if meaning:
        screen.prose(meaning, indent=3)


def _is_in(called: Called, others: Sequence[Called]) -> bool:
    return any(called.call == other.call for other in others)


def _place(called: Called) -> str:
    parts = [one_line(called.where)] if called.where else []
    parts += [place_words(called.at)] if called.at is not None else []
    return "  ".join(parts)


def _show_differences(screen: Screen, difference: JobDifference) -> None:
    rows = [one for one in difference.differences if one.telling]
    one_sided = [one for one in difference.differences if not one.telling]
    compared = len(difference.equal) + len(rows)
    screen.heading(f"What differs ({len(rows):,} of {compared:,} compared)")
    if not rows:
        screen.prose("Nothing, as far as both jobs show.", indent=1)
    most = len(rows) if screen.options.verbose else _ROWS
    if rows:
        _show_table(screen, rows[:most])
    if len(rows) > most:
        left = count_words(len(rows) - most, "more difference")
        screen.prose(f"and {left} (--verbose shows all)", indent=1, style="dim")
    for label, silent in (("good", "bad"), ("bad", "good")):
        names = [one.aspect for one in one_sided if getattr(one, label) and not getattr(one, silent)]
        if names and not screen.options.verbose:
            screen.prose(f"Only the {label} job tells: {', '.join(map(one_line, names))}.", indent=1, style="dim")
    if screen.options.verbose and one_sided:
        screen.blank()
        _show_table(screen, one_sided)
    moved = other_hosts(difference)
    if moved:
        screen.prose(moved, indent=1, style="dim")
    equal = ", ".join(one_line(aspect) for _, aspect in difference.equal)
    if equal:
        screen.prose(f"Equal: {equal}.", indent=1, style="dim")


def _show_table(screen: Screen, differences: Sequence[Difference]) -> None:
    """Columns: a mark for what must agree, aspect, the good job's values, the bad one's."""
    name = min(max(len(one_line(one.aspect)) for one in differences), _NAME)
    room = min(max((screen.width - name - 10) // 2, _LEAST), _MOST)
    table = columns(1, name, room, room)
    table.add_row(*(Text(head, style="dim") for head in ("", "", "good", "bad")))
    for one in differences:
        marked = mark(one)
        table.add_row(
            Text(marked, style="bold red"),
            Text(one_line(one.aspect), overflow="fold"),
            _values(screen, one, one.good, room, ""),
            _values(screen, one, one.bad, room, "bold red" if marked else "bold"),
        )
    screen.show(table, indent=1)


def _values(screen: Screen, difference: Difference, values: Sequence[ComparedValue], room: int, style: str) -> Text:
    if not values:
        return Text(silence(difference), style="dim")
    most = len(values) if screen.options.verbose else _VALUES
    lines = [screen.shorten(value_words(value, alone=len(values) == 1), room * _VALUE_ROWS) for value in values[:most]]
    content = Text("\n".join(lines), style=style, overflow="fold")
    if len(values) > most:
        content.append(f"\nand {count_words(len(values) - most, 'more value')}", style="dim")
    return content
