"""Tells which of several unlike exceptions came first; the others are faults of their own, or what it led to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from hangscope.align.clocks import Clocks
from hangscope.records import dataclass

_SAME_CLOCK_S = 0.5
"""On one clock: exceptions so close to each other may have been printed in any order."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception that gives a reason.

    Attributes:
        what: its type and where it was raised: ranks that raise the same there have the same fault.
        rank, host, time: who and when, as far as it is known; seconds as in `Line.time`.
    """

    what: tuple[str, str]
    rank: int | None
    host: str | None
    time: float | None


def find_later(raised: Sequence[Raised], first_ranks: Collection[int], clocks: Clocks | None) -> frozenset[int]:
    """Positions of the exceptions that are unlike the first one; empty when nothing tells which was first.

    The times tell, where all have one and their clocks allow it; else the one rank that a launcher calls its first
    failure.

    Args:
        raised: the exceptions.
        first_ranks: ranks that launchers call the first failure (each agent of torchrun names its own).
        clocks: the clocks of the hosts; None when the job has one host.
    """
    alike: dict[tuple[str, str], list[Raised]] = defaultdict(list)
    for one in raised:
        alike[one.what].append(one)
    if len(alike) < 2:
        return frozenset()
    first = _first_by_time(alike, clocks) or _first_by_launcher(alike, first_ranks)
    return frozenset(at for at, one in enumerate(raised) if first is not None and one.what != first)


def _first_by_time(alike: dict[tuple[str, str], list[Raised]], clocks: Clocks | None) -> tuple[str, str] | None:
    earliest = []
    for found in alike.values():
        timed = [(one.time, one) for one in found if one.time is not None]
        if len(timed) < len(found):
            return None
        earliest.append(min(timed, key=lambda pair: pair[0]))
    earliest.sort(key=lambda pair: pair[0])
    (time, one), (next_time, other) = earliest[:2]
    hosts, others = ([each.host] if each.host else [] for each in (one, other))
    margin_s = _SAME_CLOCK_S if clocks is None else max(_SAME_CLOCK_S, clocks.uncertainty_s(hosts, others))
    return one.what if next_time - time >= margin_s else None


def _first_by_launcher(
    alike: dict[tuple[str, str], list[Raised]], first_ranks: Collection[int]
) -> tuple[str, str] | None:
    named = [what for what, found in alike.items() if any(one.rank in first_ranks for one in found)]
    return named[0] if len(named) == 1 and len(first_ranks) == 1 else None
