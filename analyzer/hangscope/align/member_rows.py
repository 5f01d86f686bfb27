"""Sorts NCCL's call lines by the communicator object they were made on: which rows are whose, in order."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hangscope.align.calls import CallPart, CallTable
from hangscope.align.groups import Communicator, Group
from hangscope.align.numbering import Ints

Rows = npt.NDArray[np.int32]
"""Numbers of rows of the table of calls, ascending."""

NO_ROWS: Rows = np.empty(0, dtype=np.int32)


def joined(parts: list[Rows] | None) -> Rows:
    """Rows of several inputs as one; the list keeps them so."""
    if not parts:
        return NO_ROWS
    if len(parts) > 1:
        parts[:] = [np.concatenate(parts)]
    return parts[0]


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
        shapes, members = part.shapes(), part.members
        self._callers |= {id(self._table.processes[owner]) for owner in part.owners.tolist() if owner >= 0}
        p2p = part.p2p[shapes] if part.p2p.any() else np.zeros(len(shapes), dtype=np.bool_)
        for found, rows in ((self._rows, np.flatnonzero(~p2p)), (self._transfers, np.flatnonzero(p2p))):
            mine = members[rows]
            # numbers of two bytes are sorted by counting them
            small = mine.astype(np.uint16) if mine.max(initial=0) < 1 << 16 else mine
            order = rows[np.argsort(small, kind="stable")].astype(np.int32)
            bounds = np.cumsum(np.bincount(mine, minlength=len(self._table.members))).tolist()
            for number, (low, high) in enumerate(zip([0, *bounds], bounds, strict=False)):
                if low < high:
                    found[id(self._table.members[number])].append(order[low:high] + np.int32(start))
        first = np.full(len(self._table.members), -1, dtype=np.int64)
        first[members[::-1]] = np.arange(len(members) - 1, -1, -1)
        for number in np.flatnonzero(first >= 0).tolist():
            self._first_count.setdefault(id(self._table.members[number]), part.columns.op_count[int(first[number])])

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
        if not len(rows):
            return
        starts = self._table.starts
        first = bisect.bisect_right(starts, int(rows[0])) - 1
        last = bisect.bisect_right(starts, int(rows[-1])) - 1
        for number in range(first, last + 1):
            low, high = np.searchsorted(rows, (starts[number], starts[number + 1])).tolist()
            if low < high:
                yield self._table.parts[number], low, high, rows[low:high] - starts[number]

    def lanes(self, me: int, rows: Rows) -> dict[tuple[int, int, str], Rows]:
        """The sends and receives of one rank of a group: (sender, receiver, operation) -> rows."""
        found: dict[tuple[int, int, str], list[Rows]] = defaultdict(list)
        for part, low, high, places in self.in_parts(rows):
            shapes = part.shapes()[places]
            columns = part.columns
            by_lane: dict[tuple[int, str], list[int]] = defaultdict(list)
            for code in np.unique(shapes).tolist():
                by_lane[columns.shapes[code].root, columns.ops[columns.shapes[code].op]].append(code)
            for (peer, op), codes in by_lane.items():
                pair = (me, peer) if op == "Send" else (peer, me)
                found[*pair, op].append(rows[low:high][np.isin(shapes, codes)])
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
