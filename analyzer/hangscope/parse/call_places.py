"""Reads the numbers that stand in every call line, whatever its layout, many at a time, with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hangscope.parse.call_clocks import MOST_CLOCKS

if TYPE_CHECKING:
    from hangscope.parse.call_layouts import Fields

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

MOST_DIGITS = 8
"""Hexadecimal digits of an opCount that are read here."""
_WORD = 8


class Places:
    """Where the numbers stand that are read in every line, as arrays over the layouts."""

    def __init__(self, fields: Sequence[Fields]) -> None:
        self.layouts = len(fields)
        self._op_count_at: Ints = np.array([one.op_count_at for one in fields], dtype=np.int64)
        widths = np.array([one.op_count_width for one in fields], dtype=np.uint64)
        self._missing_bits: Words = np.uint64(8) * (np.uint64(MOST_DIGITS) - widths)
        self._clock_counts: Ints = np.array([len(one.clocks) for one in fields], dtype=np.int64)
        self._clock_at: Ints = np.full((MOST_CLOCKS, len(fields)), -1, dtype=np.int64)
        self._fractions: Ints = np.zeros((MOST_CLOCKS, len(fields)), dtype=np.int64)
        for layout, one in enumerate(fields):
            for index, clock in enumerate(one.clocks):
                self._clock_at[index, layout], self._fractions[index, layout] = clock.start, clock.fraction

    def clocks(self, starts: Ints, layouts: npt.NDArray[np.uint16]) -> list[tuple[Ints, Ints]]:
        """As `Found.clocks`, for lines that begin there."""
        most = self._clock_counts[layouts].max() if len(layouts) else 0
        found = []
        for at, fractions in zip(self._clock_at[:most], self._fractions[:most], strict=True):
            places = at[layouts]
            found.append((np.where(places < 0, places, starts + places), fractions[layouts]))
        return found

    def op_counts(
        self, data: Bytes, starts: Ints, layouts: npt.NDArray[np.uint16]
    ) -> tuple[Words, npt.NDArray[np.bool_]]:
        """The opCount of each of these lines, and whether it is one: lower-case hexadecimal digits, eight at once."""
        every = np.ndarray((len(data) - _WORD,), dtype=f"V{_WORD}", buffer=data, strides=(1,))
        # the first digit is the lowest byte; the digits move to the upper end, NULs below them count as 0
        missing = self._missing_bits[layouts]
        text = every[starts + self._op_count_at[layouts]].view(np.dtype("<u8")) << missing
        digits = (text & _each(0x0F)) + (text >> np.uint64(6) & _each(0x01)) * np.uint64(9)
        letters = (digits + _each(0x80 - 10)) >> np.uint64(7) & _each(0x01)
        again = digits + (_each(0x30) << missing) + letters * np.uint64(ord("a") - ord("0") - 10)
        good = (again == text) & (digits & _each(0xF0) == 0)
        pairs = (digits << np.uint64(4) | digits >> np.uint64(8)) & np.uint64(0x00FF_00FF_00FF_00FF)
        fours = (pairs << np.uint64(8) | pairs >> np.uint64(16)) & np.uint64(0x0000_FFFF_0000_FFFF)
        return (fours << np.uint64(16) | fours >> np.uint64(32)) & np.uint64(0xFFFF_FFFF), good


def _each(byte: int) -> np.uint64:
    """A word of eight equal bytes."""
    return np.uint64(byte * 0x0101_0101_0101_0101)
