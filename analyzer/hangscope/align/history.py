"""Chooses the source that shows best what the ranks called last, and writes down the last calls of each group."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hangscope.align.call_book import DONE, MADE, STARTED, CallBook, GroupBook
from hangscope.align.call_states import STATES, read_window
from hangscope.align.job import Job
from hangscope.align.printed_calls import open_printed
from hangscope.align.recorded_calls import open_recorded
from hangscope.model import CallHistory, CallState, GroupCounts, GroupHistory, History, Transfer

_MOST_CELLS = 120_000
"""Calls times ranks, in all: what a page or picture can still show."""
_CELLS_OF_TRANSFER = 6
"""What one send or receive takes up, beside a cell of a call."""
_STATE_OF = {MADE: CallState.WAITING, STARTED: CallState.STARTED, DONE: CallState.DONE}
_FEWEST_CALLS = 5
"""Of a group; rather than fewer of all groups, fewer groups are shown."""


def find_history(job: Job, calls: int, most_cells: int = _MOST_CELLS) -> History | None:
    """What the ranks called last; None when neither call lines nor flight recorders tell.

    Args:
        job: the aligned job.
        calls: how many calls of each group are wanted.
        most_cells: calls times ranks, over all groups: there are fewer calls of each group when this is not enough,
            and fewer groups when that is not, either.
    """
    book = open_book(job)
    if book is None or calls < 1:
        return None
    shown, each = _fitting(book, calls, most_cells)
    return History(
        source=book.source,
        groups=tuple(_group(book, group, each) for group in shown),
        transfers=tuple(_transfers(book, min(calls, most_cells // _CELLS_OF_TRANSFER // max(len(book.movers), 1)))),
        left_out=len(book.groups) - len(shown),
        counts=tuple(_counts(group) for group in book.groups),
    )


def open_book(job: Job) -> CallBook | None:
    """The calls of a job; of two sources the one that the stuck calls are of, else the flight recorders."""
    recorded = bool(job.recordings.tracks) and not job.recordings.off
    sources = {call.source for call in job.stuck}
    if len(job.calls) and (not recorded or ("nccl" in sources and "recorder" not in sources)):
        book = open_printed(job.calls, job.groups, job.stuck, job.turned)
    elif recorded:
        book = open_recorded(job.recordings, _shifts_s(job))
    else:
        return None
    return book if book.groups or book.movers else None


def books_of(job: Job) -> dict[str, CallBook]:
    """Every book of calls that a job has, by source; the one that `open_book` gives comes first."""
    first = open_book(job)
    books = {} if first is None else {first.source: first}
    if "calls" not in books and len(job.calls):
        books["calls"] = open_printed(job.calls, job.groups, job.stuck, job.turned)
    if "recorder" not in books and job.recordings.tracks and not job.recordings.off:
        books["recorder"] = open_recorded(job.recordings, _shifts_s(job))
    return {source: book for source, book in books.items() if book.groups}


def _shifts_s(job: Job) -> dict[int, float]:
    """Rank -> seconds that bring its clock to that of the others; recorders write no local times."""
    found = {}
    for rank, process in job.ranks.items():
        offset = job.clocks.offsets.get(process.host) if process.host else None
        if offset is not None and offset.skew_s:
            found[rank] = -offset.skew_s
    return found


def _fitting(book: CallBook, calls: int, most_cells: int) -> tuple[list[GroupBook], int]:
    """The groups that fit, and how many calls of each."""
    shown: list[GroupBook] = []
    columns = 0
    for group in book.groups:
        if shown and (columns + len(group.ranks)) * min(calls, _FEWEST_CALLS) > most_cells:
            break
        columns += len(group.ranks)
        shown.append(group)
    return shown, max(min(calls, most_cells // max(columns, 1)), 1)


def _group(book: CallBook, group: GroupBook, calls: int) -> GroupHistory:
    first, last = group.window(calls)
    window = read_window(group, first, last)
    timed = bool((window.times == window.times).any())  # NaN is unequal to itself
    codes, kinds, times = window.states.tolist(), window.kinds.tolist(), window.times.tolist()
    rows = []
    for at, common in enumerate(window.common.tolist()):
        states = tuple(STATES[code] for code in codes[at])
        if common < 0:
            continue  # a number that nobody recorded
        kind = book.kinds[common]
        rows.append(
            CallHistory(
                seq=first + at,
                op=kind.op,
                size=kind.size,
                where=kind.where,
                states=states,
                started=tuple(None if math.isnan(time) else round(time, 6) for time in times[at]) if timed else (),
                differing={
                    rank: book.kinds[number].words
                    for rank, state, number in zip(window.ranks, states, kinds[at], strict=True)
                    if state is CallState.DIFFERS
                },
            )
        )
    return GroupHistory(
        group=group.name,
        description=group.description,
        size=group.size,
        ranks=window.ranks,
        left_out=max(first - 1 if group.tells_state else first, 0),  # torch counts from 1
        calls=tuple(rows),
        stuck=group.frontier,
        beyond=max(group.end - last, 0),
    )


def _counts(group: GroupBook) -> GroupCounts:
    made = {rank: end - 1 if end > group.first[rank] else group.begin - 1 for rank, end in group.ends.items()}
    return GroupCounts(
        group.name, group.description, group.size, group.ranks, tuple(made.get(rank) for rank in group.ranks)
    )


def _transfers(book: CallBook, each: int) -> Iterator[Transfer]:
    for rank in book.movers:
        made = book.transfers(rank, each)
        for at in range(len(made)):
            kind, peer, time = book.kinds[made.kind[at]], int(made.peer[at]), float(made.time[at])
            yield Transfer(
                rank=rank,
                peer=peer if peer >= 0 else None,
                op="send" if made.is_send[at] else "recv",
                group=book.group_names[made.group[at]],
                seq=int(made.seq[at]),
                size=kind.size,
                where=kind.where,
                state=_STATE_OF[int(made.reached[at])],
                started=None if math.isnan(time) else round(time, 6),
            )
