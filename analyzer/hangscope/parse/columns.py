"""Columns of NCCL's collective-call lines: a million calls as arrays, not as a million objects.

A job repeats its calls: what is printed in them, but for opCount and the buffers, comes again and again. So each
distinct call (a shape) is kept once, and a row is a number of a shape, an opCount and a line: 12 bytes.
"""

from __future__ import annotations

import bisect
import itertools
import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from hangscope.model import Line
from hangscope.parse.call_shapes import CallShape, CallShapes
from hangscope.records import dataclass

if TYPE_CHECKING:
    from hangscope.parse.call_shapes import Numbers


@dataclass(frozen=True, slots=True)
class WriterKey:
    """Who wrote a line, as far as the line itself tells: the raw material of identity.

    Attributes:
        file: name of the input.
        stream: launcher tag inside the file ("" when there is none).
        host, pid: from the header in the line, else None.
        rank, rank_source: global rank that the line's prefix states, and which prefix.
        local_rank: index on its host that the prefix states, else None.
    """

    file: str
    stream: str = ""
    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    rank_source: str = ""
    local_rank: int | None = None


def writer_key(line: Line) -> WriterKey:
    """Who wrote a line."""
    return WriterKey(line.file, line.stream, line.host, line.pid, line.rank, line.rank_source, line.local_rank)


_MAX_OPS = 127
"""NCCL has a dozen operations; more names than fit their column are no operations, and share the last one."""
_MANY = 100_000
Number = TypeVar("Number", int, float)
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1


class CallColumns:
    """One row for each ``AllReduce: opCount ...`` line (NCCL_DEBUG_SUBSYS=COLL, 2.3.7 and later), in file order.

    Attributes:
        writers: the writers seen; the field `writer` of a shape indexes into it.
        ops: the operation names seen, as NCCL spells them; `op` of a shape indexes into it.
        devices: number of the CUDA device that a writer's header shows.
        shapes: the distinct calls.
        shape: a row's index into `shapes`.
        op_count: NCCL's opCount of each row.
        line: 1-based line number of each row.
    """

    def __init__(self) -> None:
        self.writers: list[WriterKey] = []
        self.ops: list[str] = []
        self.devices: dict[WriterKey, int] = {}
        self.shapes = CallShapes()
        self.shape: array[int] = array("i")
        self.op_count: array[int] = array("i")
        self.line: array[int] = array("i")
        self._times: array[float] | None = None
        self._in_order = True
        self._distinct = True
        self._writer_index: dict[WriterKey, int] = {}
        self._op_index: dict[str, int] = {}
        self._shape_index: dict[CallShape, int] = {}
        self._objects: tuple[list[tuple[int, int]], array[int]] | None = None

    def __len__(self) -> int:
        return len(self.line)

    @property
    def times(self) -> array[float] | None:
        """Seconds of each row, NaN where a line has no time; None when no line has one."""
        if self._times is not None and len(self._times) < len(self):
            self._times.extend([math.nan] * (len(self) - len(self._times)))
        return self._times

    def objects(self) -> tuple[list[tuple[int, int]], array[int]]:
        """The distinct (index of the writer, pointer of the communicator), and the number of that of each shape.

        To be asked for when all shapes are there.
        """
        if self._objects is None or len(self._objects[1]) != len(self.shapes):
            # a thousand files have a quarter of a million shapes: as little Python as can be for each
            pairs = list(zip(self.shapes.writer, self.shapes.comm, strict=True))
            numbers = dict(zip(dict.fromkeys(pairs), itertools.count()))
            self._objects = list(numbers), array("i", map(numbers.__getitem__, pairs))
        return self._objects

    def append(self, shape: CallShape, op_count: int, line: int, time: float | None = None) -> None:
        """Adds one row."""
        self.append_code(self.shape_code(shape), op_count, line, time)

    def append_code(self, shape: int, op_count: int, line: int, time: float | None = None) -> None:
        """Adds one row; the shape is given by its index in `shapes`."""
        if op_count > _INT32:
            self._widen()
        self._in_order = self._in_order and (not self.line or self.line[-1] <= line)
        self.shape.append(shape)
        self.op_count.append(min(op_count, _INT64))
        self.line.append(line)
        if time is not None:
            if self._times is None:
                self._times = array("d")
            self._times.extend([math.nan] * (len(self) - 1 - len(self._times)))
            self._times.append(time)

    def append_rows(self, shapes: bytes, op_counts: bytes, lines: bytes, times: bytes | None, *, wide: bool) -> None:
        """Adds rows, each column as the bytes of native numbers.

        Args:
            shapes: indexes into `shapes`, 32 bits each.
            op_counts: 64 bits each when `wide`, else 32.
            lines: line numbers, 32 bits each.
            times: seconds as 64-bit floating point, NaN where a line has no time; None when no line has one.
            wide: some opCount needs 64 bits.
        """
        if wide:
            self._widen()
        elif self.op_count.itemsize > array("i").itemsize:
            op_counts = array("q", array("i", op_counts)).tobytes()
        before = len(self.line)
        self.shape.frombytes(shapes)
        self.op_count.frombytes(op_counts)
        self.line.frombytes(lines)
        if times is not None:
            if self._times is None:
                self._times = array("d")
            self._times.extend([math.nan] * (before - len(self._times)))
            self._times.frombytes(times)
        if 0 < before < len(self.line):
            self._in_order = self._in_order and self.line[before - 1] <= self.line[before]

    def take_rows(self) -> tuple[array[int], array[int], array[int], array[float] | None]:
        """Takes all rows out: shapes, opCounts, lines and times."""
        rows = self.shape, self.op_count, self.line, self.times
        self.shape, self.op_count, self.line, self._times = array("i"), array("i"), array("i"), None
        return rows

    def _widen(self) -> None:
        if self.op_count.typecode == "i":
            self.op_count = array("q", self.op_count)

    def finish(self) -> None:
        """Ends the input: puts the rows into the order of their lines (odd lines of a block are read after all others).

        No row can be added behind it.
        """
        self._shape_index.clear()
        if not self._in_order:
            self._sort_rows()
        if not (self._in_order and self._distinct):
            self._number_anew()

    def _sort_rows(self) -> None:
        times = self.times
        order = _order(self.line)
        self.shape = _picked(self.shape, order)
        self.op_count = _picked(self.op_count, order)
        self.line = _picked(self.line, order)
        if times is not None:
            self._times = _picked(times, order)

    def _number_anew(self) -> None:
        """Numbers calls, writers and operations in the order of their rows, however these were read."""
        # a log with calls has them counted with numpy, sooner or later
        from hangscope.parse.call_numbering import in_order_of_rows  # noqa: PLC0415

        self.shapes, writers, ops = in_order_of_rows(self.shapes, self.shape)
        self.writers = [self.writers[code] for code in writers]
        self.ops = [self.ops[code] for code in ops]

    @classmethod
    def restored(
        cls,
        writers: list[WriterKey],
        ops: list[str],
        devices: dict[WriterKey, int],
        shapes: CallShapes,
        rows: tuple[array[int], array[int], array[int], array[float] | None],
    ) -> CallColumns:
        """Columns put together from their parts; of the rows: shape, opCount, line and time."""
        columns = cls()
        columns.writers, columns.ops, columns.devices, columns.shapes = writers, ops, devices, shapes
        columns.shape, columns.op_count, columns.line, columns._times = rows
        return columns

    def after(self, line: int) -> CallColumns:
        """The rows of lines behind this one, as columns of their own."""
        return self.between(line, None)

    def between(self, line: int, last: int | None) -> CallColumns:
        """The rows of lines behind one and up to another (None: to the end), as columns of their own."""
        start = bisect.bisect_right(self.line, line)
        end = len(self.line) if last is None else bisect.bisect_right(self.line, last)
        times = None if self.times is None else self.times[start:end]
        rows = (self.shape[start:end], self.op_count[start:end], self.line[start:end], times)
        return CallColumns.restored(self.writers, self.ops, self.devices, self.shapes, rows)

    def op_code(self, call: str) -> int:
        """Index of an operation in `ops`, made when new."""
        code = self._op_index.get(call)
        if code is None:
            if len(self.ops) == _MAX_OPS:
                return _MAX_OPS - 1
            code = self._op_index[call] = len(self.ops)
            self.ops.append(call)
        return code

    def writer_code(self, key: WriterKey) -> int:
        """Index of a writer in `writers`, made when new."""
        code = self._writer_index.get(key)
        if code is None:
            code = self._writer_index[key] = len(self.writers)
            self.writers.append(key)
        return code

    def shape_code(self, shape: CallShape) -> int:
        """Index of a distinct call in `shapes`, made when new."""
        code = self._shape_index.get(shape)
        if code is None:
            code = self._shape_index[shape] = len(self.shapes)
            self.shapes.append(shape)
            # what came many at a time may hold it, too
            self._distinct = self._distinct and len(self._shape_index) == len(self.shapes)
        return code

    def add_shapes(self, shapes: Sequence[Numbers], *, distinct: bool) -> int:
        """Adds calls many at a time; returns the index of the first.

        Args:
            shapes: the fields of `CallShape`, each as a column of a type that fits.
            distinct: no two of them are equal. Those that were there before are found out in the end.
        """
        first = len(self.shapes)
        self._distinct = self._distinct and distinct and not first
        self.shapes.extend(shapes)
        return first


def _order(lines: array[int]) -> array[int]:
    """The places of these numbers in ascending order; equal ones stay in theirs."""
    if len(lines) < _MANY:
        return array("q", sorted(range(len(lines)), key=lines.__getitem__))
    import numpy as np  # noqa: PLC0415 - for fewer it takes longer to import

    return array("q", np.argsort(np.frombuffer(lines, dtype=np.int32), kind="stable").tobytes())


def _picked(numbers: array[Number], places: array[int]) -> array[Number]:
    """The numbers at these places."""
    if len(numbers) < _MANY:
        return array(numbers.typecode, map(numbers.__getitem__, places))
    import numpy as np  # noqa: PLC0415 - see `_order`

    picked = np.frombuffer(numbers, dtype=np.dtype(numbers.typecode))[np.frombuffer(places, dtype=np.int64)]
    return array(numbers.typecode, picked.tobytes())


def pointer(text: str | None) -> int:
    """A pointer as NCCL prints it, as a number; NULL (``(nil)``) and nothing are 0."""
    return 0 if not text or text.startswith("(") else int(text, 16)
