"""What two jobs differ in: a good run and a bad one, say."""

from __future__ import annotations

from enum import StrEnum

from hangscope.model.evidence import Location
from hangscope.model.findings import Finding
from hangscope.model.report import ComparedValue, JobInfo
from hangscope.records import dataclass


class Change(StrEnum):
    """In which way two jobs differ in one aspect."""

    SPLIT = "split"
    """The ranks or hosts of the bad job differ among each other, those of the good one do not."""
    CHANGED = "changed"
    """The values are others."""
    ELSEWHERE = "elsewhere"
    """The values are the same, and other ranks have them."""
    ONLY_GOOD = "only-good"
    """Only the good job says it."""
    ONLY_BAD = "only-bad"
    """Only the bad job says it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What two jobs differ in, in one respect.

    Attributes:
        topic: "topology", or as in `Comparison.topic`.
        aspect: as in `Comparison.aspect`.
        change: in which way.
        must_agree: ranks of one job that differ in it can wait for each other for ever.
        good, bad: the values of each job, what most have first; empty where it says nothing.
        telling: both jobs say it, or the one that does not would have if it were so.
    """

    topic: str
    aspect: str
    change: Change
    must_agree: bool
    good: tuple[ComparedValue, ...]
    bad: tuple[ComparedValue, ...]
    telling: bool = True


@dataclass(frozen=True, slots=True)
class Called:
    """Ranks that made the same call, and where one of them shows it.

    Attributes:
        call: in words ("all_reduce of 4096 float32"), "" for ranks that made no call there.
        ranks: global ranks, ascending.
        where: line of the job's own code, or "".
        at: the line of the log or the dump, None where nothing shows it.
    """

    call: str
    ranks: tuple[int, ...]
    where: str = ""
    at: Location | None = None


@dataclass(frozen=True, slots=True)
class CallDifference:
    """The first call of one group at which the two jobs part.

    Attributes:
        group: its name in the bad job.
        size: its number of ranks, None when unknown.
        description: what the job calls it, or "".
        seq: number of the call in the group, as the source counts.
        equal_before: how many calls before it both jobs show, and all are equal.
        good, bad: who called what there; most ranks first.
    """

    group: str
    size: int | None
    description: str
    seq: int
    equal_before: int
    good: tuple[Called, ...]
    bad: tuple[Called, ...]


@dataclass(frozen=True, slots=True)
class CallsCompared:
    """The calls of two jobs side by side.

    Attributes:
        source: "calls" (NCCL's call lines), "recorder" (flight recorders), or "" when the jobs have none in common.
        groups: how many groups of the bad job have a counterpart in the good one.
        equal: how many calls, over these groups, are equal up to where the jobs part or one of them ends.
        differences: the first call of each group at which the jobs part, those where the bad job is stuck first.
        only_good, only_bad: names of groups that have calls and no counterpart.
    """

    source: str = ""
    groups: int = 0
    equal: int = 0
    differences: tuple[CallDifference, ...] = ()
    only_good: tuple[str, ...] = ()
    only_bad: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobSide:
    """One of the two jobs: how the user named it, what it is, and its verdict."""

    name: str
    job: JobInfo
    verdict: Finding


@dataclass(frozen=True, slots=True)
class JobDifference:
    """A good and a bad job, compared.

    Attributes:
        differences: what differs, what deserves the first look first.
        equal: aspects that are equal, topic and name.
        calls: where their calls part.
    """

    hangscope_version: str
    good: JobSide
    bad: JobSide
    differences: tuple[Difference, ...]
    equal: tuple[tuple[str, str], ...]
    calls: CallsCompared
    schema_version: int = 1
