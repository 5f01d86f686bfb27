"""The values that cross layers: lines, events, facts, findings and the report.

Everything here is plain data. Nothing in this module reads, parses or decides.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | int | float | bool | None | tuple[int, ...] | tuple[str, ...]
"""What an event's or a fact's field can hold."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a line stands: file as named in the report, 1-based line (None for binary sources), byte offset."""

    file: str
    line: int | None
    offset: int = 0


@dataclass(slots=True)
class Line:
    """One logical line: a physical line, or a piece of one, without what launchers and log drivers put around it.

    Attributes:
        file: name of the input as the report shows it.
        number: 1-based physical line number.
        offset: byte offset of the physical line in the (decompressed) file.
        text: the payload, prefixes and headers of launchers removed, control characters removed.
        raw: the physical line as it is shown to people (cleaned of control characters, prefixes kept).
        stream: which writer inside the file, as the launcher's tag tells it ("default3", "1,3", "3"); "" if one writer.
        rank: global rank when the line itself says so (``[rank3]:``, ``srun -l``, ``mpirun --tag-output``), else None.
        rank_source: what said so: "rank-prefix", "srun", "mpirun", "file-name", ... ("" when rank is None).
        local_rank: index on its host, when the line says so (torchrun's ``[default3]:``).
        host: host named by the prefix or header, else None.
        pid: process id named by the prefix or header, else None.
        tid: thread id, else None.
        time: seconds since 1970 as if the printed time were UTC (zone unknown), else None.
        level: severity as printed by the header ("INFO", "WARN", "E", "W", ...), else "".
        origin: the header's own source location ("init.cc:783", "ProcessGroupNCCL.cpp:607"), else "".
        header: which header stood in front ("nccl", "c10", "python", ...), else "".
        damaged: cut, glued or torn; its fields deserve less trust.
    """

    file: str
    number: int
    offset: int
    text: str
    raw: str
    stream: str = ""
    rank: int | None = None
    rank_source: str = ""
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    tid: int | None = None
    time: float | None = None
    level: str = ""
    origin: str = ""
    header: str = ""
    damaged: bool = False

    @property
    def location(self) -> Location:
        return Location(self.file, self.number, self.offset)


@dataclass(slots=True)
class Event:
    """One recognized line (or block), typed by a grammar.

    Attributes:
        source: the grammar that recognized it ("nccl", "torch", "scheduler", ...).
        kind: the alias of the grammar's alternative.
        fields: the named parts, typed by their terminals.
        line: the line it was found on (first line of a block).
        count: how many times this very event was printed by this process (repeats are folded into the first).
        rank: global rank, filled in by align; None when nobody knows.
        process_host: host of its process, filled in by align for lines that name none; None when nobody knows.
    """

    source: str
    kind: str
    fields: dict[str, Value]
    line: Line
    count: int = 1
    rank: int | None = None
    process_host: str | None = None

    @property
    def host(self) -> str | None:
        """The host that the line names, else that of its process."""
        return self.process_host if self.line.host is None else self.line.host

    @property
    def pid(self) -> int | None:
        return self.line.pid

    @property
    def time(self) -> float | None:
        return self.line.time

    def number(self, field: str) -> int | None:
        """A field that is a whole number; None when it is not there or something else."""
        value = self.fields.get(field)
        return value if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack.

    Attributes:
        function: as printed; py-spy gives qualified names from Python 3.11 on (``Thread.run``), others bare ones.
        file: its source file, or the library of a native frame; None when the dump does not say.
        line: line of code there; None when unknown.
        native: a frame of C or C++ code.
        at: number of the line of the dump that shows it (None where a dump has no lines).
        source: the line of code itself, where the dump prints it (pystack, py-bt), else "".
    """

    function: str
    file: str | None = None
    line: int | None = None
    native: bool = False
    at: int | None = None
    source: str = ""


@dataclass(slots=True)
class ThreadStack:
    """The stack of one thread.

    Attributes:
        thread: its id, as printed.
        name: its name ("MainThread", "pt_data_worker"), "" when not printed.
        activity: "idle" or "active" as py-spy says; "" when the tool says nothing.
        gil: it holds the GIL; None when the tool says nothing.
        current: faulthandler's "Current thread".
        frames: innermost first, whatever order the tool prints.
        line: its head line (for a dump without lines: the first line of its file).
        notes: other things said about it ("Garbage-collecting", "Waiting for the GIL").
    """

    thread: str
    name: str
    activity: str
    gil: bool | None
    current: bool
    frames: tuple[Frame, ...]
    line: Line
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class ProcessDump:
    """One dump of one process: its threads at one moment.

    Attributes:
        tool: "py-spy", "faulthandler", "pystack", "gdb", "lldb" or "py-bt".
        line: its first line; ``line.pid``, ``line.rank``, ``line.host`` say what the dump or its header does.
        threads: as printed.
        pid, parent_pid: of the process, None when unknown.
        command: its command line or title, "" when unknown.
        python: version of its Python, "" when unknown.
        reason: what made the process dump itself ("Timeout (0:00:25)!", "Fatal Python error: Aborted"), or "".
        error: what the tool said when it could not take the dump, or part of it, else "".
        time: when, in seconds as in `Line.time`; None when nothing says.
        values: local variables that say who a process is (rank, local_rank, world_size, step, group, src, dst, peer).
        cut: the file ends in the middle of it, so that its last thread lacks frames, and threads may be missing.
    """

    tool: str
    line: Line
    threads: list[ThreadStack] = field(default_factory=list)
    pid: int | None = None
    parent_pid: int | None = None
    command: str = ""
    python: str = ""
    reason: str = ""
    error: str = ""
    time: float | None = None
    values: dict[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that proves something, and why.

    Attributes:
        at: where it stands.
        text: the line as shown.
        why: what it proves.
        rebuilt: the text was put together from the line's parsed fields (calls are kept as columns, not as lines);
            the report quotes the line itself in its place.
    """

    at: Location
    text: str
    why: str
    rebuilt: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """Something the evidence shows, without opinion.

    Attributes:
        kind: name of the fact; rules refer to it.
        fields: the typed details; rules test them, templates quote them.
        ranks: global ranks it speaks about, ascending (for a fault: those it happened to).
        hosts: hosts it speaks about.
        group: communicator or process group, or "".
        affected: ranks that suffer from it.
        time: when, seconds as in `Line.time`, or None.
        evidence: lines that show it, the best one first.
    """

    kind: str
    fields: Mapping[str, Value] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    group: str = ""
    affected: tuple[int, ...] = ()
    time: float | None = None
    evidence: tuple[Evidence, ...] = ()


class Role(enum.StrEnum):
    """What part a finding plays (report contract)."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    CONTRIBUTING = "contributing"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do: plain words, and the command or setting when there is one."""

    text: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Consequence:
    """A finding that another one explains.

    Attributes:
        cause, rule: of the finding that is explained.
        ranks: at fault in it, or, where it blames none, those that suffer.
        delay_s: how much later it happened; None when either time is unknown, below 0 when clocks disagree.
    """

    cause: str
    rule: str
    ranks: tuple[int, ...]
    delay_s: float | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that a rule found: the report contract's keys, its time, what it explains, what was said beside it."""

    cause: str
    role: Role
    title: str
    ranks: tuple[int, ...]
    affected_ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    confidence: float
    explanation: str
    remedies: tuple[Remedy, ...]
    evidence: tuple[Evidence, ...]
    rule: str
    explained_by: str | None = None
    time: float | None = None
    explains: tuple[Consequence, ...] = ()
    also_said: tuple[Evidence, ...] = ()


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
    """Everything hangscope has to say about one job (report contract, schema_version 1)."""

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
    schema_version: int = 1
