"""The distinct calls of an input as columns: a log in which every call has another count has as many as calls."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from hangscope.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.integer[Any]]


class CallShape(NamedTuple):
    """What equal calls of one writer have in common.

    Attributes:
        writer: index into `CallColumns.writers`.
        op: index into `CallColumns.ops`.
        elements, dtype, redop, root, nranks: count, datatype, op, root and nranks as printed (enum numbers of NCCL).
        comm: pointer of the communicator, valid inside one process only.
    """

    writer: int
    op: int
    elements: int
    dtype: int
    redop: int
    root: int
    comm: int
    nranks: int


_LARGEST = CallShape(2**31 - 1, 127, 2**63 - 1, 2**15 - 1, 2**63 - 1, 2**31 - 1, 2**64 - 1, 2**31 - 1)
_SMALLEST = CallShape(0, 0, -(2**63), -(2**15), -(2**63), -(2**31), 0, -(2**31))
"""A torn line can glue two numbers together: what is larger than its column is cut to this."""


@dataclass(slots=True)
class CallShapes:
    """Distinct calls, each by its index; the columns are the fields of `CallShape`."""

    writer: array[int] = field(default_factory=lambda: array("i"))
    op: array[int] = field(default_factory=lambda: array("b"))
    elements: array[int] = field(default_factory=lambda: array("q"))
    dtype: array[int] = field(default_factory=lambda: array("h"))
    redop: array[int] = field(default_factory=lambda: array("q"))
    root: array[int] = field(default_factory=lambda: array("i"))
    comm: array[int] = field(default_factory=lambda: array("Q"))
    nranks: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.writer)

    def __getitem__(self, index: int) -> CallShape:
        return CallShape(*(getattr(self, name)[index] for name in CallShape._fields))

    def __iter__(self) -> Iterator[CallShape]:
        return map(CallShape._make, zip(*(getattr(self, name) for name in CallShape._fields), strict=True))

    def append(self, shape: CallShape) -> None:
        """Adds one; what does not fit into a column is cut to its largest or smallest number."""
        for name, value, least, most in zip(CallShape._fields, shape, _SMALLEST, _LARGEST, strict=True):
            getattr(self, name).append(max(least, min(value, most)))

    def extend(self, columns: Sequence[Numbers]) -> None:
        """Adds many, given their columns in the order of `CallShape`, of types that fit."""
        for name, values in zip(CallShape._fields, columns, strict=True):
            kept = getattr(self, name)
            kept.frombytes(values.astype(kept.typecode, copy=False).tobytes())

    def column(self, name: str) -> Numbers:
        """A column for calculating with. As long as it is held, nothing can be added."""
        import numpy as np  # noqa: PLC0415 - longer to import than a log without calls to read

        values = getattr(self, name)
        return np.frombuffer(values, dtype=np.dtype(values.typecode))

    def part(self, first: int, last: int | None = None) -> CallShapes:
        """Those from one index to another (None: to the end)."""
        return CallShapes(*(getattr(self, name)[first:last] for name in CallShape._fields))
