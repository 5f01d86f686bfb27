"""What prefixes and headers in front of a line told about who wrote it and when."""

from __future__ import annotations

from hangscope.model import Line
from hangscope.records import dataclass

Template = tuple[
    str, int | None, str, int | None, str | None, int | None, int | None, float | None, str, str, str
]  # fmt: skip
"""The fields of a `Line` that its prefixes and header decide, in the order of `Line`'s own."""


@dataclass(slots=True)
class Writer:
    """Collected from the left while prefixes come off; see `hangscope.model.Line` for the meanings."""

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
    task: int | None = None
    damaged: bool = False

    def add_stream(self, tag: str) -> None:
        """One more launcher's tag; a tag that only repeats what an outer one told adds nothing."""
        self.stream = f"{self.stream}/{tag}" if self.stream else tag

    def see_time(self, time: float | None) -> None:
        """The outermost time wins: the collector puts it on every line, so it orders all lines of a file."""
        if self.time is None:
            self.time = time

    def copy(self) -> Writer:
        """The same launcher's prefix in front of another header."""
        # by position: dataclasses.replace takes several times as long, and this happens for every header
        return Writer(
            *(self.stream, self.rank, self.rank_source, self.local_rank, self.host, self.pid, self.tid, self.time),
            task=self.task,
        )

    def template(self) -> Template:
        """The attributes in the order of `Line`'s fields behind `raw`."""
        return (
            self.stream,
            self.rank,
            self.rank_source,
            self.local_rank,
            self.host,
            self.pid,
            self.tid,
            self.time,
            self.level,
            self.origin,
            self.header,
        )

    def line(self, file: str, number: int, offset: int, text: str, raw: str) -> Line:
        return Line(file, number, offset, text, raw, *self.template(), self.damaged)
