"""One process of the job, as far as its lines and dumps let it be told apart."""

from __future__ import annotations

from dataclasses import field

from hangscope.model import Event, Line
from hangscope.parse.by_kind import ByKind
from hangscope.parse.columns import WriterKey
from hangscope.parse.source import WriterInfo
from hangscope.records import dataclass
from hangscope.sources.origin import FileHints


@dataclass(slots=True)
class Process:
    """One process of the job (or its launcher), as far as the evidence lets it be told apart.

    Attributes:
        rank: global rank, or None.
        rank_source: key of `TRUST` that decided it, or "".
        local_rank, host, pid: as the evidence has them, or None.
        gpu: CUDA device index with its bus id where NCCL printed it, or None.
        files, streams: where its lines are.
        first_time, last_time: of its lines that carry a time.
        first_line, last_line: its first and last words.
        line_count: lines it wrote.
        events: its recognized lines, in file order.
    """

    rank: int | None = None
    rank_source: str = ""
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    gpu: str | None = None
    files: tuple[str, ...] = ()
    streams: tuple[tuple[str, str], ...] = ()
    first_time: float | None = None
    last_time: float | None = None
    first_line: Line | None = None
    last_line: Line | None = None
    line_count: int = 0
    events: list[Event] = field(default_factory=list)
    _by_kind: ByKind | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def by_kind(self) -> ByKind:
        """The events by kind; to be asked for when all are there."""
        if self._by_kind is None or not self._by_kind.is_of(self.events):
            self._by_kind = ByKind(self.events)
        return self._by_kind

    def describe(self, key: WriterKey, hint: FileHints) -> None:
        """Adds what one writer knows to its self."""
        self.host = self.host or key.host or hint.host
        self.pid = self.pid if self.pid is not None else key.pid
        if self.local_rank is None:
            self.local_rank = key.local_rank if key.local_rank is not None else hint.local_rank
        if key.file not in self.files:
            self.files = (*self.files, key.file)
        if (key.file, key.stream) not in self.streams:
            self.streams = (*self.streams, (key.file, key.stream))

    def add_lines(self, info: WriterInfo) -> None:
        """Adds when a writer wrote, and its first and last words."""
        self.line_count += info.lines
        if info.first_time is not None and (self.first_time is None or info.first_time < self.first_time):
            self.first_time = info.first_time
        if self.first_line is None:
            self.first_line = info.first_line
        if info.last_time is not None and (self.last_time is None or info.last_time >= self.last_time):
            self.last_time = info.last_time
        last = info.last_line
        if last is not None and (self.last_line is None or _is_later(last, self.last_line)):
            self.last_line = last


def gpu_of(event: Event) -> str | None:
    """The device that a process joins a communicator with: index, and bus id where NCCL prints it (2.5.6 and later)."""
    index, bus = event.fields.get("cuda_dev"), event.fields.get("bus_id")
    if index is None:
        return None
    return f"{index} (bus {bus})" if bus else str(index)


def _is_later(line: Line, than: Line) -> bool:
    if line.file == than.file:
        return line.number >= than.number
    return (line.time or 0.0) >= (than.time or 0.0)
