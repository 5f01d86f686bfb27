"""NCCL's collective-call lines as values: one call, and the table of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hangscope.align.groups import Communicator
from hangscope.align.process import Process
from hangscope.model import Evidence, Location

if TYPE_CHECKING:
    import pandas as pd

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


@dataclass(slots=True)
class CallTable:
    """All calls, numbered; nothing of it is heavy as long as there are none.

    Attributes:
        processes: what the column `process` indexes.
        members: the communicator objects that calls were made on.
        numbered: one row a call, see `frame`; None when there are no calls.
    """

    processes: tuple[Process, ...]
    members: list[Communicator] = field(default_factory=list)
    numbered: pd.DataFrame | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row a call: file, line, op, op_count, count, dtype, redop, root, comm, nranks, time, process, member.

        `process` and `member` (an index into `members`) are followed by seq (number of the call on its communicator
        object, from 0; point-to-point calls are numbered for each peer and direction), p2p, and signature (equal for
        equal calls).
        """
        if self.numbered is not None:
            return self.numbered
        import pandas as pd

        return pd.DataFrame()

    def call(self, row: int) -> Call:
        r = self.frame.iloc[row]
        return Call(
            file=str(r["file"]),
            line=int(r["line"]),
            process=self.processes[int(r["process"])],
            op=str(r["op"]),
            op_count=int(r["op_count"]),
            count=int(r["count"]),
            dtype=int(r["dtype"]),
            redop=int(r["redop"]),
            root=int(r["root"]),
            comm=int(r["comm"]),
            nranks=int(r["nranks"]),
        )
