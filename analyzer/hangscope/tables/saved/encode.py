"""What was read from one input as parts of JSON and columns of numbers, each small enough to be held beside the job.

Lines are shared between events, writers and stacks, and alignment relies on it: they come first, once each, and are
named by their number from then on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from hangscope.model import Event, Frame, Line, ProcessDump, SourceRecord, ThreadStack
from hangscope.parse.call_shapes import CallShape
from hangscope.parse.columns import CallColumns, WriterKey
from hangscope.parse.recorder.recording import CallShape as RecordedShape
from hangscope.parse.recorder.recording import RecordedGroup, Recording
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.tables.saved.columns import pack, to_columns

_ROWS = 4096
"""Lines, events or shapes in one part."""
_FRAMES = 20_000
"""Frames in one part of stack dumps, from which on the next dump begins another part."""
NUMBERS = 1 << 18
"""Whole numbers in one part."""


Row = TypeVar("Row")


class Part(NamedTuple):
    """One piece of an input.

    Attributes:
        name: what it is; `decode` has a method for each.
        value: what JSON can say of it.
        ints, floats: columns of numbers, or None.
    """

    name: str
    value: Any
    ints: array[int] | None = None
    floats: array[float] | None = None


def parts_of(source: ParsedSource) -> Iterator[Part]:
    """The parts of one input, as it was before alignment, in the order in which `decode` wants them."""
    head = {
        "record": to_columns(SourceRecord, [source.record]),
        "block_buffered": source.block_buffered,
        "attempt": source.attempt,
    }
    yield Part("source", head)
    lines = _Lines(source)
    yield from lines.parts()
    for events in _batches(source.events, _ROWS):
        yield Part("events", _events(events, lines))
    if source.writers:
        yield Part("writers", _writers(source.writers, lines))
    yield from _dumps(source.dumps, lines)
    for recording in source.recordings:
        yield from _recording(recording)
    if len(source.calls):
        yield from _calls(source.calls)
    yield Part("end", None)


class _Lines:
    """The lines of one input, each once, and their numbers."""

    def __init__(self, source: ParsedSource) -> None:
        self._lines: list[Line] = []
        self._place: dict[int, int] = {}
        for line in _all_lines(source):
            if id(line) not in self._place:
                self._place[id(line)] = len(self._lines)
                self._lines.append(line)

    def parts(self) -> Iterator[Part]:
        for lines in _batches(self._lines, _ROWS):
            columns = to_columns(Line, lines, without=("file", "raw"))
            # most lines have no prefix that came off
            columns["raw"] = pack([None if line.raw == line.text else line.raw for line in lines])
            yield Part("lines", columns)

    def place(self, line: Line) -> int:
        return self._place[id(line)]

    def place_or_none(self, line: Line | None) -> int | None:
        return None if line is None else self._place[id(line)]


def _all_lines(source: ParsedSource) -> Iterator[Line]:
    for event in source.events:
        yield event.line
    for writer in source.writers:
        yield from (line for line in (writer.first_line, writer.last_line) if line is not None)
    for dump in source.dumps:
        yield dump.line
        yield from (thread.line for thread in dump.threads)


def _events(events: Sequence[Event], lines: _Lines) -> dict[str, Any]:
    columns = to_columns(Event, events, without=("rank", "process_host"))
    return columns | {
        "fields": [event.fields for event in events],
        "line": [lines.place(event.line) for event in events],
    }


def keys_to_columns(keys: Iterable[WriterKey]) -> dict[str, Any]:
    """Writers as columns; all are of the input at hand."""
    return to_columns(WriterKey, list(keys), without=("file",))


def _writers(writers: list[WriterInfo], lines: _Lines) -> dict[str, Any]:
    return to_columns(WriterInfo, writers) | {
        "key": keys_to_columns(writer.key for writer in writers),
        "first_line": [lines.place_or_none(writer.first_line) for writer in writers],
        "last_line": [lines.place_or_none(writer.last_line) for writer in writers],
    }


# --- stacks --------------------------------------------------------------------------------------------------


def _dumps(dumps: list[ProcessDump], lines: _Lines) -> Iterator[Part]:
    together: list[ProcessDump] = []
    frames = 0
    for dump in dumps:
        together.append(dump)
        frames += sum(len(thread.frames) for thread in dump.threads)
        if frames > _FRAMES:
            yield Part("dumps", _stacks(together, lines))
            together, frames = [], 0
    if together:
        yield Part("dumps", _stacks(together, lines))


def _stacks(dumps: list[ProcessDump], lines: _Lines) -> dict[str, Any]:
    place: dict[Frame, int] = {}
    threads = [thread for dump in dumps for thread in dump.threads]
    stacks = [[place.setdefault(frame, len(place)) for frame in thread.frames] for thread in threads]
    return to_columns(ProcessDump, dumps) | {
        "line": [lines.place(dump.line) for dump in dumps],
        "threads": [len(dump.threads) for dump in dumps],
        "thread": to_columns(ThreadStack, threads)
        | {"frames": stacks, "line": [lines.place(thread.line) for thread in threads]},
        "frame": to_columns(Frame, list(place)),
    }


# --- numbers -------------------------------------------------------------------------------------------------


def _recording(recording: Recording) -> Iterator[Part]:
    yield Part(
        "recording",
        {
            **to_columns(Recording, [recording], without=("file",)),
            "version": list(recording.version),
            "groups": to_columns(RecordedGroup, recording.groups),
            "shapes": to_columns(RecordedShape, recording.shapes),
        },
    )
    yield from _numbers("recorded_shape", recording.shape)
    yield from _numbers("recorded_seq", recording.seq)
    yield from _numbers("recorded_state", array("B", recording.state))
    yield from _numbers("recorded_time_us", recording.time_us)
    yield from _numbers("recorded_line", recording.lines)


def _calls(calls: CallColumns) -> Iterator[Part]:
    head = {
        "writers": keys_to_columns(calls.writers),
        "ops": calls.ops,
        "device_keys": keys_to_columns(calls.devices),
        "devices": list(calls.devices.values()),
    }
    yield Part("calls", head)
    for start in range(0, len(calls.shapes), _ROWS):
        yield Part("call_shapes", to_columns(CallShape, list(calls.shapes.part(start, start + _ROWS))))
    yield from _numbers("call_shape", calls.shape)
    yield from _numbers("call_op_count", calls.op_count)
    yield from _numbers("call_line", calls.line)
    times = calls.times
    if times is not None:
        for start in range(0, len(times), NUMBERS):
            yield Part("call_time", None, None, times[start : start + NUMBERS])


def _numbers(name: str, values: array[int]) -> Iterator[Part]:
    """A column of whole numbers in pieces; of none, the type of its array must be known all the same."""
    for start in range(0, len(values) or 1, NUMBERS):
        yield Part(name, values.typecode, values[start : start + NUMBERS])


def _batches(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
