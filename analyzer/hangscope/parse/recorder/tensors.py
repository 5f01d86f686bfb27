"""What recorded calls say of their tensors: whether it is plain, how it reads, and what of it must agree."""

from __future__ import annotations

import itertools
import marshal
import zlib
from array import array
from collections.abc import Sequence
from typing import Any

_VARIES_IN = frozenset(
    {"all_to_all", "all_to_allv", "all_to_all_base", "alltoall", "alltoall_base", "gather", "scatter", "coalesced"}
)
"""Operations whose sizes differ between ranks by nature."""

_BIGGEST = 1 << 62
_MOST_SIZES = 1 << 24
Tensors = tuple[object, object, object, object]
"""Sizes of the inputs and of the outputs, types of both: what is not plain is None."""


def plain_columns(columns: Sequence[Sequence[object]]) -> list[Sequence[object]]:
    """The columns of `Tensors`; those that hold anything but sizes and types become columns of None."""
    kinds = (int, int, str, str)
    return [
        column if is_plain(column, kind) else [None] * len(column) for column, kind in zip(columns, kinds, strict=True)
    ]


def are_texts(column: Sequence[Any]) -> bool:
    """Whether these are lists or tuples of texts, not too many, so that they can be hashed.

    The hash of tuples in tuples without end would be no error but a crash.
    """
    if not set(map(type, column)) <= {list, tuple} or sum(map(len, column)) > _MOST_SIZES:
        return False
    return set(map(type, itertools.chain.from_iterable(column))) <= {str}


def is_plain(column: Sequence[object], kind: type) -> bool:
    """Whether a column holds sizes or types, and none so large, or so often repeated, that they make a bomb.

    Sizes are lists of lists of integers, types lists of texts. Each pass over them costs as much as reading the file's
    bytes: an array takes integers only, and only those of 64 bits, so filling one is both checks in one pass.
    """
    if set(map(type, column)) != {list}:
        return False
    lists: Sequence[Any] = column
    if sum(map(len, lists)) > _MOST_SIZES:
        return False
    inner = list(itertools.chain.from_iterable(lists))
    if kind is str:
        return are_texts(lists) and max(map(len, set(inner)), default=0) * len(inner) <= _MOST_SIZES
    if inner and set(map(type, inner)) != {list}:
        inner = [inner]
    if sum(map(len, inner)) > _MOST_SIZES:
        return False
    try:
        array("q", itertools.chain.from_iterable(inner))
    except (TypeError, OverflowError):
        return False
    return True


def as_bytes(value: Any) -> bytes:  # noqa: ANN401 (what marshal takes has no name of its own)
    """Equal bytes for equal plain values; no bytes for all others."""
    try:
        return marshal.dumps(value, 2)  # 2: that an object is shared makes no difference
    except ValueError:
        return b""


def sign(op: str, tensors: Tensors) -> int:
    """A number made of what must agree between ranks; 0 for operations whose sizes differ by nature."""
    compared = _compared(op, *tensors[:2])
    return 0 if compared is None else zlib.crc32(as_bytes((*compared, *tensors[2:])))


def _compared(op: str, inputs: object, outputs: object) -> tuple[object, ...] | None:
    """The sizes that must agree between ranks."""
    if op in _VARIES_IN:
        return None
    if op == "reduce":
        return (inputs,)
    # a list of tensors of several sizes (uneven all_gather): the list is the same on all ranks, the own part is not
    for pieces in (outputs, inputs):
        if isinstance(pieces, list) and len(pieces) > 1 and any(piece != pieces[0] for piece in pieces[1:]):
            return (pieces,)
    return (inputs, outputs)


def in_words(tensors: Tensors) -> str:
    """Sizes and types in words: ``[3] Float``, ``[3] Float -> [2, 3] Float``."""
    inputs, outputs, in_types, out_types = tensors
    one, two = _tensors(inputs, in_types), _tensors(outputs, out_types)
    return one if one == two or not two else (f"{one} -> {two}" if one else two)


def _tensors(sizes: object, types: object) -> str:
    if not isinstance(sizes, list) or not sizes:
        return ""
    shown = ", ".join(_size(size) for size in sizes[:3]) + (f", ... ({len(sizes)} tensors)" if len(sizes) > 3 else "")
    kinds = list(dict.fromkeys(k for k in types if isinstance(k, str)))[:3] if isinstance(types, list) else []
    return " ".join([shown, *kinds])[:160]


def _size(size: object) -> str:
    if not isinstance(size, list):
        return "?"
    return "[" + ", ".join(str(n) if isinstance(n, int) and abs(n) < _BIGGEST else "?" for n in size[:8]) + "]"
