"""Parts of JSON and columns of numbers as what was read from an input; whoever wrote them, nothing else comes of it.

Every value is checked to be of the type that the classes name, and every reference to lead somewhere: alignment takes
both for granted.
"""

from __future__ import annotations

import dataclasses
from itertools import accumulate, pairwise
from typing import Any

from hangscope.model import Event, Frame, Line, ProcessDump, SourceRecord, ThreadStack
from hangscope.parse.columns import writer_key
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.tables.saved.columns import DamagedError, count_of, from_columns, places, unpack
from hangscope.tables.saved.decode_rows import CallRows, RecordingRows, Rows, writer_keys
from hangscope.tables.saved.encode import Part

_PLAIN = frozenset({str, int, float, bool, type(None)})


class SourceDecoder:
    """Puts the parts of one input together.

    Attributes:
        source: what it became; complete after the part ``end``.
    """

    def __init__(self, head: Any, name: str | None = None) -> None:  # noqa: ANN401 (what JSON gives)
        """The part ``source``.

        Args:
            head: its value.
            name: how the input is called now; by default as it was.
        """
        record = decode_records(head["record"])[0]
        buffered, attempt = head["block_buffered"], head["attempt"]
        if type(buffered) is not bool or type(attempt) not in (int, type(None)):
            raise DamagedError("the head of an input is wrong")
        record = record if name is None else dataclasses.replace(record, file=name)
        self.source = ParsedSource(record, block_buffered=buffered, attempt=attempt)
        self._name = record.file
        self._lines: list[Line] = []
        self._rows: Rows | None = None

    def take(self, part: Part) -> bool:
        """Takes the next part; True when it was the last one.

        Raises:
            DamagedError: it is nothing that `encode` gives, or not in its place.
        """
        if part.name.startswith(("recorded_", "call_")):
            if self._rows is None:
                raise DamagedError(f"{part.name} without a head")
            self._rows.take(part)
            return False
        self._end_rows()
        if part.name == "end":
            self._check_writers()
            return True
        if part.name == "recording":
            self._rows = RecordingRows(part.value, self._name)
        elif part.name == "calls":
            self._rows = CallRows(part.value, self._name)
        elif part.name == "lines":
            self._take_lines(part.value)
        elif part.name == "events":
            self._take_events(part.value)
        elif part.name == "writers":
            self._take_writers(part.value)
        elif part.name == "dumps":
            self._take_dumps(part.value)
        else:
            raise DamagedError(f"nothing is called {part.name!r}")
        return False

    def _end_rows(self) -> None:
        """What rows belong to is complete when something else comes."""
        if isinstance(self._rows, RecordingRows):
            self.source.recordings.append(self._rows.recording())
        elif isinstance(self._rows, CallRows):
            self.source.calls = self._rows.columns()
        self._rows = None

    def _check_writers(self) -> None:
        known = {writer.key for writer in self.source.writers}
        said = [event.line for event in self.source.events] + [dump.line for dump in self.source.dumps]
        if not known.issuperset(map(writer_key, said)):
            raise DamagedError("a line has no writer")

    def _take_lines(self, columns: Any) -> None:  # noqa: ANN401 (here and below: what JSON gives)
        count = count_of(columns)
        texts = list(unpack(columns["text"], count, "str"))
        raws = unpack(columns["raw"], count, "str | None")
        shown = [text if raw is None else raw for text, raw in zip(texts, raws, strict=True)]
        self._lines += from_columns(Line, columns, file=[self._name] * count, text=texts, raw=shown)

    def _lines_at(self, numbers: object) -> list[Line]:
        return [self._lines[place] for place in places(numbers, len(self._lines))]

    def _take_events(self, columns: Any) -> None:  # noqa: ANN401
        fields = columns["fields"]
        for one in fields:
            _check_fields(one)
        lines = self._lines_at(columns["line"])
        self.source.events += from_columns(Event, columns, fields=fields, line=lines)

    def _take_writers(self, columns: Any) -> None:  # noqa: ANN401
        keys = writer_keys(columns["key"], self._name)
        first, last = (self._lines_or_none(columns[name]) for name in ("first_line", "last_line"))
        self.source.writers += from_columns(WriterInfo, columns, key=keys, first_line=first, last_line=last)

    def _lines_or_none(self, numbers: list[int | None]) -> list[Line | None]:
        places([place for place in numbers if place is not None], len(self._lines))
        return [None if place is None else self._lines[place] for place in numbers]

    def _take_dumps(self, columns: Any) -> None:  # noqa: ANN401
        frames, rows = from_columns(Frame, columns["frame"]), columns["thread"]
        stacks = [tuple(frames[place] for place in places(stack, len(frames))) for stack in rows["frames"]]
        threads = from_columns(ThreadStack, rows, frames=stacks, line=self._lines_at(rows["line"]))
        sizes = places(columns["threads"], len(threads) + 1)
        ends = list(accumulate(sizes, initial=0))
        if ends[-1] != len(threads):
            raise DamagedError("stacks without their process")
        split = [threads[start:end] for start, end in pairwise(ends)]
        self.source.dumps += from_columns(ProcessDump, columns, line=self._lines_at(columns["line"]), threads=split)


def decode_records(columns: Any) -> list[SourceRecord]:  # noqa: ANN401
    """Entries of the report's `sources`.

    Raises:
        DamagedError: there is none, or they hold something else.
    """
    records = from_columns(SourceRecord, columns)
    if not records:
        raise DamagedError("an input without a record")
    return records


def _check_fields(fields: object) -> None:
    """The fields of an event: plain values, and lists of texts or of whole numbers, which become tuples again."""
    if not isinstance(fields, dict):
        raise DamagedError("an event without fields")
    for name, value in fields.items():
        if type(value) is list:
            if set(map(type, value)) not in (set(), {str}, {int}):
                raise DamagedError("a list in an event's fields holds something strange")
            fields[name] = tuple(value)
        elif type(value) not in _PLAIN:
            raise DamagedError("an event's field holds something strange")
