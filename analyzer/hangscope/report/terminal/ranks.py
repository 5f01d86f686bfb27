"""Where each rank is: a table for a few ranks, a grid of hosts by GPUs for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from hangscope.model import RankState, Report
from hangscope.model.grid import AlikeRows, GridCell, RankGrid, lay_out, put_alike_together
from hangscope.model.states import state_style
from hangscope.report.answers import ranks_about, tells_of_ranks
from hangscope.report.printable import one_line
from hangscope.report.spans import count_words, fold_hosts, rank_words
from hangscope.report.standings import find_places
from hangscope.report.terminal.screen import Screen, columns
from hangscope.report.times import split_time

_TABLE_UP_TO = 8
_ROWS = 16
_RANKS_WIDTH = 48
_HOSTS_WIDTH = 56
_LAID_OUT = 1024
_CELL = 3
"""Columns of a cell: its glyph, and room for the marks of a rank at fault."""


def show_ranks(screen: Screen, report: Report) -> None:
    """The part of the page that says where the ranks are."""
    states = sorted(report.ranks, key=lambda state: state.rank)
    if not tells_of_ranks(report):
        return
    screen.heading(f"Where the ranks are ({ranks_about(report)})")
    at_fault = frozenset(report.verdict.ranks)
    if len(states) > _TABLE_UP_TO:
        # where all are alike, a grid has nothing to show
        if len({(state.state, state.rank in at_fault) for state in states}) > 1:
            _show_grid(screen, states, at_fault)
            screen.blank()
        _show_places(screen, report)
        if not screen.options.verbose:
            return
        screen.blank()
    _show_table(screen, states, at_fault)


def _show_table(screen: Screen, states: Sequence[RankState], at_fault: frozenset[int]) -> None:
    dates = {split_time(state.last_seen)[0] for state in states if state.last_seen}
    facts = {
        "": [">" if state.rank in at_fault else "" for state in states],
        "rank": [str(state.rank) for state in states],
        "host": [one_line(state.host or "") for state in states],
        "gpu": [one_line(state.gpu or "") for state in states],
        "pid": ["" if state.pid is None else str(state.pid) for state in states],
        "state": [state.state for state in states],
        "last seen": [
            (split_time(state.last_seen)[1] if len(dates) == 1 else state.last_seen or "") for state in states
        ],
        "where": [one_line(state.where or "") for state in states],
    }
    shown = {name: values for name, values in facts.items() if any(values)}
    if len(states) > _LAID_OUT:
        _show_plainly(screen, shown)
        return
    table = columns(*([None] * len(shown)))
    table.add_row(*(Text(name, style="dim") for name in shown))
    for index, state in enumerate(states):
        styles = {"state": state_style(state.state).ansi, "": "bold red"}
        row = (Text(values[index], style=styles.get(name, ""), overflow="fold") for name, values in shown.items())
        table.add_row(*row)
    screen.show(table, indent=1)


def _show_plainly(screen: Screen, shown: Mapping[str, Sequence[str]]) -> None:
    """The same table, a line a rank: to lay out tens of thousands takes longer than to find the fault."""
    widths = [max(len(name), *map(len, values)) for name, values in shown.items()]
    for row in (tuple(shown), *zip(*shown.values(), strict=True)):
        screen.plain(" " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _show_places(screen: Screen, report: Report) -> None:
    """How many ranks are in which state at which line of code; at once the grid's legend."""
    places = find_places(report)
    most = _ROWS if not screen.options.verbose else len(places)
    table = columns(_CELL, None, None, None, None)
    for place in places[:most]:
        table.add_row(
            _glyph(place.state, at_fault=place.at_fault),
            Text(place.state, style=state_style(place.state).ansi),
            Text(f"{len(place.ranks):,}", justify="right"),
            Text(_ranks_in(place.ranks, min(_RANKS_WIDTH, screen.width // 2 - 16)), overflow="fold"),
            Text(place.where, overflow="fold"),
        )
    screen.show(table, indent=1)
    if len(places) > most:
        screen.prose(f"and {len(places) - most} more places (--verbose shows all)", indent=1, style="dim")
    if any(place.at_fault for place in places):
        screen.prose("[ ] at fault", indent=1, style="dim")


def _show_grid(screen: Screen, states: Sequence[RankState], at_fault: frozenset[int]) -> None:
    """One cell a rank, one row for all the hosts that look alike; rows with ranks at fault first."""
    # half of the width for the cells, the other half says whose they are
    grid = lay_out(states, at_fault, widest=max(min(32, screen.width // 2 // _CELL), 8))
    rows = put_alike_together(grid)
    most = _ROWS if not screen.options.verbose else len(rows)
    room = max((screen.width - grid.columns * _CELL - 6) // 2, 16)
    table = columns(grid.columns * _CELL, None, None)
    if grid.by_gpu and grid.columns > 1:
        table.add_row(_gpus(grid), Text("GPU", style="dim"))
    for alike in rows[:most]:
        table.add_row(
            _cells(alike),
            Text(_hosts_in(alike, min(room, _HOSTS_WIDTH)), overflow="fold"),
            Text(_ranks_in(alike.ranks, min(room, _RANKS_WIDTH)), overflow="fold"),
        )
    screen.show(table, indent=1)
    if len(rows) > most:
        left = len({host for alike in rows[most:] for host in alike.hosts})
        what = count_words(left, "more host") if left else "more ranks"
        screen.prose(f"and {what} (--verbose shows all)", indent=1, style="dim")


def _gpus(grid: RankGrid) -> Text:
    """Heads of the columns."""
    return Text("".join(f"{number:^{_CELL}}" for number in range(grid.columns)), style="dim")


def _cells(alike: AlikeRows) -> Text:
    content = Text(overflow="fold")
    for cell in alike.rows[0].cells:
        content.append(_glyph_of(cell))
    return content


def _glyph_of(cell: GridCell | None) -> Text:
    return Text(" " * _CELL) if cell is None else _glyph(cell.state.state, at_fault=cell.at_fault)


def _glyph(state: str, *, at_fault: bool) -> Text:
    """A state in one character, which is readable without its colour; ranks at fault stand in brackets."""
    style = state_style(state)
    return Text(f"[{style.glyph}]" if at_fault else f" {style.glyph} ", style=style.ansi)


def _hosts_in(alike: AlikeRows, room: int) -> str:
    """Whose rows these are, in so many columns; of many hosts the first ones, and how many there are."""
    hosts = [one_line(host) for host in alike.hosts]
    if not hosts:
        return "host not known"
    names, count = fold_hosts(hosts), f" ({len(hosts):,} hosts)" if len(hosts) > 1 else ""
    if len(names) + len(count) > room and count:
        head = names[: max(room - len(count) - 4, 0)].rpartition(",")[0]
        return f"{head},...{count}" if head else count.strip(" ()")
    return names + count


def _ranks_in(ranks: Sequence[int], room: int) -> str:
    """The ranks in so many columns, of many the first ones."""
    words = rank_words(ranks)
    if len(words) <= room:
        return words
    head = words[: max(room - 4, 0)].rpartition(",")[0]
    return f"{head},..." if head else f"{len(ranks):,} ranks"
