"""Calls that cannot complete, whatever tells of them: who arrived, who is missing, who called something else."""

from __future__ import annotations

import enum

from hangscope.model import Evidence
from hangscope.records import dataclass


class Parting(enum.StrEnum):
    """How the ranks of a group part at a call."""

    MISSING = "missing"
    SKIPPED = "skipped"
    EXTRA = "extra"
    OPERATION = "operation"
    SIZE = "size"
    P2P = "p2p"


@dataclass(frozen=True, slots=True)
class StuckCall:
    """A call that cannot complete.

    Attributes:
        group, group_size: the communicator or process group.
        members: its global ranks, as far as known.
        seq: number of the call in its source's own counting (NCCL lines: from 0, for each communicator).
        op: the operation, in PyTorch's spelling.
        arrived, missing: global ranks.
        differing: rank -> what it called instead.
        parting: how the ranks part.
        odd: the ranks that the majority is against (for `MISSING`: the missing ones).
        tie: there is no majority (two ranks, or two halves).
        reliable: no rank's last lines are known to be lost.
        expected, found: the majority's call and the odd ones' call in words ("" when there is none).
        source: which counting it is ("nccl", "watchdog", ...).
        evidence: the odd ranks' lines first.
        description: what the job calls the group ("DATA_PARALLEL_GROUP"), or "".
        where: line of the job's own code that made the call, "file:line function", or "".
        started: ranks whose device has begun it, as far as that is recorded.
    """

    group: str
    group_size: int | None
    members: tuple[int, ...]
    seq: int
    op: str
    arrived: tuple[int, ...]
    missing: tuple[int, ...]
    differing: dict[int, str]
    parting: Parting
    odd: tuple[int, ...] = ()
    tie: bool = False
    reliable: bool = True
    expected: str = ""
    found: str = ""
    source: str = "nccl"
    evidence: tuple[Evidence, ...] = ()
    description: str = ""
    where: str = ""
    started: tuple[int, ...] = ()
