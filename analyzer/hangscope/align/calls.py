"""NCCL's collective-call lines as values: one call, and the table of all of them."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from hangscope.align.groups import Communicator
from hangscope.align.process import Process
from hangscope.model import Evidence, Location
from hangscope.records import dataclass
from hangscope.tables.pieces import Piece
from hangscope.tables.schema import whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from hangscope.parse.columns import CallColumns

    Ints = npt.NDArray[np.int64]
    Codes = npt.NDArray[np.int32]
    Flags = npt.NDArray[np.bool_]

OPS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AlltoAll": "all_to_all",
    "Gather": "gather",
    "Scatter": "scatter",
    "Send": "send",
    "Recv": "recv",
}
"""NCCL's names in PyTorch's spelling; others are kept as printed."""
DTYPES = (
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "fp8e4m3",
    "fp8e5m2",
)
REDUCE_OPS = ("sum", "prod", "max", "min", "avg")


@dataclass(frozen=True, slots=True)
class Call:
    """One call line, as printed."""

    file: str
    line: int
    process: Process
    op: str
    op_count: int
    count: int
    dtype: int
    redop: int
    root: int
    comm: int
    nranks: int

    @property
    def size(self) -> str:
        """Count and data type in words ("4096 float32")."""
        dtype = DTYPES[self.dtype] if 0 <= self.dtype < len(DTYPES) else f"datatype {self.dtype}"
        return f"{self.count} {dtype}"

    def describe(self) -> str:
        """The call in words ("broadcast of 4096 float32 from root 1")."""
        name = OPS.get(self.op, self.op)
        text = f"{name} of {self.size}"
        if self.op in ("Broadcast", "Reduce", "Gather", "Scatter"):
            text += f", root {self.root}"
        if self.op in ("AllReduce", "ReduceScatter", "Reduce") and 0 < self.redop < len(REDUCE_OPS):
            text += f", {REDUCE_OPS[self.redop]}"
        return text

    def evidence(self, why: str) -> Evidence:
        """The call's log line as evidence, put together from its columns; the buffers' addresses are not kept."""
        text = (
            f"{self.process.host or ''}:{self.process.pid or ''} NCCL INFO {self.op}: opCount {self.op_count:x} ... "
            f"count {self.count} datatype {self.dtype} op {self.redop} root {self.root} "
            f"comm 0x{self.comm:x} [nranks={self.nranks}]"
        )
        return Evidence(Location(self.file, self.line), text, why, rebuilt=True)


@dataclass(frozen=True, slots=True)
class CallPart:
    """The calls of one input, with what alignment knows of them.

    Attributes:
        file: name of the input.
        columns: its calls.
        owners: index of the process of each shape.
        signatures: a number for each shape, equal over all inputs for calls that agree.
        p2p: whether each shape is a send or recv.
        members: index into `CallTable.members` of each row.
    """

    file: str
    columns: CallColumns
    owners: Ints
    signatures: Ints
    p2p: Flags
    members: Codes

    def shapes(self) -> Codes:
        """Index of the shape of each row."""
        import numpy as np

        return np.frombuffer(self.columns.shape, dtype=np.int32)


@dataclass(slots=True)
class CallTable:
    """All calls; a call is named by the number of its row, counted through all parts.

    Attributes:
        processes: what the owners of the parts index.
        members: the communicator objects that calls were made on.
        parts: the calls of each input, in the order of the inputs.
        starts: number of the first row of each part, then the number of all rows.
    """

    processes: tuple[Process, ...]
    members: list[Communicator] = field(default_factory=list)
    parts: tuple[CallPart, ...] = ()
    starts: tuple[int, ...] = (0,)

    def __len__(self) -> int:
        return self.starts[-1]

    def __iter__(self) -> Iterator[Call]:
        return (self.call(row) for row in range(len(self)))

    @property
    def frame(self) -> pd.DataFrame:
        """One row a call; made anew each time."""
        return whole("calls", self.pieces())

    def pieces(self) -> Iterator[Piece]:
        """The same in pieces, see `hangscope.align.call_frame`."""
        from hangscope.align.call_frame import build_pieces

        return build_pieces(self)

    def call(self, row: int) -> Call:
        """One call."""
        number = bisect.bisect_right(self.starts, row) - 1
        part, at = self.parts[number], row - self.starts[number]
        columns = part.columns
        return self.looks(part, columns.shape[at], line=columns.line[at], op_count=columns.op_count[at])

    def looks(self, part: CallPart, code: int, *, line: int = 0, op_count: int = 0) -> Call:
        """A call of one shape of an input."""
        columns = part.columns
        shape = columns.shapes[code]
        return Call(
            file=part.file,
            line=line,
            process=self.processes[int(part.owners[code])],
            op=columns.ops[shape.op],
            op_count=op_count,
            count=shape.elements,
            dtype=shape.dtype,
            redop=shape.redop,
            root=shape.root,
            comm=shape.comm,
            nranks=shape.nranks,
        )
