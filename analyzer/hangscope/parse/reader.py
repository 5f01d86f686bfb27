"""Reads one input: lines to events, calls and writers."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from typing import BinaryIO

from hangscope.errors import HangscopeError
from hangscope.grammar import GrammarSet, load_set
from hangscope.model import Event, Line, SourceRecord, Value
from hangscope.parse.advice import AdviceSkipper
from hangscope.parse.blocks import BlockReader
from hangscope.parse.bulk import CallReader
from hangscope.parse.call_ahead import MARK, CallsAhead
from hangscope.parse.call_texts import CALL_KIND
from hangscope.parse.columns import WriterKey, writer_key
from hangscope.parse.complaints import Complaints
from hangscope.parse.formats import find_format
from hangscope.parse.known_lines import ROUTINE_KIND, KnownLines
from hangscope.parse.repeats import Repeats
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.parse.split import WORTH_SPLITTING, SplitFile
from hangscope.parse.stacks import StackReader, placed
from hangscope.parse.tracebacks import ExceptionRecord, TracebackAssembler
from hangscope.sources.decode import RawLine, Rest, Sample, lines_of, read_raw_lines
from hangscope.sources.inputs import Input
from hangscope.sources.origin import hints
from hangscope.sources.sniff import SNIFF_BYTES, Kind, Sniffed, sniff
from hangscope.sources.unwrap import NCCL, SAMPLE, Unwrapper

STDIO_BUFFER = 4096
_KNOWN_HEADERS = frozenset({"nccl", "c10"})
_MAX_FRAMES = 60


def read_input(item: Input, processes: int = 1, ahead: CallsAhead | None = None) -> ParsedSource:
    """Reads one input whole. Never raises for what the input holds: trouble becomes the record's `error`.

    Args:
        item: what to read.
        processes: with how many; more than one help with a big file of call lines.
        ahead: looks for the calls of several inputs at once.
    """
    reader: _Reader | None = None
    size = item.size or 0
    try:
        with item.open() as stream:
            sniffed = sniff(stream)
            source = _read_whole(item.name, size, sniffed)
            if source is None:
                reader = _Reader(item.name, size, processes, ahead)
                source = reader.read(sniffed.stream)
            return source
    except (OSError, EOFError, ValueError, HangscopeError) as error:
        return (reader or _Reader(item.name, size)).failed(error)


def read_stream(name: str, stream: BinaryIO) -> ParsedSource:
    """Reads an open binary stream as the input of that name."""
    sniffed = sniff(stream)
    source = _read_whole(name, 0, sniffed)
    return _Reader(name, 0).read(sniffed.stream) if source is None else source


def _read_whole(name: str, size: int, sniffed: Sniffed) -> ParsedSource | None:
    """What is not lines, or cannot be read; None for lines, which alone need the grammars."""
    known = find_format(sniffed.kind, sniffed.stream.peek(SNIFF_BYTES)[:SNIFF_BYTES])
    if known is not None:
        return known.read(name, sniffed.stream, size)
    if sniffed.kind not in (Kind.TEXT, Kind.EMPTY):
        return ParsedSource(SourceRecord(name, sniffed.kind.value, 0, size, 0, sniffed.error))
    return None


class _Reader:
    """The state of reading one input of lines."""

    def __init__(self, name: str, size: int, processes: int = 1, ahead: CallsAhead | None = None) -> None:
        self._name = name
        self._size = size
        self._processes = processes
        self._grammars: GrammarSet = load_set()
        self._unwrapper = Unwrapper(name)
        self._calls = CallReader(name, self._unwrapper, ahead)
        self._writers: dict[WriterKey, WriterInfo] = {}
        # by what lines tell of their writer: a key of its own for every line costs more than the rest of this
        self._known: dict[tuple[object, ...], tuple[WriterKey, WriterInfo]] = {}
        self._first_lines: dict[WriterKey, int] = {}
        self._assemblers: dict[tuple[str, int | None], TracebackAssembler] = {}
        self._stacks = StackReader(name)
        self._repeats = Repeats()
        self._events = self._repeats.events
        self._blocks = BlockReader(self._events)
        self._complaints = Complaints(self._events)
        self._advice = AdviceSkipper()
        self._known_lines = KnownLines(name, self._unwrapper, self._repeats, self._advice, self._who)
        self._unrecognized = 0
        self._lines = 0
        self._end = 0

    def read(self, stream: BinaryIO) -> ParsedSource:
        complete = True
        for raw in self._unwrapper.learn(self._raw_lines(stream)):
            self._take(raw)
            self._end, complete = max(self._end, raw.end), raw.complete
        for record in filter(None, (assembler.flush() for assembler in self._assemblers.values())):
            self._take_exception(record)
        self._blocks.finish()
        return self._finish(self._end, complete=complete)

    def failed(self, error: Exception) -> ParsedSource:
        """What could be read before the error, with the error in its record."""
        source = self._finish(0, complete=True)
        reason = str(error) or type(error).__name__
        record = dataclasses.replace(source.record, error=f"could not be read to its end: {reason}", bytes=self._size)
        return dataclasses.replace(source, record=record)

    # --- lines ------------------------------------------------------------------------------------------

    def _raw_lines(self, stream: BinaryIO) -> Iterator[RawLine]:
        sample = Sample(SAMPLE, self._unwrapper.look)
        file = getattr(stream, "raw", None)
        if self._processes < 2 or self._size < WORTH_SPLITTING or not isinstance(file, io.FileIO):
            return read_raw_lines(stream, self._take_block, sample)
        split = SplitFile(file, self._size, self._calls, self._processes)
        return split.lines(self._take_block, sample, self._passed)

    def _passed(self, line: int, end: int) -> None:
        """A block was read up to this line, and to this place."""
        self._lines, self._end = line, end

    def _take_block(self, block: bytes, first_line: int, end: int) -> tuple[int, Rest] | None:
        """Takes the calls of a block, and all other lines if lines of NCCL are among them."""
        if self._unwrapper.joins:
            return None
        offset = end - len(block) - 1
        taken = None
        if first_line > SAMPLE or block.count(b"\n") >= SAMPLE:
            # in fewer lines calls are few, and taken one by one
            taken = self._calls.take_block(block, first_line, offset)
        lines = None
        if (taken is None or taken[1]) and NCCL in block:
            lines = lines_of(block, first_line, offset, None if taken is None else taken[1])
        if lines is not None:
            self._known_lines.take(lines, self._take)
            taken = (len(lines.texts) if taken is None else taken[0]), []
        if taken is not None:
            self._passed(first_line + taken[0] - 1, end)
        return taken

    def _take(self, raw: RawLine) -> None:
        self._lines = max(self._lines, raw.number)
        if MARK in raw.text and self._calls.take(raw.text, raw.number):
            return
        for line in self._unwrapper.lines(raw):
            self._take_line(line)

    def _writer(self, key: WriterKey, line: int) -> WriterInfo:
        info = self._writers[key] = WriterInfo(key)
        self._first_lines[key] = line
        return info

    def _who(self, line: Line) -> tuple[WriterKey, WriterInfo]:
        """The writer of a line."""
        told = (line.stream, line.host, line.pid, line.rank, line.rank_source, line.local_rank)
        known = self._known.get(told)
        if known is None:
            key = writer_key(line)
            known = self._known[told] = key, self._writers.get(key) or self._writer(key, line.number)
        return known

    def _take_line(self, line: Line) -> None:
        if line.header != "nccl" and (taken := self._stacks.feed(line)) is not None:
            if not taken.head:
                key = writer_key(line if taken.dump is None else taken.dump.line)
                (self._writers.get(key) or self._writer(key, line.number)).lines += 1
                return
            line = line if taken.dump is None else placed(line, taken.dump)
        key, info = self._who(line)
        info.note(line)
        if not line.header and self._blocks.feed(line):
            return
        text = self._advice.reported(line.text, (line.stream, line.rank))
        matches = self._grammars.parse(text) if text else []
        for grammar, match in matches:
            self._take_event(Event(grammar.source, match.kind, match.fields, line), key, info)
        if not matches and text:
            self._unrecognized += line.header in _KNOWN_HEADERS
            self._complaints.take(line, key)
        if line.header != "nccl":
            self._assemble(line)

    def _take_event(self, event: Event, key: WriterKey, info: WriterInfo) -> None:
        if event.kind == ROUTINE_KIND:
            return
        if event.kind == CALL_KIND:
            self._calls.take_event(event, key)
            return
        # a broken connection makes the proxy thread of 2.19 to 2.23 repeat its error chain for ever
        place = (event.kind, id(info), event.line.text)
        known = self._repeats.known.get(place)
        if known is not None:
            known.count += 1
        else:
            self._repeats.add(event, place, key)

    # --- tracebacks -------------------------------------------------------------------------------------

    def _assemble(self, line: Line) -> None:
        writer = (line.stream, line.rank)
        assembler = self._assemblers.get(writer)
        if assembler is None:
            assembler = self._assemblers[writer] = TracebackAssembler()
        record = assembler.feed(line)
        if record is not None:
            self._take_exception(record)

    def _take_exception(self, record: ExceptionRecord) -> None:
        user = record.user_frame
        fields: dict[str, Value] = {
            "type": record.type,
            "message": record.message,
            "where_file": user.file if user else None,
            "where_line": user.line if user else None,
            "where_function": user.function if user else None,
            "in_function": record.in_function,
            "chain": record.chain,
            "relation": record.relation,
            "superseded": record.superseded,
            "frames": tuple(str(frame) for frame in record.frames[-_MAX_FRAMES:]),
            "asked_backend": record.asked_backend,
        }
        line = record.line
        key = writer_key(line)
        if key not in self._writers:
            self._writer(key, line.number)
        self._events.append(Event("python", "exception", fields, line))

    def _take_tallies(self) -> None:
        """Tells the writers of the calls that were taken many at a time; they were not told line by line."""
        for writer, tally in sorted(self._calls.tallies.items(), key=lambda item: item[1].first_number):
            key = self._calls.columns.writers[writer]
            first = tally.first.number if tally.first is not None else self._lines + 1
            info = self._writers.get(key) or self._writer(key, first)
            self._first_lines[key] = min(self._first_lines[key], first)
            info.lines += tally.plain + tally.wrapped
            info.last_call_line = tally.last_plain
            for raw in filter(None, (tally.first, tally.last)):
                info.see(self._unwrapper.lines(raw)[0])
            for timed in filter(None, (tally.first_timed, tally.last_timed)):
                info.see_time(*timed)

    def _finish(self, size: int, *, complete: bool) -> ParsedSource:
        name = self._name
        self._take_tallies()
        self._calls.columns.finish()
        dumps = self._stacks.finish(complete=complete)
        for dump in dumps:
            if (key := writer_key(dump.line)) not in self._writers:
                self._writer(key, dump.line.number).note(dump.line)
        self._events.sort(key=lambda event: event.line.number)
        record = SourceRecord(
            name,
            "log" if self._lines else "empty",
            self._lines,
            size,
            self._unrecognized + self._known_lines.unrecognized,
        )
        return ParsedSource(
            record=record,
            events=self._events,
            calls=self._calls.columns,
            writers=sorted(self._writers.values(), key=lambda info: self._first_lines[info.key]),
            block_buffered=size > 0 and (size % STDIO_BUFFER == 0 or not complete),
            attempt=hints(name).attempt,
            dumps=dumps,
        )
