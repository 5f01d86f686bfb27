"""Lines, the events that grammars make of them, and the facts that follow, with the lines that prove them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hangscope.records import dataclass

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
class Evidence:
    """A line that proves something, and why.

    Attributes:
        at: where it stands.
        text: the line as shown.
        why: what it proves.
        rebuilt: the text was put together from the line's parsed fields (calls are kept as columns, not as lines);
            the report quotes the line itself in its place.
        before, after: the lines around it, in their order, where the report has fetched them.
    """

    at: Location
    text: str
    why: str
    rebuilt: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


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
