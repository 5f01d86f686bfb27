"""Reads the numbers that tell calls of one operation apart, in many lines at once, with numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hangscope.parse.call_lines import MOST_MIDDLE
from hangscope.parse.call_words import (
    WORD,
    Bytes,
    Flags,
    Ints,
    Words,
    decimal,
    first_bytes,
    hexadecimal,
    masks,
    word,
    words,
)
from hangscope.records import dataclass

_LITERALS = (b"count ", b"datatype", b"op ", b"root ", b"comm 0x", b"[nranks=")
_WORDS: Words = np.array([word(text) for text in _LITERALS], dtype=np.uint64)[:, None]
_MASKS: Words = np.array([first_bytes(len(text)) for text in _LITERALS], dtype=np.uint64)[:, None]
_BLANKS = 11
_MIDDLES = masks(MOST_MIDDLE)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of calls, as printed, in the types of `CallShapes`.

    Attributes:
        elements, dtype, redop, root, nranks: count, datatype, op, root and nranks.
        comm: pointer of the communicator.
        good: whether each call has its words and numbers where they belong; of others the numbers mean nothing.
    """

    elements: Ints
    dtype: npt.NDArray[np.int16]
    redop: Ints
    root: npt.NDArray[np.int32]
    comm: Words
    nranks: npt.NDArray[np.int32]
    good: Flags

    def between(self, first: int, last: int) -> Numbers:
        """Those from one index to another."""
        return Numbers(*(getattr(self, name)[first:last] for name in self.__slots__))


def read(data: Bytes, places: Ints, widths: Ints) -> Numbers:
    """The numbers of calls.

    Args:
        data: the text, with some bytes to spare behind it.
        places: where the blank in front of ``count`` stands.
        widths: bytes from there to behind the bracket of nranks.
    """
    text = words(data, places, MOST_MIDDLE // WORD)
    text &= _MIDDLES.take(widths, axis=0)
    blanks = np.flatnonzero(text.view(np.uint8).reshape(-1) == ord(" "))
    lines = blanks // MOST_MIDDLE
    good = np.bincount(lines, minlength=len(places)) == _BLANKS
    numbers: Words = np.zeros((6, len(places)), dtype=np.uint64)
    if not good.all():
        blanks, lines = blanks[good[lines]], lines[good[lines]]
    # one row for each blank, in the places of the block
    at = (blanks + (places - np.arange(len(places)) * MOST_MIDDLE)[lines]).reshape(-1, _BLANKS).T
    begins, ends = at + 1, (places + widths)[good] - 1
    literal = words(data, begins[::2])
    fits = ((literal ^ _WORDS) & _MASKS == 0).all(axis=0) & (at[3] - at[2] == len(" datatype"))
    starts = np.concatenate((begins[1:9:2], begins[10:] + len("[nranks=")))
    stops = np.concatenate((at[2:10:2], ends[None]))
    numbers[:5, good], decimals = decimal(data, starts, stops - starts)
    pointers = begins[9] + len("0x")
    numbers[5, good], pointed = hexadecimal(data, pointers, at[10] - pointers)
    good[good] = fits & decimals.all(axis=0) & pointed
    elements, redop = (numbers[row].astype(np.int64) for row in (0, 2))
    dtype = numbers[1].clip(max=np.iinfo(np.int16).max).astype(np.int16)
    root, nranks = (numbers[row].clip(max=np.iinfo(np.int32).max).astype(np.int32) for row in (3, 4))
    return Numbers(elements, dtype, redop, root, numbers[5], nranks, good)
