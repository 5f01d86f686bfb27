"""Finds the stack dumps among the lines of one stream, and hands their lines to the reader of their tool."""

from __future__ import annotations

from hangscope.model import Line, ProcessDump
from hangscope.parse.stacks.builder import Builder, Reader, Shelf, Step
from hangscope.parse.stacks.headers import NOTHING, Headers, read_header
from hangscope.parse.stacks.tools import all_tools
from hangscope.records import dataclass

MAX_FOREIGN = 30
"""So many lines of others may stand between two lines of a dump, where several ranks write into one stream."""

_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Taken:
    """A line that belongs to a dump.

    Attributes:
        dump: the dump; None while it is not yet certain that there is one.
        head: the grammars shall see it, too.
    """

    dump: ProcessDump | None
    head: bool


class StackAssembler:
    """Takes the lines of one stream in order; the dumps go onto the shelf it was given."""

    def __init__(self, shelf: Shelf) -> None:
        self._headers = Headers()
        self._builder = Builder(shelf, self._headers)
        tools = all_tools()
        self._readers: list[tuple[tuple[str, ...], Reader]] = [(t.BEGINS, t.Reader(self._builder)) for t in tools]
        self._begins = tuple(begin for tool in tools for begin in tool.BEGINS)
        self._open: Reader | None = None
        self._foreign = 0

    def feed(self, line: Line) -> Taken | None:
        """Takes one line; None when it belongs to no dump."""
        text = line.text
        if self._open is None:
            if text.startswith(self._begins):
                return self._try_all(line, text)
            if text:
                self._headers.see(line)
            return None
        return self._feed_open(self._open, line, text)

    @property
    def open_dump(self) -> ProcessDump | None:
        """The dump that the next line may still belong to."""
        return self._builder.dump if self._open is not None else None

    def flush(self) -> None:
        """Ends the input."""
        if self._open is not None:
            self._close(self._open)

    def _feed_open(self, reader: Reader, line: Line, text: str) -> Taken | None:
        step = reader.feed(line, text)
        if step is not Step.LEFT:
            self._foreign = 0
            return Taken(self._builder.dump, step is Step.HEAD)
        if not text.strip():
            return Taken(self._builder.dump, head=False)
        if text.startswith(self._begins):
            taken = self._try_all(line, text)
            if taken is not None:
                return taken
        self._headers.see(line)
        self._foreign += 1
        if self._foreign > MAX_FOREIGN or text.startswith(_TRACEBACK) or read_header(text) not in (None, NOTHING):
            self._close(reader)
        return None

    def _try_all(self, line: Line, text: str) -> Taken | None:
        before = self._open
        for begins, reader in self._readers:
            if reader is before or not text.startswith(begins):
                continue
            if before is not None and not reader.begins(text):
                continue
            if before is not None:
                self._close(before)
                before = None
            step = reader.feed(line, text)
            if step is not Step.LEFT:
                self._open, self._foreign = reader, 0
                return Taken(self._builder.dump, step is Step.HEAD)
        if self._open is None:
            self._headers.see(line)
        return None

    def _close(self, reader: Reader) -> None:
        reader.close()
        self._builder.end()
        self._open, self._foreign = None, 0
