"""The wait-for graph: follows who waits for whom to the ranks that wait for nobody, or to a cycle.

The nodes are stuck calls, not ranks, so its cost does not depend on the size of the job: call A waits for
call B when a rank that is missing in A has arrived in B and waits there.
"""

from __future__ import annotations

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
    mismatched = {rank for call in stuck if call not in calls for rank in (*call.arrived, *call.odd)}
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
    edges = {
        i: [j for j in range(len(calls)) if j != i and not arrived[j].isdisjoint(calls[i].missing)]
        for i in range(len(calls))
    }
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


def _ring(start: int, edges: dict[int, list[int]]) -> list[int]:
    """A shortest ring through `start`, or nothing."""
    paths = [[start]]
    reached = {start}
    while paths:
        following = []
        for path in paths:
            for step in edges[path[-1]]:
                if step == start:
                    return path
                if step not in reached:
                    reached.add(step)
                    following.append([*path, step])
        paths = following
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
