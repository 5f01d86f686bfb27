"""Numbers what distinct texts of call lines say: which call it is, and how its time is told.

More texts than calls are distinct, as one call may stand in lines of several layouts and days.
"""

from __future__ import annotations

import math
from array import array

import numpy as np
import numpy.typing as npt

from hangscope.parse import call_clocks
from hangscope.parse.call_layouts import Found
from hangscope.parse.call_texts import Who

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Entries:
    """The entries of one input, each with a number."""

    def __init__(self) -> None:
        self._shapes = array("i")
        self._plain = array("b")
        self._headed = array("b")
        self._midnights = array("d")
        self._clocks = array("b")
        self._timed = False

    def add(self, shape: int, who: Who) -> int:
        """Adds an entry; returns its number.

        Args:
            shape: number of the distinct call.
            who: what stands around it.
        """
        self._shapes.append(shape)
        self._plain.append(who.plain)
        self._headed.append(who.headed)
        self._midnights.append(who.midnight)
        self._clocks.append(who.clock)
        self._timed = self._timed or not math.isnan(who.midnight)
        return len(self._shapes) - 1

    def shapes(self, codes: Codes) -> Codes:
        """The distinct call of each of these entries."""
        return np.array(self._shapes, dtype=np.int32)[codes]

    def plain(self, codes: Codes) -> Flags:
        """Whether nothing stands around the call."""
        return np.array(self._plain, dtype=np.bool_)[codes]

    def headed(self, codes: Codes) -> Flags:
        """Whether what stands in front of the header is different in every line."""
        return np.array(self._headed, dtype=np.bool_)[codes]

    def times(self, found: Found, codes: Codes) -> tuple[Floats | None, Flags]:
        """The time of each line (NaN: none; None: of no line), and whether it is a call with times that are any.

        Args:
            found: call lines of a block.
            codes: number of each line's entry, -1 where it is no call.
        """
        good = codes >= 0
        if not found.clocks and not self._timed:
            return None, good
        # the last one is that of -1
        times = np.append(self._midnights, math.nan)[codes]
        deciding = np.append(self._clocks, -1)[codes]
        for index, (places, fractions) in enumerate(found.clocks):
            rows = np.flatnonzero(places >= 0)
            seconds, parts, any_time = call_clocks.read(found.data, places[rows], fractions[rows])
            good[rows] &= any_time
            counts = deciding[rows] == index
            times[rows[counts]] += seconds[counts]
            times[rows[counts]] += parts[counts]
        return (None if np.isnan(times[good]).all() else times), good
