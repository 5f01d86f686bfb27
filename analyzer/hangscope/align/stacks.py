"""Places stack dumps: which rank each belongs to, and where its process stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hangscope.align.identity import Identity, Process
from hangscope.model import Frame, ProcessDump, ThreadStack
from hangscope.parse.source import ParsedSource


@dataclass(frozen=True, slots=True)
class Position:
    """Where one process stands in one dump.

    Attributes:
        rank: global rank; of a loader or checkpoint child, its parent's; None when nobody knows.
        process: the process, None when none could be told apart.
        dump: the dump it is taken from.
        round: 0 for the first dump of this process, 1 for the next, ...
        role: "rank" for the training process itself, else "loader", "checkpoint", "launcher", "child" or "helper".
        thread: the thread that decides (the one that waits, else the main thread).
        state: what it does there, an id of `grammars/frames.toml`.
        frame: the frame that tells so (all_reduce in distributed_c10d.py).
        user: innermost frame of the job's own code.
        states: the state of every thread, in the order of `dump.threads`.
    """

    rank: int | None
    process: Process | None
    dump: ProcessDump
    round: int
    role: str
    thread: ThreadStack | None
    state: str
    frame: Frame | None
    user: Frame | None
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stacks:
    """All stack dumps of a job, placed.

    Attributes:
        positions: every process of every dump, by rank, then in the order of the dumps.
    """

    positions: tuple[Position, ...] = ()

    def last(self) -> dict[int, Position]:
        """Rank -> where its training process stands in its last dump."""
        return {p.rank: p for p in self.positions if p.rank is not None and p.role == "rank"}


def place_stacks(sources: Sequence[ParsedSource], identity: Identity) -> Stacks:
    """Places every dump of the inputs."""
    del sources, identity
    return Stacks()
