"""From the keys of call lines to the numbers of distinct calls, many at a time, with numpy.

Calls come again and again, so nearly every key is known. A key is looked for in one slot of a table; those that are not
there, as they are new or another key has taken their slot, are read again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

_FEWEST_BITS, _MOST_BITS = 12, 18
_SLOTS_A_KEY = 8


class CodeSlots:
    """The keys of one input."""

    def __init__(self) -> None:
        self._filled = 0
        self._lay_out(_FEWEST_BITS)

    def _lay_out(self, bits: int) -> None:
        """An empty table of so many slots (as a power of two)."""
        self._bits = bits
        self._shift = np.uint64(64 - bits)
        self._keys: Keys = np.zeros(1 << bits, dtype=np.uint64)
        # a key of 0 is found in an empty slot: its lines go the slow way
        self._codes: Codes = np.full(1 << bits, -1, dtype=np.int32)

    def _place(self, keys: Keys, codes: Codes) -> None:
        slots = (keys >> self._shift).astype(np.int64)
        self._keys[slots], self._codes[slots] = keys, codes

    def codes(self, keys: Keys, read: Callable[[Ints], Codes]) -> Codes:
        """The number of each key.

        Args:
            keys: of some lines; the upper bits tell them apart as well as all.
            read: given the indexes of lines with new keys, ascending and no two with the same, tells their numbers.
        """
        slots = (keys >> self._shift).astype(np.int64)
        codes = self._codes[slots]
        missing = np.flatnonzero(self._keys[slots] != keys)
        if not len(missing):
            return codes
        # in the order of their lines, so that what is numbered by it does not depend on the keys
        firsts, which = distinct(keys[missing])
        lines = missing[firsts]
        found = read(lines)
        codes[missing] = found[which]
        self._filled += len(lines)
        if self._filled * _SLOTS_A_KEY > 1 << self._bits and self._bits < _MOST_BITS:
            kept = np.flatnonzero(self._keys)
            old = self._keys[kept], self._codes[kept]
            self._lay_out(min(_MOST_BITS, (self._filled * _SLOTS_A_KEY).bit_length()))
            self._place(*old)
        self._place(keys[lines], found)
        return codes


def distinct(keys: Keys) -> tuple[Ints, Ints]:
    """Where each distinct key comes first, ascending, and for every key which of them it is."""
    if len(keys) and (keys == keys[0]).all():
        return np.zeros(1, dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.empty(len(keys), dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    firsts = order[new]
    ranks = np.argsort(firsts)
    place = np.empty(len(firsts), dtype=np.int64)
    place[ranks] = np.arange(len(firsts))
    which = np.empty(len(keys), dtype=np.int64)
    which[order] = place[np.cumsum(new) - 1]
    return firsts[ranks], which
