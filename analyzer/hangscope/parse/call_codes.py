"""From the keys of call lines to the numbers of distinct calls, many at a time, with numpy.

Calls come again and again, so nearly every key is known. A key is looked for in one slot of a table; those that are not
there, as they are new or another key has taken their slot, are few, and looked up one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Codes = npt.NDArray[np.int32]

_FEWEST_BITS, _MOST_BITS = 13, 20
_SLOTS_A_KEY = 8
_MOST_KEYS = (1 << _MOST_BITS) // _SLOTS_A_KEY


class CodeSlots:
    """The keys of one input."""

    def __init__(self) -> None:
        self._code_of: dict[int, int] = {}
        self._lay_out(_FEWEST_BITS)

    def _lay_out(self, bits: int) -> None:
        """A table of so many slots (as a power of two), with the keys that are known."""
        self._bits = bits
        self._shift = np.uint64(64 - bits)
        self._keys: Keys = np.zeros(1 << bits, dtype=np.uint64)
        # a key of 0 is found in an empty slot: its lines go the slow way
        self._codes: Codes = np.full(1 << bits, -1, dtype=np.int32)
        self._place(np.array(list(self._code_of), np.uint64), np.array(list(self._code_of.values()), np.int32))

    def _place(self, keys: Keys, codes: Codes) -> None:
        slots = (keys >> self._shift).astype(np.int64)
        self._keys[slots], self._codes[slots] = keys, codes

    def codes(self, keys: Keys, read: Callable[[int], int]) -> Codes:
        """The number of each key.

        Args:
            keys: of some lines; the upper bits tell them apart as well as all.
            read: given the index of the first line with a new key, tells its number.
        """
        slots = (keys >> self._shift).astype(np.int64)
        codes = self._codes[slots]
        missing = np.flatnonzero(self._keys[slots] != keys)
        if not len(missing):
            return codes
        new, firsts, inverse = np.unique(keys[missing], return_index=True, return_inverse=True)
        if len(self._code_of) > _MOST_KEYS:
            self._code_of.clear()
        found = np.empty(len(new), dtype=np.int32)
        # in the order of their lines, so that what is numbered by it does not depend on the keys
        for at in np.argsort(firsts).tolist():
            key = int(new[at])
            code = self._code_of.get(key)
            if code is None:
                code = self._code_of[key] = read(int(missing[firsts[at]]))
            found[at] = code
        codes[missing] = found[inverse]
        if len(self._code_of) * _SLOTS_A_KEY > 1 << self._bits and self._bits < _MOST_BITS:
            self._lay_out((len(self._code_of) * _SLOTS_A_KEY).bit_length())
        else:
            self._place(new, found)
        return codes
