"""How far a fault reaches: one rank, all ranks of a host, or the whole job."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from hangscope.records import dataclass

FEWEST = 3
"""What two ranks have in common says nothing of a third; from here on "all" is worth saying."""


@dataclass(frozen=True, slots=True)
class World:
    """Who is in the job.

    Attributes:
        size: number of its ranks, or None when nobody says.
        hosts: rank -> its host, as far as it is known.
    """

    size: int | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)

    def is_all(self, ranks: Collection[int]) -> bool:
        """Whether these are all ranks of the job, and enough of them to say so."""
        return self.size is not None and self.size >= FEWEST and set(ranks) == set(range(self.size))

    def hosts_of(self, ranks: Collection[int]) -> tuple[str, ...]:
        """The hosts of these ranks; empty when one of them is not known."""
        if not all(rank in self.hosts for rank in ranks):
            return ()
        return tuple(sorted({self.hosts[rank] for rank in ranks}))


def extent_words(ranks: Collection[int], world: World) -> str:
    """What it means that just these ranks are at fault, as a sentence; "" where it means nothing.

    A fault of all ranks is one of what they share. A fault of all ranks of one host, and of no others, is one of
    that host, as long as there are ranks elsewhere to compare with.
    """
    if world.is_all(ranks):
        return (
            f"All {world.size:,} ranks are at fault alike: look for the reason in what they share (code, data, "
            "settings, image), not in one of them."
        )
    hosts = world.hosts_of(ranks)
    if len(hosts) != 1 or len(ranks) < 2:
        return ""
    there = {rank for rank, host in world.hosts.items() if host == hosts[0]}
    elsewhere = len(world.hosts) - len(there)
    if there == set(ranks) and elsewhere >= 1 and world.size is not None and len(world.hosts) == world.size:
        return f"These are all ranks of {hosts[0]}, and none of another host: look for the reason on that host."
    return ""
