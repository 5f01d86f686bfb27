"""Opens NCCL's call lines as a book of calls: the n-th line of a rank on a communicator is call n of that group."""

from __future__ import annotations

import numpy as np

from hangscope.align.call_book import MADE, CallBook, CallKind, Codes, GroupBook, RankCalls, stuck_by_group
from hangscope.align.calls import OPS, CallPart, CallTable
from hangscope.align.collectives import StuckCall
from hangscope.align.groups import Group
from hangscope.align.member_rows import MemberRows, Rows


def open_printed(
    table: CallTable, groups: tuple[Group, ...], stuck: tuple[StuckCall, ...], turned: frozenset[str]
) -> CallBook:
    """The book of the call lines.

    Args:
        table: the numbered calls.
        groups: the communicators.
        stuck: the calls that cannot complete.
        turned: files whose lines are not in order; their calls have no numbers.
    """
    book = CallBook("calls")
    if not len(table):
        return book
    here = stuck_by_group(stuck, "nccl")
    reader = _Reader(book, table, MemberRows(table, turned))
    for group in groups:
        opened = reader.open(group, here.get(group.name))
        if opened is not None:
            book.groups.append(opened)
    book.sort(here)
    return book


class _Reader:
    def __init__(self, book: CallBook, table: CallTable, rows: MemberRows) -> None:
        self._book = book
        self._table = table
        self._rows = rows
        self._kinds: dict[int, Codes] = {}

    def open(self, group: Group, stuck: StuckCall | None) -> GroupBook | None:
        calls = {rank: self._rows.collectives(member) for rank, member in self._rows.ranked(group).items()}
        if not any(map(len, calls.values())):
            return None
        return GroupBook(
            name=group.name,
            description="",
            size=group.size,
            ranks=tuple(sorted({*group.ranks(), *calls})),
            first=dict.fromkeys(calls, 0),
            ends={rank: len(rows) for rank, rows in calls.items()},
            stuck=stuck,
            lags=frozenset(),
            tells_state=False,
            read=lambda rank, first, last: self._read(calls[rank][first:last], first),
        )

    def _read(self, rows: Rows, first: int) -> RankCalls:
        size = len(rows)
        found = RankCalls(
            seq=np.arange(first, first + size, dtype=np.int64),
            kind=np.empty(size, dtype=np.int32),
            agreement=np.empty(size, dtype=np.int64),
            reached=np.full(size, MADE, dtype=np.uint8),
            time=np.full(size, np.nan),
            file=np.empty(size, dtype=np.int32),
            line=np.empty(size, dtype=np.int32),
        )
        for part, low, high, places in self._rows.in_parts(rows):
            shapes = part.shapes()[places]
            found.kind[low:high] = self._kinds_of(part, shapes)
            found.agreement[low:high] = part.signatures[shapes]
            found.file[low:high] = self._book.file_number(part.file)
            found.line[low:high] = np.frombuffer(part.columns.line, dtype=np.int32)[places]
            if part.columns.times is not None:
                found.time[low:high] = np.frombuffer(part.columns.times, dtype=np.float64)[places]
        return found

    def _kinds_of(self, part: CallPart, shapes: Codes) -> Codes:
        """Number of the kind of each of these calls; each shape is put into words once."""
        known = self._kinds.get(id(part))
        if known is None:
            known = self._kinds[id(part)] = np.full(len(part.columns.shapes), -1, dtype=np.int32)
        wanted = np.unique(shapes)
        for code in wanted[known[wanted] < 0].tolist():
            call = self._table.looks(part, code)
            kind = CallKind(OPS.get(call.op, call.op), call.size, "", call.describe())
            known[code] = self._book.kind_number(kind)
        return known[shapes]
