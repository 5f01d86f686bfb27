"""Columns of NCCL's collective-call lines: a million calls as arrays, not as a million objects."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from hangscope.model import Line


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


CallRow = tuple[int, int, int, int, int, int, int, int, int, int, float]
"""One call: writer, op, op_count, count, dtype, redop, root, comm, nranks, line, time."""

Printed = Sequence[Sequence[str]]
_CODES = ("i", "b", "q", "q", "h", "q", "i", "Q", "i", "i", "d")
_FLUSH_AT = 8192
_MAX_OPS = 127
"""NCCL has a dozen operations; more names than fit their column are no operations, and share the last one."""


class CallColumns:
    """One row for each ``AllReduce: opCount ...`` line (NCCL_DEBUG_SUBSYS=COLL, 2.3.7 and later), in file order.

    Attributes:
        writers: the writers seen; `writer` indexes into it.
        devices: CUDA device of writers, as their NCCL header has it.
        ops: the operation names seen, as NCCL spells them; `op` indexes into it.
        writer, op, op_count, count, dtype, redop, root, nranks: as printed (dtype and redop are NCCL's enum numbers).
        comm: pointer of the communicator, valid inside one process only.
        line: 1-based line number.
        time: seconds, NaN when the line has no time.
    """

    def __init__(self) -> None:
        self.writers: list[WriterKey] = []
        self.devices: dict[WriterKey, int] = {}
        self.ops: list[str] = []
        self._writer_index: dict[WriterKey, int] = {}
        self._op_index: dict[str, int] = {}
        self._pending: list[CallRow] = []
        self._columns: tuple[array[int], ...] = tuple(array(code) for code in _CODES[:-1])
        self.time: array[float] = array(_CODES[-1])
        (
            self.writer,
            self.op,
            self.op_count,
            self.count,
            self.dtype,
            self.redop,
            self.root,
            self.comm,
            self.nranks,
            self.line,
        ) = self._columns

    def __len__(self) -> int:
        return len(self.line)

    def append(self, row: CallRow) -> None:
        """Adds one row; call `flush` after the last one."""
        self._pending.append(row)
        if len(self._pending) >= _FLUSH_AT:
            self.flush()

    def append_block(self, writers: Sequence[int], calls: Iterable[str], printed: Printed, first_line: int) -> None:
        """Adds rows of consecutive lines, without a time, their numbers as printed.

        Args:
            writers: code of the writer of each row.
            calls: operation of each row.
            printed: op_count, count, dtype, redop, root, comm, nranks: a column of texts each.
            first_line: number of the first row's line.
        """
        self.flush()
        op_count, count, dtype, redop, root, comm, nranks = printed
        lines = range(first_line, first_line + len(writers))
        numbers = (_each_once(int, texts) for texts in (count, dtype, redop, root))
        columns = (
            writers,
            _each_once(self.op_code, calls),
            [int(text, 16) for text in op_count],
            *numbers,
            _each_once(pointer, comm),
            _each_once(int, nranks),
            lines,
        )
        self._extend(columns, repeat(math.nan, len(writers)))

    def flush(self) -> None:
        """Moves the rows added one by one into the columns, many at a time."""
        if self._pending:
            *whole, times = zip(*self._pending, strict=True)
            self._extend(whole, times)
            self._pending.clear()

    def _extend(self, columns: Iterable[Sequence[int]], times: Iterable[float]) -> None:
        for column, values in zip(self._columns, columns, strict=True):
            try:
                column.extend(array(column.typecode, values))
            except OverflowError:
                # a torn line can glue two numbers together
                column.extend(_bounded(column.typecode, values))
        self.time.extend(times)

    def after(self, line: int) -> CallColumns:
        """The rows of lines behind this one, as columns of their own."""
        return self.between(line, None)

    def between(self, line: int, last: int | None) -> CallColumns:
        """The rows of lines behind one and up to another (None: to the end), as columns of their own."""
        part = CallColumns()
        part.writers, part.devices, part.ops = self.writers, self.devices, self.ops
        start = self._row_after(line)
        end = len(self.line) if last is None else self._row_after(last)
        for mine, rows in zip(part._columns, self._columns, strict=True):
            mine.extend(rows[start:end])
        part.time.extend(self.time[start:end])
        return part

    def _row_after(self, line: int) -> int:
        return next((row for row, number in enumerate(self.line) if number > line), len(self.line))

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


def _bounded(code: str, values: Sequence[int]) -> array[int]:
    """The values, those too large for the column cut to its largest."""
    bits = array(code).itemsize * 8
    low, high = (0, 2**bits - 1) if code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return array(code, [max(low, min(value, high)) for value in values])


def _each_once(read: Callable[[str], int], texts: Iterable[str]) -> list[int]:
    """Reads a column of texts with few distinct values: each distinct one is read once."""
    column = tuple(texts)
    known = {text: read(text) for text in dict.fromkeys(column)}
    return [known[text] for text in column]


def pointer(text: str | None) -> int:
    """A pointer as NCCL prints it, as a number; NULL (``(nil)``) and nothing are 0."""
    return 0 if not text or text.startswith("(") else int(text, 16)
