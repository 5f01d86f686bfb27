"""Puts the dumps of one stream together: processes, threads and frames, within bounds, whatever the tool."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Protocol

from hangscope.model import Frame, Line, ProcessDump, ThreadStack
from hangscope.parse.stacks.headers import Headers

MAX_DUMPS = 50_000
MAX_THREADS = 2_000
MAX_FRAMES = 1_000
MAX_NAME = 500
MAX_PATH = 400
MAX_COMMAND = 2_000
MAX_TEXT = 1_000
MAX_NOTES = 20
VALUES = frozenset({"rank", "local_rank", "world_size", "step", "group", "src", "dst", "peer"})
"""Local variables worth keeping: they say who a process is where nothing else does."""
_OF_THE_CALL = frozenset({"group", "src", "dst", "peer"})
MAX_VALUE = 200


class Step(enum.Enum):
    """What a reader says of a line."""

    HEAD = "head"
    """It belongs to a dump, and the grammars shall see it, too."""
    BODY = "body"
    """It belongs to a dump and means nothing outside of it."""
    LEFT = "left"
    """It is no line of this tool, here."""


class Reader(Protocol):
    """Reads the dumps of one tool in one stream."""

    def begins(self, text: str) -> bool:
        """Whether this line opens a dump, whatever stands around it."""

    def feed(self, line: Line, text: str) -> Step:
        """Takes a line, or leaves it."""

    def close(self) -> None:
        """Nothing more belongs to the dump that is open."""


class Tool(Protocol):
    """What a module of `hangscope.parse.stacks.tools` provides."""

    BEGINS: tuple[str, ...]
    """With one of these a line begins that can open a dump."""
    Reader: Callable[[Builder], Reader]


class Shelf:
    """The dumps of one input, and whose rank its name tells."""

    def __init__(self) -> None:
        self.dumps: list[ProcessDump] = []
        self._owner: int | None = None

    def add(self, dump: ProcessDump) -> None:
        """One more dump."""
        if len(self.dumps) < MAX_DUMPS:
            self.dumps.append(dump)

    def name_process(self, dump: ProcessDump, pid: int) -> None:
        """A dump is of this process. A file's name tells the rank of the first process in it, not of its children."""
        dump.pid = pid
        dump.line = dataclasses.replace(dump.line, pid=pid)
        if dump.line.rank_source == "file-name":
            self._owner = pid if self._owner is None else self._owner
            if pid != self._owner:
                dump.line = dataclasses.replace(dump.line, rank=None, rank_source="", local_rank=None)


class Builder:
    """The dumps of one stream; the last one is open until `end`."""

    def __init__(self, shelf: Shelf, headers: Headers) -> None:
        self.headers = headers
        self.dump: ProcessDump | None = None
        self.shelf = shelf
        self._thread: ThreadStack | None = None
        self._frames: list[Frame] = []
        self._outermost_first = False
        self._of_user: set[str] = set()

    def begin(self, tool: str, line: Line, pid: int | None = None, command: str = "") -> ProcessDump:
        """Opens the dump of another process; what a header in front of it says of the process goes into its line."""
        self.end()
        header = self.headers.take(line)
        pid = pid if pid is not None else header.pid
        rank, source = line.rank, line.rank_source
        if header.rank is not None and (rank is None or source == "file-name"):
            rank, source = header.rank, "dump-header"
        placed = dataclasses.replace(
            line,
            pid=pid if pid is not None else line.pid,
            host=line.host or header.host,
            rank=rank,
            rank_source=source,
        )
        self.dump = ProcessDump(
            tool,
            placed,
            pid=placed.pid,
            command=(command or header.command)[:MAX_COMMAND],
            time=line.time if line.time is not None else header.time,
        )
        self.shelf.add(self.dump)
        if placed.pid is not None:
            self.shelf.name_process(self.dump, placed.pid)
        return self.dump

    def name_process(self, pid: int) -> None:
        """The open dump turns out to be of this process."""
        if self.dump is not None and self.dump.pid is None:
            self.shelf.name_process(self.dump, pid)

    def thread(self, line: Line, thread: str, name: str = "", *, outermost_first: bool = False) -> ThreadStack:
        """Opens another thread of the open dump."""
        self.end_thread()
        made = ThreadStack(thread[:MAX_NAME], name[:MAX_NAME], "", None, current=False, frames=(), line=line)
        self._thread = made
        self._outermost_first = outermost_first
        if self.dump is not None and len(self.dump.threads) < MAX_THREADS:
            self.dump.threads.append(made)
        return made

    def resume(self, dump: ProcessDump, thread: ThreadStack) -> None:
        """Frames go on with a thread that was left without any."""
        self.end_thread()
        self.dump, self._thread = dump, thread

    @property
    def open_thread(self) -> ThreadStack | None:
        """The thread that frames go to."""
        return self._thread

    @property
    def frames(self) -> list[Frame]:
        """The frames of the open thread so far, as printed."""
        return self._frames

    def frame(self, frame: Frame) -> None:
        """One more frame of the open thread."""
        self._frames.append(frame)
        if len(self._frames) > MAX_FRAMES:
            # the innermost tell what it does, the outermost who it is
            del self._frames[MAX_FRAMES // 2]

    def source(self, code: str) -> None:
        """The line of code of the last frame."""
        if self._frames and not self._frames[-1].source:
            self._frames[-1] = dataclasses.replace(self._frames[-1], source=code.strip()[:MAX_TEXT])

    def note(self, text: str) -> None:
        """Something else that is said about the open thread."""
        if self._thread is not None and len(self._thread.notes) < MAX_NOTES:
            self._thread.notes = (*self._thread.notes, text.strip()[:MAX_TEXT])

    def value(self, name: str, text: str) -> None:
        """A local variable of the last frame, kept when it says who the process is.

        The rank of the user's own code is the global one; torch's functions use the word for ranks within a group.
        What the call itself is about (group, src, dst, peer) the innermost frame knows best.
        """
        if name not in VALUES or self.dump is None or not text or text in ("?", "None"):
            return
        file = self._frames[-1].file or "" if self._frames else ""
        user = not file.startswith("torch/") and "site-packages" not in file and "/torch/" not in file
        known = name in self.dump.values
        if not known or (name not in _OF_THE_CALL and user and name not in self._of_user):
            self.dump.values[name] = text.strip('"')[:MAX_VALUE]
            if user:
                self._of_user.add(name)

    def failed(self, text: str) -> None:
        """What the tool says about its failure."""
        if self.dump is not None and len(self.dump.error) < MAX_TEXT:
            self.dump.error = "; ".join(part for part in (self.dump.error, text.strip()) if part)[:MAX_TEXT]

    def end_thread(self) -> None:
        """Nothing more belongs to the open thread."""
        if self._thread is not None:
            frames = reversed(self._frames) if self._outermost_first else self._frames
            self._thread.frames = tuple(frames)
        self._thread = None
        self._frames = []

    def end(self) -> None:
        """Nothing more belongs to the open dump."""
        self.end_thread()
        self.dump = None
        self._of_user = set()
