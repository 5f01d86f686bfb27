"""Reads the numbers that tell calls of one operation apart, in many lines at once, with numpy."""

from __future__ import annotations

import numpy as np

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
    """The numbers of calls, as printed.

    Attributes:
        elements, dtype, redop, root, nranks: count, datatype, op, root and nranks.
        comm: pointer of the communicator.
        good: whether each call has its words and numbers where they belong; of others the numbers mean nothing.
    """

    elements: Words
    dtype: Words
    redop: Words
    root: Words
    comm: Words
    nranks: Words
    good: Flags


def read(data: Bytes, places: Ints, widths: Ints) -> Numbers:
    """The numbers of calls.

    Args:
        data: the text, with some bytes to spare behind it.
        places: where the blank in front of ``count`` stands.
        widths: bytes from there to behind the bracket of nranks.
    """
    text = words(data, places, MOST_MIDDLE // WORD)
    text &= _MIDDLES[widths]
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
    return Numbers(numbers[0], numbers[1], numbers[2], numbers[3], numbers[5], numbers[4], good)
