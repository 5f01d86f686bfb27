"""Columns of numbers as flight recorders' entries and as NCCL's calls."""

from __future__ import annotations

import importlib
from array import array
from typing import Any, Protocol

from hangscope.parse.call_shapes import CallShape, CallShapes
from hangscope.parse.columns import CallColumns, WriterKey
from hangscope.parse.recorder.recording import CallShape as RecordedShape
from hangscope.parse.recorder.recording import RecordedGroup, Recording, State
from hangscope.tables.saved.columns import DamagedError, count_of, from_columns, places
from hangscope.tables.saved.encode import Part

_TYPECODES = frozenset("bBhHiIlLqQ")


class Rows(Protocol):
    """What columns of numbers belong to."""

    def take(self, part: Part) -> None:
        """Takes the next piece of one of its columns."""


class _Numbers:
    """Columns that come in pieces, by name."""

    def __init__(self) -> None:
        self._columns: dict[str, array[int]] = {}

    def take(self, part: Part) -> None:
        """Adds a piece to its column.

        Raises:
            DamagedError: it holds no numbers, or others than its column.
        """
        if part.ints is None or type(part.value) is not str or part.value not in _TYPECODES:
            raise DamagedError(f"{part.name} without numbers")
        piece = _as_type(part.ints, part.value)
        column = self._columns.setdefault(part.name, piece)
        if column is not piece:
            if column.typecode != piece.typecode:
                raise DamagedError(f"{part.name} changes its type")
            column.extend(piece)

    def column(self, name: str, count: int | None = None, below: int | None = None) -> array[int]:
        """A column, of so many rows, whose numbers name something in a list of `below` things."""
        values = self._columns.get(name)
        if values is None or (count is not None and len(values) != count):
            raise DamagedError(f"{name} is too short")
        if below is not None and len(values) and not 0 <= min(values) <= max(values) < below:
            raise DamagedError(f"{name} leads nowhere")
        return values


def _as_type(values: array[int], typecode: str) -> array[int]:
    if typecode == values.typecode or not values:
        return array(typecode, values)
    # numpy takes long to import, and is needed anyway where there are such columns
    np = importlib.import_module("numpy")

    wide = np.frombuffer(values, dtype=np.int64)
    narrow = wide.astype(np.dtype(typecode))
    if (narrow.astype(np.int64) != wide).any():
        raise DamagedError("a number is too large for its column")
    return array(typecode, narrow.tobytes())


class RecordingRows:
    """The entries of one recording."""

    def __init__(self, head: Any, file: str) -> None:  # noqa: ANN401 (what JSON gives)
        version = head["version"]
        if not isinstance(version, list) or len(version) != 2 or set(map(type, version)) != {int}:
            raise DamagedError("a recording without a version")
        groups, shapes = from_columns(RecordedGroup, head["groups"]), from_columns(RecordedShape, head["shapes"])
        places([shape.group for shape in shapes], len(groups))
        made = from_columns(
            Recording,
            head,
            file=[file],
            version=[tuple(version)],
            groups=[tuple(groups)],
            shapes=[tuple(shapes)],
        )
        if len(made) != 1:
            raise DamagedError("a recording is not one")
        self._recording = made[0]
        self._numbers = _Numbers()

    def take(self, part: Part) -> None:
        self._numbers.take(part)

    def recording(self) -> Recording:
        """The recording with its entries.

        Raises:
            DamagedError: the columns do not fit each other.
        """
        made, numbers = self._recording, self._numbers
        made.seq = numbers.column("recorded_seq")
        count = len(made.seq)
        made.shape = numbers.column("recorded_shape", count, len(made.shapes))
        made.state = numbers.column("recorded_state", count, max(State) + 1).tobytes()
        made.time_us = numbers.column("recorded_time_us", count)
        made.lines = numbers.column("recorded_line")
        if len(made.lines) not in (0, count):
            raise DamagedError("a recording has lines for some of its entries")
        return made


class CallRows:
    """The call lines of one input."""

    def __init__(self, head: Any, file: str) -> None:  # noqa: ANN401 (what JSON gives)
        self._writers = writer_keys(head["writers"], file)
        self._ops = head["ops"]
        keys, devices = writer_keys(head["device_keys"], file), head["devices"]
        if not all(isinstance(values, list) for values in (self._ops, devices)):
            raise DamagedError("calls without names or devices")
        if set(map(type, self._ops)) - {str} or set(map(type, devices)) - {int} or len(devices) != len(keys):
            raise DamagedError("names or devices of calls are wrong")
        self._devices = dict(zip(keys, devices, strict=True))
        self._shapes = CallShapes()
        self._numbers = _Numbers()
        self._times: array[float] | None = None

    def take(self, part: Part) -> None:
        if part.name == "call_shapes":
            for shape in from_columns(CallShape, part.value):
                self._shapes.append(shape)
        elif part.name == "call_time":
            if part.floats is None:
                raise DamagedError("times of calls without numbers")
            self._times = part.floats if self._times is None else self._times + part.floats
        else:
            self._numbers.take(part)

    def columns(self) -> CallColumns:
        """The calls.

        Raises:
            DamagedError: the columns do not fit each other.
        """
        lines = self._numbers.column("call_line")
        count = len(lines)
        places(self._shapes.writer.tolist(), len(self._writers))
        places(self._shapes.op.tolist(), len(self._ops))
        shape = self._numbers.column("call_shape", count, len(self._shapes))
        op_count = self._numbers.column("call_op_count", count)
        if self._times is not None and len(self._times) != count:
            raise DamagedError("times of calls are too short")
        if (shape.typecode, lines.typecode) != ("i", "i") or op_count.typecode not in "iq":
            raise DamagedError("columns of calls are of a wrong type")
        rows = (shape, op_count, lines, self._times)
        return CallColumns.restored(self._writers, self._ops, self._devices, self._shapes, rows)


def writer_keys(columns: Any, file: str) -> list[WriterKey]:  # noqa: ANN401 (what JSON gives)
    """Writers of one input."""
    return from_columns(WriterKey, columns, file=[file] * count_of(columns))
