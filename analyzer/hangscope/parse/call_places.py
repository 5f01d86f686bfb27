"""Finds the times of day of call lines, many at a time, with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hangscope.parse.call_clocks import MOST_CLOCKS

if TYPE_CHECKING:
    from hangscope.parse.call_layouts import Layout

Ints = npt.NDArray[np.int64]


class Places:
    """Where the times of day stand, as arrays over the layouts."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self.layouts = len(layouts)
        self._counts: Ints = np.array([len(one.clocks) for one in layouts], dtype=np.int64)
        self._in_head: Ints = np.array([one.in_head for one in layouts], dtype=np.int64)
        self._at: Ints = np.zeros((MOST_CLOCKS, len(layouts)), dtype=np.int64)
        self._fractions: Ints = np.zeros((MOST_CLOCKS, len(layouts)), dtype=np.int64)
        for layout, one in enumerate(layouts):
            for index, clock in enumerate(one.clocks):
                self._at[index, layout], self._fractions[index, layout] = clock.start, clock.fraction

    def clocks(self, starts: Ints, tails: Ints, layouts: npt.NDArray[np.uint16]) -> list[tuple[Ints, Ints]]:
        """As `Found.clocks`, for lines that begin there, with addresses of streams that begin there."""
        most = self._counts[layouts].max() if len(layouts) else 0
        found = []
        for index in range(most):
            begins = np.where(index < self._in_head[layouts], starts, tails) + self._at[index][layouts]
            begins[index >= self._counts[layouts]] = -1
            found.append((begins, self._fractions[index][layouts]))
        return found
