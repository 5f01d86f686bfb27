"""The report on one job (report contract, schema_version 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from hangscope.model.evidence import Evidence, Location
from hangscope.model.findings import Finding
from hangscope.records import dataclass

if TYPE_CHECKING:
    from hangscope.model.history import History


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What became of one input (report contract `sources`)."""

    file: str
    kind: str
    lines: int
    bytes: int
    unrecognized: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class InferredVersion:
    """A version that no line states, as far as other lines tell it.

    Attributes:
        first, last: the releases it lies between, both included; None when no end is known.
        text: the same in words ("2.3 to 2.4", "2.29.2 or newer").
        by: what tells ("source line numbers").
        evidence: the lines that do, the most telling one first.
    """

    first: str | None
    last: str | None
    text: str
    by: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class JobInfo:
    """The job as the evidence shows it (report contract `job`). Versions: None, one, or several when ranks differ.

    Attributes:
        inferred: "torch", "nccl" -> what is inferred where no line states the version.
    """

    world_size: int | None
    ranks_seen: tuple[int, ...]
    hosts: tuple[str, ...]
    torch_version: str | tuple[str, ...] | None
    nccl_version: str | tuple[str, ...] | None
    cuda_version: str | tuple[str, ...] | None
    driver_version: str | tuple[str, ...] | None
    launcher: str | None
    first_time: str | None
    last_time: str | None
    inferred: Mapping[str, InferredVersion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectiveState:
    """One stuck call of one group: who arrived, who is missing, who called something else.

    Attributes:
        description: what the job calls the group, or "".
        where: line of the job's own code that made the call, or "".
    """

    group: str
    group_size: int | None
    seq: int
    op: str
    arrived: tuple[int, ...]
    missing: tuple[int, ...]
    differing: Mapping[int, str]
    description: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class RankState:
    """Where one rank is (report contract `ranks`)."""

    rank: int
    host: str | None
    pid: int | None
    gpu: str | None
    state: str
    where: str | None
    last_seen: str | None


@dataclass(frozen=True, slots=True)
class StackState:
    """Processes whose stacks show them at the same place.

    Attributes:
        ranks: their ranks (of children: those of their parents).
        processes: names of those whose rank nobody knows ("pid 17408", "node01.log:5").
        count: how many processes stand there.
        role: "rank", "loader", "checkpoint", "child", "launcher" or "helper".
        state: an id of `grammars/frames.toml`.
        operation: of a collective or transfer, "" when there is none.
        where: innermost frame of the job's own code, ``file:line function``, or None.
        frames: of one of them, innermost first, ``function (file:line)``.
        outlier: few stand here, and most of their kind elsewhere.
        change: between two dumps: "stuck", "slow", "moving", or "" when not known.
        at: the dump whose frames are shown.
        activity: "idle" or "active" as py-spy says of all of them, else "".
    """

    ranks: tuple[int, ...]
    processes: tuple[str, ...]
    count: int
    role: str
    state: str
    operation: str
    where: str | None
    frames: tuple[str, ...]
    outlier: bool
    change: str
    at: Location
    activity: str = ""


@dataclass(frozen=True, slots=True)
class StackNode:
    """A frame of the tree of all stacks, outermost first: ``function (file:line)``, who is in it, what it calls."""

    frame: str
    ranks: tuple[int, ...]
    count: int
    children: tuple[StackNode, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """One value of a comparison, and who has it.

    Attributes:
        text: the value as people read it.
        ranks: global ranks that have it, ascending.
        hosts: hosts that have it.
        names: files of those whose rank and host nobody knows.
        count: how many processes (or hosts, where hosts are compared) have it.
        evidence: a line that shows it; None when it is the absence of a line.
    """

    text: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    names: tuple[str, ...]
    count: int
    evidence: Evidence | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What ranks or hosts have in one respect.

    Attributes:
        topic: "versions", "settings", "network", "channels", "GPUs", "init" or "messages".
        aspect: what is compared: "NCCL", "NCCL_ALGO", "interface".
        must_agree: ranks that differ in it can wait for each other for ever; else it may differ, and is told.
        values: what most have comes first.
    """

    topic: str
    aspect: str
    must_agree: bool
    values: tuple[ComparedValue, ...]

    @property
    def differs(self) -> bool:
        """Whether there is more than one value."""
        return len(self.values) > 1


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step of the causal story.

    Attributes:
        text: what happened, and how long after its cause where that is known.
        cause: of the finding that the step tells of; None for a stuck call.
        explained_by: cause of the finding that led to it, or None.
        delay_s: how much later than that it happened, or None.
    """

    time: str | None
    ranks: tuple[int, ...]
    text: str
    evidence: tuple[Evidence, ...]
    cause: str | None = None
    explained_by: str | None = None
    delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to run, set or collect next.

    Attributes:
        text: plain words.
        command: what to copy, or None.
        decides: the question that the answer settles ("whether rank 5 is in the collective or elsewhere"), or None.
    """

    text: str
    command: str | None = None
    decides: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt before the last one ended.

    Attributes:
        number: as torchrun counts, the first is 0.
        verdict: what its own lines show; no other evidence was looked at.
    """

    number: int
    verdict: Finding


@dataclass(frozen=True, slots=True)
class Report:
    """Everything hangscope has to say about one job (report contract, schema_version 1).

    `history` is there only when it was asked for.
    """

    hangscope_version: str
    job: JobInfo
    verdict: Finding
    findings: tuple[Finding, ...]
    collectives: tuple[CollectiveState, ...]
    ranks: tuple[RankState, ...]
    story: tuple[StoryStep, ...]
    next_steps: tuple[NextStep, ...]
    sources: tuple[SourceRecord, ...]
    warnings: tuple[str, ...]
    stacks: tuple[StackState, ...] = ()
    stack_tree: tuple[StackNode, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    attempts: tuple[AttemptResult, ...] = ()
    history: History | None = None
    schema_version: int = 1
