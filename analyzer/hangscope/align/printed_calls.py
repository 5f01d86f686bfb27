"""Opens NCCL's call lines as a book of calls: the n-th line of a rank on a communicator is call n of that group."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from hangscope.align.call_book import (
    DONE,
    MADE,
    CallBook,
    CallKind,
    Codes,
    GroupBook,
    RankCalls,
    RankTransfers,
    stuck_by_group,
)
from hangscope.align.calls import OPS, CallPart, CallTable
from hangscope.align.collectives import StuckCall
from hangscope.align.groups import Group
from hangscope.align.member_rows import NO_ROWS, MemberRows, Rows
from hangscope.records import dataclass


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
    reader = _Reader(table, MemberRows(table, turned))
    book = reader.book
    here = stuck_by_group(stuck, "nccl")
    for group in groups:
        opened = reader.open(group, here.get(group.name))
        if opened is not None:
            book.groups.append(opened)
        reader.add_transfers(group)
    book.movers = tuple(sorted(reader.lanes))
    book.sort(here)
    return book


@dataclass(frozen=True, slots=True)
class _Lane:
    """The sends, or receives, of one rank with one peer of a group.

    Attributes:
        group: index into `CallBook.group_names`.
        peer: global rank, -1 where unknown.
        met: how many of them have their other half.
    """

    group: int
    is_send: bool
    peer: int
    rows: Rows
    met: int


class _Reader:
    """Reads calls and transfers.

    Attributes:
        lanes: rank -> what it sent and received.
    """

    def __init__(self, table: CallTable, rows: MemberRows) -> None:
        self.book = CallBook("calls", self._transfers)
        self.lanes: dict[int, list[_Lane]] = defaultdict(list)
        self._table = table
        self._rows = rows
        self._kinds: dict[int, Codes] = {}
        self._alike: dict[tuple[str, int, int, int, int], int] = {}

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
            numbers=lambda: np.arange(max(map(len, calls.values())), dtype=np.int64),
        )

    def add_transfers(self, group: Group) -> None:
        """Adds the sends and receives of a communicator's members."""
        members: dict[int, int] = {}
        lanes: dict[tuple[int, int, str], Rows] = {}
        for member in self._rows.from_the_start(group):
            me = member.group_rank if member.group_rank is not None else member.process.rank
            if me is not None and member.process.rank is not None:
                members[me] = member.process.rank
                lanes.update(self._rows.lanes(me, self._rows.transfers(member)))
        for (sender, receiver, op), rows in lanes.items():
            is_send = op == "Send"
            me, peer = (sender, receiver) if is_send else (receiver, sender)
            other = lanes.get((sender, receiver, "Recv" if is_send else "Send"), NO_ROWS)
            number = self.book.group_number(group.name)
            self.lanes[members[me]].append(_Lane(number, is_send, members.get(peer, -1), rows, len(other)))

    def _transfers(self, rank: int, last: int | None) -> RankTransfers:
        lanes = self.lanes.get(rank, [])
        rows = np.concatenate([NO_ROWS, *(lane.rows for lane in lanes)])
        number = np.repeat(np.arange(len(lanes)), [len(lane.rows) for lane in lanes])
        seq = np.concatenate([NO_ROWS, *(np.arange(len(lane.rows)) for lane in lanes)])
        order = np.argsort(rows, kind="stable")
        order = order if last is None else order[max(len(order) - last, 0) :]
        number, seq = number[order], seq[order].astype(np.int64)
        calls = self._read(rows[order], 0)
        met = np.array([lane.met for lane in lanes], dtype=np.int64)[number]
        return RankTransfers(
            group=np.array([lane.group for lane in lanes], dtype=np.int32)[number],
            is_send=np.array([lane.is_send for lane in lanes], dtype=np.bool_)[number],
            peer=np.array([lane.peer for lane in lanes], dtype=np.int64)[number],
            seq=seq,
            kind=calls.kind,
            reached=np.where(seq < met, DONE, MADE).astype(np.uint8),
            time=calls.time,
            file=calls.file,
            line=calls.line,
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
            found.file[low:high] = self.book.file_number(part.file)
            found.line[low:high] = np.frombuffer(part.columns.line, dtype=np.int32)[places]
            if part.columns.times is not None:
                found.time[low:high] = np.frombuffer(part.columns.times, dtype=np.float64)[places]
        return found

    def _kinds_of(self, part: CallPart, shapes: Codes) -> Codes:
        """Number of the kind of each of these calls; what looks the same in all inputs is put into words once."""
        known = self._kinds.get(id(part))
        if known is None:
            known = self._kinds[id(part)] = np.full(len(part.columns.shapes), -1, dtype=np.int32)
        wanted = np.unique(shapes)
        for code in wanted[known[wanted] < 0].tolist():
            shape = part.columns.shapes[code]
            look = (part.columns.ops[shape.op], shape.elements, shape.dtype, shape.redop, shape.root)
            number = self._alike.get(look)
            if number is None:
                call = self._table.looks(part, code)
                kind = CallKind(OPS.get(call.op, call.op), call.size, "", call.describe())
                number = self._alike[look] = self.book.kind_number(kind)
            known[code] = number
        return known[shapes]
