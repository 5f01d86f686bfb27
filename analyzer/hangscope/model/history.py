"""The calls of each group up to where it stopped, one row a call and one column a rank: what timelines show.

A report holds it only when an output format asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType

from hangscope.records import dataclass


class CallState(StrEnum):
    """How far one rank came with one call."""

    DONE = "done"
    """It completed, or, where its source tells of no ends, all ranks of which there is evidence made it alike."""
    STARTED = "started"
    """It runs on the GPU, and is not known to have completed."""
    WAITING = "waiting"
    """The rank made the call, and nothing shows that it started or completed."""
    DIFFERS = "differs"
    """The rank called something else at this place."""
    MISSING = "missing"
    """The rank left evidence, waits in no earlier call of the group, and did not make this one."""
    NOT_REACHED = "not reached"
    """The rank did not come so far: it waits in an earlier call of the group, or is missing in one."""
    UNKNOWN = ""
    """There is no evidence of the rank, or none that reaches back so far."""


MADE = frozenset({CallState.DONE, CallState.STARTED, CallState.WAITING, CallState.DIFFERS})
"""States of a rank that made the call."""
OPEN = frozenset({CallState.STARTED, CallState.WAITING})
"""States of a rank that made the call and is not known to be through with it."""
PARTED = frozenset({CallState.MISSING, CallState.DIFFERS})
"""States of a rank that the others wait for."""

SOURCE_WORDS: Mapping[str, str] = MappingProxyType({"calls": "NCCL's call lines", "recorder": "flight recorders"})
"""What the calls of a history, or of a comparison, are told by, by its `source`."""


@dataclass(frozen=True, slots=True)
class CallHistory:
    """One collective call of one group.

    Attributes:
        seq: its number in the group, as the source counts.
        op: in PyTorch's spelling.
        size: count and type in words ("4096 float32"), or "".
        where: line of the job's own code that made it, or "". All of what most ranks called.
        states: of each rank of the group, in the order of `GroupHistory.ranks`.
        started: when each rank made the call, seconds as in `Line.time`, None where unknown; () when none is known.
        differing: rank -> what it called instead, for those of state DIFFERS.
    """

    seq: int
    op: str
    size: str
    where: str
    states: tuple[CallState, ...]
    started: tuple[float | None, ...] = ()
    differing: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """The last calls of one process group or communicator.

    Attributes:
        group: its name, as in `CollectiveState.group`.
        description: what the job calls it, or "".
        size: its number of ranks, None when unknown.
        ranks: the global ranks known to be in it, ascending.
        stuck: number of the call that cannot complete, None when there is none.
        left_out: how many earlier calls are not in `calls`.
        beyond: how many later calls are not in `calls`.
        calls: in order of seq.
    """

    group: str
    description: str
    size: int | None
    ranks: tuple[int, ...]
    left_out: int
    calls: tuple[CallHistory, ...]
    stuck: int | None = None
    beyond: int = 0


@dataclass(frozen=True, slots=True)
class Transfer:
    """One send or receive.

    Attributes:
        rank, peer: global ranks; peer is None when unknown.
        op: "send" or "recv".
        group: as in `GroupHistory`.
        seq: its number among the transfers of this rank in this group with this peer and direction, counted from the
            first that the source still knows.
        size, where: as in `CallHistory`.
        state: DONE, STARTED or WAITING.
        started: when the rank made it, seconds as in `Line.time`, or None.
    """

    rank: int
    peer: int | None
    op: str
    group: str
    seq: int
    size: str
    where: str
    state: CallState
    started: float | None = None


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """How far each rank of a group came.

    Attributes:
        group, description, size, ranks: as in `GroupHistory`.
        last: of each rank the number of its last call, as the source counts, or the one in front of all that are known
            when it made none; None where nothing tells.
    """

    group: str
    description: str
    size: int | None
    ranks: tuple[int, ...]
    last: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class History:
    """What the ranks called last.

    Attributes:
        source: "calls" (NCCL's call lines), "recorder" (flight recorders), or, where neither is there and so only
            `counts` is known, "ras" (RAS reports: how many collectives were launched) or "watchdog" (PyTorch's
            watchdogs: the last call enqueued).
        groups: those that are stuck first, then by name.
        transfers: by rank, in the order in which each rank made them.
        left_out: how many groups are not in `groups`.
        counts: how far each rank came in every group, in the order of `groups`.
    """

    source: str
    groups: tuple[GroupHistory, ...]
    transfers: tuple[Transfer, ...] = ()
    left_out: int = 0
    counts: tuple[GroupCounts, ...] = ()
