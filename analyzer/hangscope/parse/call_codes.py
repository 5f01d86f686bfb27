"""From the keys of call lines to the numbers of distinct calls, many at a time, with numpy.

Calls come again and again, so nearly every key is known. A key is looked for in one slot of a table; those that are not
there, as they are new or another key has taken their slot, are few, and looked up one by one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_BITS = 14
_MOST_KEYS = 100_000


class CodeSlots:
    """The keys of one input."""

    def __init__(self) -> None:
        self._keys = np.zeros(1 << _BITS, dtype=np.uint64)
        # a key of 0 is found in an empty slot: its lines go the slow way
        self._codes = np.full(1 << _BITS, -1, dtype=np.int32)
        self._code_of: dict[int, int] = {}

    def codes(self, keys: npt.NDArray[np.uint64], read: Callable[[int], int]) -> npt.NDArray[np.int32]:
        """The number of each key.

        Args:
            keys: of some lines; the upper bits tell them apart as well as all.
            read: given the index of the first line with a new key, tells its number.
        """
        slots = (keys >> np.uint64(64 - _BITS)).astype(np.int64)
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
        taken = (new >> np.uint64(64 - _BITS)).astype(np.int64)
        self._keys[taken], self._codes[taken] = new, found
        codes[missing] = found[inverse]
        return codes
