"""Numbers the distinct calls of an input in the order in which they come, however they were read, with numpy."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hangscope.parse.call_shapes import CallShape, CallShapes
from hangscope.parse.call_words import sums

if TYPE_CHECKING:
    from hangscope.parse.call_shapes import Numbers

Ints = npt.NDArray[np.int64]

_AT_ONCE = 1 << 20


def in_order_of_rows(shapes: CallShapes, rows: array[int]) -> tuple[CallShapes, list[int], list[int]]:
    """Leaves out calls that no row makes, and those that are there twice.

    Args:
        shapes: the calls.
        rows: the call of each row; they get the new numbers.

    Returns:
        The calls, and the old numbers of their writers and of their operations, both in the order of the rows.
    """
    columns = [shapes.column(name) for name in CallShape._fields]
    same = _first_equal(columns)
    called = np.frombuffer(rows, dtype=np.int32)
    first = np.full(len(same), len(called), dtype=np.int64)
    # of several values for one place the last one stays; in pieces, as indexing makes copies of twice the size
    for low in reversed(range(0, len(called), _AT_ONCE)):
        piece = same[called[low : low + _AT_ONCE]]
        first[piece[::-1]] = np.arange(low + len(piece) - 1, low - 1, -1)
    used = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(called))]
    number = np.zeros(len(same), dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    number = number[same]
    for low in range(0, len(called), _AT_ONCE):
        called[low : low + _AT_ONCE] = number[called[low : low + _AT_ONCE]]
    columns = [column[used] for column in columns]
    codes = []
    for index, name in enumerate(CallShape._fields):
        if name in ("writer", "op"):
            old = list(dict.fromkeys(columns[index].tolist()))
            codes.append(old)
            new = np.zeros(max(old, default=0) + 1, dtype=np.int64)
            new[old] = np.arange(len(old))
            columns[index] = new[columns[index]]
    numbered = CallShapes()
    numbered.extend(columns)
    return numbered, codes[0], codes[1]


def _first_equal(columns: list[Numbers]) -> Ints:
    """For each row of these columns the index of the first that is equal."""
    keys = sums(np.stack([column.astype(np.uint64) for column in columns], axis=1))
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    same: Ints = firsts[inverse]
    if all(bool((column[same] == column).all()) for column in columns):
        return same
    known: dict[tuple[int, ...], int] = {}
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.array([known.setdefault(row, index) for index, row in enumerate(rows)], dtype=np.int64)
