"""Says in rows where the ranks stand: in which state at which line, how far in their groups, at which stuck call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hangscope.model import CollectiveState, GroupCounts, Report
from hangscope.model.names import group_title
from hangscope.model.states import state_style
from hangscope.records import dataclass
from hangscope.report.printable import one_line
from hangscope.report.spans import count_words, rank_numbers

_NUMBERS = 100
"""Characters of rank numbers, of which more is nothing to read."""


@dataclass(frozen=True, slots=True)
class Place:
    """How many ranks are in which state at which line of code, and whether the verdict blames them."""

    state: str
    at_fault: bool
    where: str
    ranks: tuple[int, ...]
    numbers: str


@dataclass(frozen=True, slots=True)
class StuckRow:
    """One line of a stuck call: how many ranks did what, and which."""

    word: str
    wrong: bool
    count: int
    ranks: tuple[int, ...]
    numbers: str
    what: str


@dataclass(frozen=True, slots=True)
class CountRow:
    """The ranks of a group that came equally far: the number of their last call, and whether others came further."""

    last: str
    behind: bool
    ranks: tuple[int, ...]
    numbers: str


@dataclass(frozen=True, slots=True)
class CountedGroup:
    """A group whose ranks did not come equally far, those behind first."""

    name: str
    rows: tuple[CountRow, ...]


def find_places(report: Report) -> list[Place]:
    """All ranks by state and line of code; those at fault first, then what deserves the first look."""
    blamed = frozenset(report.verdict.ranks)
    together: dict[tuple[str, bool, str], list[int]] = defaultdict(list)
    for state in report.ranks:
        together[state.state, state.rank in blamed, one_line(state.where or "")].append(state.rank)

    def place(item: tuple[tuple[str, bool, str], list[int]]) -> tuple[object, ...]:
        (word, at_fault, _), ranks = item
        return not at_fault, state_style(word).severity, -len(ranks), item[0]

    return [
        Place(word, at_fault, where, tuple(sorted(ranks)), _numbers(ranks))
        for (word, at_fault, where), ranks in sorted(together.items(), key=place)
    ]


def members(state: CollectiveState) -> set[int]:
    """The ranks of which a stuck call tells anything."""
    return {*state.arrived, *state.missing, *state.differing}


def stuck_rows(state: CollectiveState) -> list[StuckRow]:
    """Who came, who did not, who called something else, and of whom nothing is known."""
    calls: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(state.differing):
        calls[one_line(state.differing[rank])].append(rank)
    rows = [
        StuckRow(word, word != "arrived", len(ranks), ranks, _numbers(ranks), what)
        for word, ranks, what in (
            ("arrived", state.arrived, ""),
            ("missing", state.missing, ""),
            *(("differing", tuple(ranks), f"called {call}") for call, ranks in calls.items()),
        )
        if ranks
    ]
    left = (state.group_size or 0) - len(members(state))
    return (
        [*rows, StuckRow("unknown", wrong=False, count=left, ranks=(), numbers="", what="no line tells")]
        if left > 0
        else rows
    )


def unequal_groups(report: Report) -> list[CountedGroup]:
    """The groups whose ranks came unequally far, without those that the timeline shows."""
    if report.history is None:
        return []
    shown = {group.group for group in report.history.groups}
    counted = [_counted(group) for group in report.history.counts if group.group not in shown]
    return [group for group in counted if any(row.behind for row in group.rows)]


def count_of_what(report: Report) -> str:
    """What the counts are counts of."""
    source = report.history.source if report.history else ""
    return {
        "ras": "collectives of all kinds that were launched, as NCCL's RAS counts",
        "watchdog": "the last call enqueued, as PyTorch's watchdogs say",
    }.get(source, "the number of the last call")


def _counted(group: GroupCounts) -> CountedGroup:
    of_last: dict[int | None, list[int]] = defaultdict(list)
    for rank, last in zip(group.ranks, group.last, strict=True):
        of_last[last].append(rank)
    known = sorted(last for last in of_last if last is not None)
    rows = [CountRow(f"{last:,}", last < known[-1], tuple(of_last[last]), _numbers(of_last[last])) for last in known]
    if lost := of_last.get(None):
        rows.append(CountRow("not known", behind=False, ranks=tuple(lost), numbers=_numbers(lost)))
    size = f" of {count_words(group.size, 'rank')}" if group.size is not None else ""
    return CountedGroup(f"{group_title(group.group, group.description)}{size}", tuple(rows))


def _numbers(ranks: Iterable[int]) -> str:
    """``0-3,6``, shortened when there are too many to read."""
    return rank_numbers(ranks, most=_NUMBERS)
