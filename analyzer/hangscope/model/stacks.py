"""Dumps of stacks: processes, threads and frames."""

from __future__ import annotations

from dataclasses import field

from hangscope.model.evidence import Line
from hangscope.records import dataclass


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
