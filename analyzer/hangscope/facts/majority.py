"""Tells which processes differ from the rest in something that all of them should have alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import TypeVar

from hangscope.align.process import Process

V = TypeVar("V", bound=Hashable)


def expected_value(values: Mapping[int, V], processes: Mapping[int, Process]) -> V:
    """The value that most processes have; between two that are as frequent, that of the lowest rank.

    Args:
        values: process number -> what it has.
        processes: process number -> process.
    """
    holders: dict[V, list[int]] = defaultdict(list)
    for number, value in values.items():
        holders[value].append(number)

    def standing(value: V) -> tuple[int, int, int]:
        numbers = holders[value]
        ranks = [rank for n in numbers if (rank := processes[n].rank) is not None]
        return (-len(numbers), min(ranks, default=1 << 30), min(numbers))

    return min(holders, key=standing)


def ranks_of(processes: list[Process]) -> tuple[int, ...]:
    """Their global ranks, ascending, as far as they are known."""
    return tuple(sorted({p.rank for p in processes if p.rank is not None}))


def hosts_of(processes: list[Process]) -> tuple[str, ...]:
    """Their hosts."""
    return tuple(sorted({p.host for p in processes if p.host}))
