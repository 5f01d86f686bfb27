"""Columns of NCCL's collective-call lines: a million calls as arrays, not as a million objects."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


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


def _column(code: str) -> array[int]:
    return field(default_factory=lambda: array(code))


@dataclass(slots=True)
class CallColumns:
    """One row for each ``AllReduce: opCount ...`` line (NCCL_DEBUG_SUBSYS=COLL, 2.3.7 and later), in file order.

    Attributes:
        writers: the writers seen; `writer` indexes into it.
        ops: the operation names seen, as NCCL spells them; `op` indexes into it.
        writer, op, op_count, count, dtype, redop, root, nranks: as printed (dtype and redop are NCCL's enum numbers).
        comm: pointer of the communicator, valid inside one process only.
        line: 1-based line number.
        time: seconds, NaN when the line has no time.
    """

    writers: list[WriterKey] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    writer: array[int] = _column("i")
    op: array[int] = _column("b")
    op_count: array[int] = _column("q")
    count: array[int] = _column("q")
    dtype: array[int] = _column("h")
    redop: array[int] = _column("q")
    root: array[int] = _column("i")
    comm: array[int] = _column("Q")
    nranks: array[int] = _column("i")
    line: array[int] = _column("i")
    time: array[float] = field(default_factory=lambda: array("d"))
    _writer_index: dict[WriterKey, int] = field(default_factory=dict)
    _op_index: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.line)

    def append(
        self,
        writer: int,
        call: str,
        op_count: int,
        count: int,
        dtype: int,
        redop: int,
        root: int,
        comm: int,
        nranks: int,
        line: int,
        time: float,
    ) -> None:
        """Adds one row; numbers that a torn line made too large for their column are cut to its largest."""
        op = self._op_index.get(call)
        if op is None:
            op = self._new_op(call)
        self.writer.append(writer)
        self.op.append(op)
        try:
            self.op_count.append(op_count)
            self.count.append(count)
            self.dtype.append(dtype)
            self.redop.append(redop)
            self.root.append(root)
            self.comm.append(comm)
            self.nranks.append(nranks)
        except OverflowError:
            self._append_bounded(op_count, count, dtype, redop, root, comm, nranks)
        self.line.append(line)
        self.time.append(time)

    def _append_bounded(self, op_count: int, count: int, dtype: int, redop: int, root: int, comm: int, nranks: int) -> None:
        rows = len(self.line)
        for column, value, bits in (
            (self.op_count, op_count, 63),
            (self.count, count, 63),
            (self.dtype, dtype, 15),
            (self.redop, redop, 63),
            (self.root, root, 31),
            (self.comm, comm, 64),
            (self.nranks, nranks, 31),
        ):
            del column[rows:]
            low = 0 if bits == 64 else -(2**bits)
            column.append(max(low, min(value, 2**bits - 1)))

    def _new_op(self, call: str) -> int:
        op = self._op_index[call] = len(self.ops)
        self.ops.append(call)
        return op

    def writer_code(self, key: WriterKey) -> int:
        """Index of a writer in `writers`, made when new."""
        code = self._writer_index.get(key)
        if code is None:
            code = self._writer_index[key] = len(self.writers)
            self.writers.append(key)
        return code
