"""Sorts NCCL's call lines by the communicator object they were made on: which rows are whose, in order."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hangscope.align.calls import CallPart, CallTable
from hangscope.align.groups import Communicator, Group

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
"""Numbers of rows of the table of calls, ascending."""

_AT_ONCE = 1 << 20
"""Rows that are sorted at once: one file may hold all calls of a job, and sorting takes several times their memory."""

NO_ROWS: Rows = np.empty(0, dtype=np.int32)


def joined(parts: list[Rows] | None) -> Rows:
    """Rows of several inputs as one; the list keeps them so."""
    if not parts:
        return NO_ROWS
    if len(parts) > 1:
        parts[:] = [np.concatenate(parts)]
    return parts[0]


def rows_by_member(
    members: npt.NDArray[np.int32], rows: npt.NDArray[np.intp] | npt.NDArray[np.int32]
) -> Iterator[tuple[int, Rows]]:
    """The rows of each member that has any; its cost does not grow with the number of all members."""
    if not len(rows):
        return
    lowest = int(members.min())
    codes: npt.NDArray[np.int32] = members - np.int32(lowest)
    names = range(lowest, lowest + int(codes.max()) + 1)
    if len(names) > len(rows):
        known, places = np.unique(members, return_inverse=True)
        names, codes = known.tolist(), places.astype(np.int32)
    # numbers of two bytes are sorted by counting them
    small = codes.astype(np.uint16) if len(names) <= 1 << 16 else codes
    order = rows[np.argsort(small, kind="stable")].astype(np.int32)
    bounds = np.cumsum(np.bincount(codes)).tolist()
    for number, low, high in zip(names, [0, *bounds], bounds, strict=False):
        if low < high:
            yield number, order[low:high]


class MemberRows:
    """The rows of every communicator object, collectives and point-to-point calls apart.

    Args:
        table: the numbered calls.
        turned: files whose lines are not in order, so that their calls have no numbers.
    """

    def __init__(self, table: CallTable, turned: frozenset[str] = frozenset()) -> None:
        self._table = table
        self._turned = turned
        self._rows: dict[int, list[Rows]] = defaultdict(list)
        self._transfers: dict[int, list[Rows]] = defaultdict(list)
        self._first_count: dict[int, int] = {}
        self._callers: set[int] = set()
        for part, start in zip(table.parts, table.starts, strict=False):
            self._add(part, start)

    def _add(self, part: CallPart, start: int) -> None:
        """Sorts the rows of one input by member."""
        self._callers |= {id(self._table.processes[owner]) for owner in set(part.owners.tolist()) if owner >= 0}
        first: dict[int, int] = {}
        for low in range(0, len(part.members), _AT_ONCE):
            shapes = part.shapes()[low : low + _AT_ONCE]
            members = part.members[low : low + _AT_ONCE]
            if part.p2p.any():
                p2p = part.p2p[shapes]
                kinds = [(self._rows, np.flatnonzero(~p2p)), (self._transfers, np.flatnonzero(p2p))]
            else:
                kinds = [(self._rows, np.arange(len(shapes)))]
            for found, rows in kinds:
                for number, own in rows_by_member(members[rows], rows):
                    found[id(self._table.members[number])].append(own + np.int32(start + low))
                    first[number] = min(first.get(number, len(part.members)), low + int(own[0]))
        for number, row in first.items():
            self._first_count.setdefault(id(self._table.members[number]), part.columns.op_count[row])

    def collectives(self, member: Communicator) -> Rows:
        """The rows of a member's collectives, in order."""
        return joined(self._rows.get(id(member)))

    def transfers(self, member: Communicator) -> Rows:
        """The rows of a member's sends and receives, in order."""
        return joined(self._transfers.get(id(member)))

    def signatures(self, rows: Rows) -> Ints:
        """What each of these calls agrees with, as a number."""
        found = np.empty(len(rows), dtype=np.int64)
        for part, low, high, places in self.in_parts(rows):
            found[low:high] = part.signatures[part.shapes()[places]]
        return found

    def in_parts(self, rows: Rows) -> Iterator[tuple[CallPart, int, int, Rows]]:
        """Where ascending rows lie: the part, which of the rows (from, to), and their places in it."""
        starts = self._table.starts
        low = 0
        while low < len(rows):
            number = bisect.bisect_right(starts, int(rows[low])) - 1
            # a number of another width would be compared with a copy of all rows
            high = int(np.searchsorted(rows, np.int32(starts[number + 1])))
            yield self._table.parts[number], low, high, rows[low:high] - starts[number]
            low = high

    def lanes(self, me: int, rows: Rows) -> dict[tuple[int, int, str], Rows]:
        """The sends and receives of one rank of a group: (sender, receiver, operation) -> rows."""
        found: dict[tuple[int, int, str], list[Rows]] = defaultdict(list)
        for part, low, high, places in self.in_parts(rows):
            codes, places_of_codes = np.unique(part.shapes()[places], return_inverse=True)
            columns = part.columns
            lanes: dict[tuple[int, int, str], int] = {}
            lane_of = np.empty(len(codes), dtype=np.int32)
            for number, code in enumerate(codes.tolist()):
                peer, op = columns.shapes[code].root, columns.ops[columns.shapes[code].op]
                pair = (me, peer) if op == "Send" else (peer, me)
                lane_of[number] = lanes.setdefault((*pair, op), len(lanes))
            names = list(lanes)
            for lane, own in rows_by_member(lane_of[places_of_codes], rows[low:high]):
                found[names[lane]].append(own)
        return {lane: joined(parts) for lane, parts in found.items()}

    def from_the_start(self, group: Group) -> list[Communicator]:
        """The members whose first call is known to be their first; calls of the others cannot be numbered.

        Where no init line stands at all (NCCL_DEBUG_SUBSYS=COLL), a teardown line shows that init lines are printed
        and lost, and so does a first opCount above 0: it begins at 0 in every version.
        """
        members = [m for m in group.members if self._turned.isdisjoint(m.process.files)]
        begun = [m for m in members if m.start is not None or m.complete is not None]
        if begun:
            return begun
        lost = any(m.ended is not None or self._first_count.get(id(m), 0) > 0 for m in members)
        return [] if lost else members

    def ranked(self, group: Group) -> dict[int, Communicator]:
        """Global rank -> member. A member without a call counts only when its process shows NCCL's INFO lines."""
        members = {}
        for member in self.from_the_start(group):
            rank = member.process.rank
            if rank is not None and (id(member.process) in self._callers or member.complete is not None):
                members[rank] = member
        return members
