"""Compares the numbered calls of each group's ranks, and finds the first at which they part."""

from __future__ import annotations

from collections import Counter

import numpy as np

from hangscope.align.calls import OPS, Call, CallTable
from hangscope.align.collectives import Parting, StuckCall
from hangscope.align.groups import Communicator, Group
from hangscope.align.member_rows import NO_ROWS, MemberRows, Rows
from hangscope.align.numbering import Ints
from hangscope.model import Evidence

_LOOK_AHEAD = 8


def find_stuck_calls(
    table: CallTable, groups: list[Group], lost_tails: frozenset[str], turned: frozenset[str] = frozenset()
) -> list[StuckCall]:
    """The first call of every group at which its ranks part, if they do.

    Args:
        table: the numbered calls.
        groups: the communicators.
        lost_tails: files whose last lines are known to be lost (block-buffered output).
        turned: files whose lines are not in order, so that their calls have no numbers.
    """
    if not len(table):
        return []
    finder = _Finder(table, lost_tails, turned)
    stuck = [call for group in groups if (call := finder.parting(group)) is not None]
    for group in groups:
        stuck.extend(finder.unmatched(group))
    return stuck


class _Finder:
    def __init__(self, table: CallTable, lost_tails: frozenset[str], turned: frozenset[str]) -> None:
        self._table = table
        self._lost = lost_tails
        self._rows = MemberRows(table, turned)

    def parting(self, group: Group) -> StuckCall | None:
        members = self._rows.ranked(group)
        calls = {rank: self._rows.collectives(m) for rank, m in members.items()}
        if len(calls) < 2 or not any(len(rows) for rows in calls.values()):
            return None
        longest = max(len(rows) for rows in calls.values())
        shortest = min(len(rows) for rows in calls.values())
        differs = self._first_difference(list(calls.values()))
        if differs is not None:
            return self._mismatch(group, calls, differs)
        if shortest == longest or self._all_ended(members):
            return None
        return self._missing(group, members, calls, shortest)

    def _all_ended(self, members: dict[int, Communicator]) -> bool:
        """Every rank destroyed this communicator: the calls completed, whatever lines are lost."""
        return all(m.ended is not None and m.end_action != "Abort" for m in members.values())

    def _first_difference(self, calls: list[Rows]) -> int | None:
        """The first call number at which two ranks called different things.

        Where any two differ, one of them differs from the rank that made most calls.
        """
        longest = max(calls, key=len)
        reference = self._rows.signatures(longest)
        first = len(reference)
        for rows in calls:
            if rows is longest:
                continue
            most = min(len(rows), first)
            found = np.flatnonzero(self._rows.signatures(rows[:most]) != reference[:most])
            if len(found):
                first = int(found[0])
        return first if first < len(reference) else None

    def _missing(self, group: Group, members: dict[int, Communicator], calls: dict[int, Rows], seq: int) -> StuckCall:
        missing = tuple(sorted(rank for rank, rows in calls.items() if len(rows) <= seq))
        arrived = tuple(sorted(rank for rank, rows in calls.items() if len(rows) > seq))
        waiting = self._call(calls[arrived[0]], seq)
        evidence = [
            self._call(calls[rank], len(calls[rank]) - 1).evidence(f"rank {rank}'s last call here")
            for rank in missing[:3]
            if len(calls[rank])
        ]
        evidence += [
            self._call(calls[rank], seq).evidence(f"rank {rank} made the call and waits") for rank in arrived[:6]
        ]
        files = {file for rank in missing for file in members[rank].process.files}
        return StuckCall(
            group=group.name,
            group_size=group.size,
            members=tuple(sorted(calls)),
            seq=seq,
            op=OPS.get(waiting.op, waiting.op),
            arrived=arrived,
            missing=missing,
            differing={},
            parting=Parting.MISSING,
            odd=missing,
            reliable=not (files & self._lost),
            expected=waiting.describe(),
            evidence=tuple(evidence),
        )

    def _call(self, rows: Rows, seq: int) -> Call:
        return self._table.call(int(rows[seq]))

    # --- different calls --------------------------------------------------------------------------------

    def _mismatch(self, group: Group, calls: dict[int, Rows], seq: int) -> StuckCall:
        present = {rank: rows for rank, rows in calls.items() if len(rows) > seq}
        signatures = {rank: int(self._rows.signatures(rows[seq : seq + 1])[0]) for rank, rows in present.items()}
        votes = Counter(signatures.values())
        top = max(votes.values())
        leaders = [s for s, n in votes.items() if n == top]
        tie = len(leaders) > 1
        # without a majority the lowest rank is taken as the reference: something has to be
        common = signatures[min(signatures)] if tie else leaders[0]
        odd = tuple(sorted(rank for rank, s in signatures.items() if s != common))
        normal = tuple(sorted(rank for rank, s in signatures.items() if s == common))
        missing = tuple(sorted(rank for rank in calls if rank not in present))
        right, wrong = self._call(calls[normal[0]], seq), self._call(calls[odd[0]], seq)
        parting, odd = self._how(calls, normal, odd, seq, tie=tie)
        evidence = [
            self._call(calls[r], seq).evidence(f"rank {r} called this instead") for r in odd[:4] if r in present
        ]
        agreed = tuple(sorted(present.keys() - set(odd)))
        evidence += [self._call(calls[r], seq).evidence(f"call {seq} of rank {r}") for r in agreed[:6]]
        if parting is Parting.SKIPPED:
            evidence += self._twins(calls[normal[0]], seq)
        return StuckCall(
            group=group.name,
            group_size=group.size,
            members=tuple(sorted(calls)),
            seq=seq,
            op=OPS.get(right.op, right.op),
            arrived=agreed,
            missing=missing,
            differing={r: self._call(calls[r], seq).describe() for r in odd if r in present},
            parting=parting,
            odd=odd,
            tie=tie,
            expected=right.describe(),
            found=wrong.describe(),
            evidence=tuple(evidence),
        )

    def _twins(self, rows: Rows, seq: int) -> list[Evidence]:
        """The first call just like the one left out: which of several equal calls was left out, lines cannot tell."""
        signature = self._rows.signatures(rows)
        first = int(np.flatnonzero(signature == signature[seq])[0])
        return [self._call(rows, first).evidence(f"call {first} is the same as call {seq}")] if first < seq else []

    def _how(
        self,
        calls: dict[int, Rows],
        normal: tuple[int, ...],
        odd: tuple[int, ...],
        seq: int,
        *,
        tie: bool,
    ) -> tuple[Parting, tuple[int, ...]]:
        """Names the kind of difference: a call left out or made in addition, else another operation or size."""
        reference = self._longest(calls, normal)
        other = self._longest(calls, odd)
        if self._continues(other, seq, reference, seq):
            return Parting.SKIPPED, odd
        if self._continues(reference, seq, other, seq):
            return (Parting.SKIPPED, normal) if tie and len(odd) == len(normal) else (Parting.EXTRA, odd)
        right, wrong = self._call(calls[normal[0]], seq), self._call(calls[odd[0]], seq)
        same = (right.op, right.root, right.redop) == (wrong.op, wrong.root, wrong.redop)
        return (Parting.SIZE if same else Parting.OPERATION), odd

    def _longest(self, calls: dict[int, Rows], ranks: tuple[int, ...]) -> Ints:
        return self._rows.signatures(max((calls[rank] for rank in ranks), key=len))

    def _continues(self, one: Ints, at: int, whole: Ints, start: int) -> bool:
        """Whether `one` from `at` on is what `whole` does a few calls after `start` (so `one` left these calls out)."""
        rest = one[at : at + _LOOK_AHEAD]
        if not len(rest):
            return False
        for shift in range(1, _LOOK_AHEAD + 1):
            there = whole[start + shift : start + shift + len(rest)]
            if not len(there):
                return False
            if np.array_equal(rest[: len(there)], there):
                return True
        return False

    # --- point to point ---------------------------------------------------------------------------------

    def unmatched(self, group: Group) -> list[StuckCall]:
        """Pairs of a group in which one side made more sends (or receives) than the other made receives (sends)."""
        members = {
            m.group_rank if m.group_rank is not None else m.process.rank: m for m in self._rows.from_the_start(group)
        }
        lanes: dict[tuple[int, int, str], Rows] = {}
        for me, member in members.items():
            if me is not None:
                lanes.update(self._rows.lanes(me, self._rows.transfers(member)))
        found = []
        for sender, receiver in sorted({(s, r) for s, r, _ in lanes}):
            sends, receives = (
                lanes.get((sender, receiver, "Send"), NO_ROWS),
                lanes.get((sender, receiver, "Recv"), NO_ROWS),
            )
            if len(sends) != len(receives) and sender in members and receiver in members:
                found.append(self._pair(group, members[sender], members[receiver], sends, receives))
        return [call for call in found if call is not None]

    def _pair(
        self, group: Group, sender: Communicator, receiver: Communicator, sends: Rows, receives: Rows
    ) -> StuckCall | None:
        waiter, peer = (sender, receiver) if len(sends) > len(receives) else (receiver, sender)
        rank, other = waiter.process.rank, peer.process.rank
        if rank is None or other is None or (waiter.ended is not None and peer.ended is not None):
            return None
        seq = min(len(sends), len(receives))
        more = sends if waiter is sender else receives
        call = self._table.call(int(more[seq]))
        op, wanted = ("send", "recv") if waiter is sender else ("recv", "send")
        lost = set(peer.process.files) & self._lost
        return StuckCall(
            group=group.name,
            group_size=group.size,
            members=tuple(sorted((rank, other))),
            seq=seq,
            op=op,
            arrived=(rank,),
            missing=(other,),
            differing={},
            parting=Parting.P2P,
            odd=tuple(sorted((rank, other))),
            reliable=not lost,
            expected=f"{op} number {seq + 1} between rank {rank} and rank {other}",
            found=f"no {wanted} on rank {other}",
            evidence=(call.evidence(f"rank {rank} waits in this {op}; rank {other} made no matching {wanted}"),),
        )
