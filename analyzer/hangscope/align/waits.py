"""The wait-for graph: follows who waits for whom to the ranks that wait for nobody, or to a cycle.

The nodes are stuck calls, not ranks: call A waits for call B when a rank that is missing in A has arrived in B and
waits there. Its cost grows with the ranks that arrived or are missing, not with the pairs of calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hangscope.align.collectives import Parting, StuckCall
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class Waits:
    """What the wait-for graph says.

    Attributes:
        roots: stuck call -> the ranks missing in it that wait nowhere: where the trouble begins.
        cycles: calls that wait for each other, each with the ranks that stand crosswise (the smaller side).
    """

    roots: tuple[tuple[StuckCall, tuple[int, ...]], ...]
    cycles: tuple[tuple[tuple[StuckCall, ...], tuple[int, ...]], ...]


def follow_waits(stuck: Sequence[StuckCall]) -> Waits:
    """Follows the waits of the calls in which ranks are missing (mismatches are roots by themselves)."""
    calls = [call for call in stuck if call.parting in (Parting.MISSING, Parting.P2P)]
    others = (call for call in stuck if call.parting not in (Parting.MISSING, Parting.P2P))
    mismatched = {rank for call in others for rank in (*call.arrived, *call.odd)}
    arrived = [frozenset(call.arrived) for call in calls]
    waiting = frozenset().union(*arrived, mismatched) if calls else frozenset()
    roots = []
    for call in calls:
        free = tuple(rank for rank in call.missing if rank not in waiting)
        if free:
            roots.append((call, free))
    cycles = _cycles(calls, arrived)
    return Waits(tuple(roots), tuple(cycles))


def _cycles(
    calls: Sequence[StuckCall], arrived: Sequence[frozenset[int]]
) -> list[tuple[tuple[StuckCall, ...], tuple[int, ...]]]:
    """Pairs and longer rings of calls that wait for each other; each call belongs to one ring at most."""
    waits_in: dict[int, list[int]] = defaultdict(list)
    for number, ranks in enumerate(arrived):
        for rank in ranks:
            waits_in[rank].append(number)
    edges = {
        i: sorted({j for rank in call.missing for j in waits_in.get(rank, ())} - {i}) for i, call in enumerate(calls)
    }
    edges = _within_rings(edges)
    found = []
    seen: set[int] = set()
    for start in range(len(calls)):
        if start in seen:
            continue
        ring = _ring(start, edges)
        if ring and seen.isdisjoint(ring):
            seen.update(ring)
            members = tuple(calls[i] for i in ring)
            found.append((members, _crosswise(members)))
    return found


def _within_rings(edges: dict[int, list[int]]) -> dict[int, list[int]]:
    """The edges without chains that lead away from rings or towards them; no ring goes through these.

    A chain of thousands of groups would be followed anew from each of them.
    """
    backwards: dict[int, list[int]] = {call: [] for call in edges}
    for start, ends in edges.items():
        for end in ends:
            backwards[end].append(start)
    inside = _without_ends(edges, backwards) & _without_ends(backwards, edges)
    return {call: [end for end in edges[call] if end in inside] if call in inside else [] for call in edges}


def _without_ends(edges: dict[int, list[int]], backwards: dict[int, list[int]]) -> set[int]:
    """The calls from which the edges can be followed for ever."""
    left = {call: len(ends) for call, ends in edges.items()}
    ended = [call for call, count in left.items() if not count]
    for call in ended:
        for before in backwards[call]:
            left[before] -= 1
            if not left[before]:
                ended.append(before)
    return edges.keys() - set(ended)


def _ring(start: int, edges: dict[int, list[int]]) -> list[int]:
    """A shortest ring through `start`, or nothing."""
    before = {start: start}
    reached = [start]
    for call in reached:
        for step in edges[call]:
            if step == start:
                ring = [call]
                while ring[-1] != start:
                    ring.append(before[ring[-1]])
                return ring[::-1]
            if step not in before:
                before[step] = call
                reached.append(step)
    return []


def _crosswise(ring: tuple[StuckCall, ...]) -> tuple[int, ...]:
    """The ranks that stand in another call of the ring than the one they are missed in; the smaller side of it."""
    sides = []
    for i, call in enumerate(ring):
        there = ring[(i + 1) % len(ring)]
        sides.append(tuple(sorted(set(call.missing) & set(there.arrived))))
    sides = [side for side in sides if side]
    if any(call.parting is Parting.P2P for call in ring):
        return tuple(
            sorted(
                {rank for side in sides for rank in side} | {r for c in ring if c.parting is Parting.P2P for r in c.odd}
            )
        )
    return min(sides, key=lambda side: (len(side), tuple(-rank for rank in side)), default=())
