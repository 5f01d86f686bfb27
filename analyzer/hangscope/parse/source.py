"""What one input became: its events, its calls, who wrote in it, and how it ends."""

from __future__ import annotations

from dataclasses import field

from hangscope.model import Event, Line, ProcessDump, SourceRecord
from hangscope.parse.by_kind import ByKind
from hangscope.parse.columns import CallColumns, WriterKey
from hangscope.parse.recorder.recording import Recording
from hangscope.records import dataclass

RESTART_KINDS = ("worker_group_failed", "membership_changed")
"""Event kinds that say: the launcher starts the workers anew (torch's elastic agent)."""


@dataclass(slots=True)
class WriterInfo:
    """How much one writer wrote into one file, when, and its first and last words.

    Attributes:
        lines: lines it wrote, call lines among them.
        first_time, last_time: of its first and last line with a time; `first_timed` and `last_timed` are their numbers.
        last_call_line: number of its last collective-call line (0: none); these are not kept as `Line`.
    """

    key: WriterKey
    lines: int = 0
    first_time: float | None = None
    last_time: float | None = None
    first_line: Line | None = None
    last_line: Line | None = None
    last_call_line: int = 0
    first_timed: int = 0
    last_timed: int = 0

    def note(self, line: Line) -> None:
        """Counts one line."""
        self.lines += 1
        if line.time is not None:
            if self.first_time is None:
                self.first_time, self.first_timed = line.time, line.number
            self.last_time, self.last_timed = line.time, line.number
        if line.text:
            if self.first_line is None:
                self.first_line = line
            self.last_line = line

    def see(self, line: Line) -> None:
        """Takes a line that was counted, and may stand before or behind those that were noted."""
        if self.first_line is None or line.number < self.first_line.number:
            self.first_line = line
        if self.last_line is None or line.number > self.last_line.number:
            self.last_line = line

    def see_time(self, number: int, time: float) -> None:
        """The same for the time of a line, given its number."""
        if self.first_time is None or number < self.first_timed:
            self.first_time, self.first_timed = time, number
        if self.last_time is None or number > self.last_timed:
            self.last_time, self.last_timed = time, number


def recording_writer(recording: Recording) -> WriterInfo:
    """The process that a flight recorder's dump is of; it wrote no lines."""
    source = "recorder" if recording.rank is not None else ""
    return WriterInfo(WriterKey(recording.file, rank=recording.rank, rank_source=source))


@dataclass(slots=True)
class ParsedSource:
    """Everything later layers need from one input.

    Attributes:
        record: the entry of the report's `sources`.
        events: recognized lines, in file order, repeats folded.
        calls: collective-call lines, as columns.
        writers: every writer of the file.
        block_buffered: the file ends as block-buffered output of a killed or hung process does: its size is a
            multiple of 4096, or its last line has no newline (glibc's stdout buffer, nccl-observed 1.3).
        attempt: number of the launcher's attempt that the path names (torchrun's attempt_K), else None.
        dumps: stack dumps of processes, in file order; every dump's line has a writer in `writers`.
        recordings: flight-recorder dumps, each of one process; every one has a writer in `writers`.
        empty: no line at all.
    """

    record: SourceRecord
    events: list[Event] = field(default_factory=list)
    calls: CallColumns = field(default_factory=CallColumns)
    writers: list[WriterInfo] = field(default_factory=list)
    block_buffered: bool = False
    attempt: int | None = None
    dumps: list[ProcessDump] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)
    _by_kind: ByKind | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def by_kind(self) -> ByKind:
        """The events by kind; to be asked for when all are there."""
        if self._by_kind is None or not self._by_kind.is_of(self.events):
            self._by_kind = ByKind(self.events)
        return self._by_kind

    @property
    def empty(self) -> bool:
        return self.record.lines == 0
