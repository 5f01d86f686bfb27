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
        self._bits = 0
        # small files are one block, and need no table
        self._first: tuple[Keys, Codes] | None = None

    def _make_room(self, keys: int) -> None:
        """Makes the table large enough for so many more."""
        self._filled += keys
        bits = min(_MOST_BITS, max(_FEWEST_BITS, (self._filled * _SLOTS_A_KEY).bit_length()))
        if bits <= self._bits:
            return
        old = None if not self._bits else (self._keys, self._codes)
        self._bits = bits
        self._shift = np.uint64(64 - bits)
        self._keys: Keys = np.zeros(1 << bits, dtype=np.uint64)
        # a key of 0 is found in an empty slot: its lines go the slow way
        self._codes: Codes = np.full(1 << bits, -1, dtype=np.int32)
        if old is not None:
            kept = np.flatnonzero(old[0])
            self._place(old[0][kept], old[1][kept])

    def _place(self, keys: Keys, codes: Codes) -> None:
        slots = (keys >> self._shift).astype(np.int64)
        self._keys[slots], self._codes[slots] = keys, codes

    @property
    def empty(self) -> bool:
        """Whether no key is known."""
        return self._first is None and not self._bits

    def codes(
        self, keys: Keys, read: Callable[[Ints], Codes], keys_told_apart: tuple[Ints, Ints] | None = None
    ) -> Codes:
        """The number of each key.

        Args:
            keys: of some lines; the upper bits tell them apart as well as all.
            read: given the indexes of lines with new keys, ascending and no two with the same, tells their numbers.
            keys_told_apart: as `distinct` does; only where none is known.
        """
        if self.empty:
            firsts, which = keys_told_apart or distinct(keys)
            found = read(firsts)
            self._first = keys[firsts], found
            return found[which]
        if self._first is not None:
            known, self._first = self._first, None
            self._make_room(len(known[0]))
            self._place(*known)
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
        self._make_room(len(lines))
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
