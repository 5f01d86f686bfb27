"""Reads times of day in blocks of lines, many at a time, with numpy.

The date in front of a time of day stays the same for thousands of lines, and is read once; what is read here is added.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hangscope.records import dataclass

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOST_CLOCKS = 4
"""In one line: a log driver's, a launcher's, NCCL's own."""
DAY = 86400
_CLOCK = len("00:00:00")
_FRACTION = 9
_LENGTH = _CLOCK + 1 + _FRACTION
_HIGHEST = np.array([2, 9, 5, 9, 6, 9], dtype=np.uint8)
_PLACES = (0, 1, 3, 4, 6, 7)
_SECONDS = np.array([36000, 3600, 600, 60, 10, 1], dtype=np.int64)
_NANOSECONDS = 10 ** np.arange(_FRACTION - 1, -1, -1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day around calls: its place."""

    start: int
    end: int

    def moved(self, by: int) -> Clock:
        """The same so many bytes further back."""
        return Clock(self.start + by, self.end + by)

    @property
    def fraction(self) -> int:
        return max(0, self.end - self.start - _CLOCK - 1)

    @property
    def digits(self) -> list[int]:
        """The places of its digits."""
        fraction = range(self.start + _CLOCK + 1, self.end)
        return [*(self.start + place for place in _PLACES), *fraction]


def read(data: Bytes, places: Ints, widths: Ints) -> tuple[Floats, Floats, Flags]:
    """Seconds and fractions of times of day, and whether they are any: other digits may stand at their places.

    Args:
        data: text, with some bytes to spare behind it.
        places: where each begins.
        widths: digits of each one's fraction.
    """
    every = np.ndarray((len(data) - _LENGTH,), dtype=f"V{_LENGTH}", buffer=data, strides=(1,))
    digits = every[places].view(np.uint8).reshape(len(places), _LENGTH) - np.uint8(ord("0"))
    clock = digits[:, _PLACES]
    seconds = clock @ _SECONDS
    good = (clock <= _HIGHEST).all(axis=1) & (seconds <= DAY)
    if not widths.any():
        return seconds.astype(np.float64), np.zeros(len(places)), good
    fraction = digits[:, _CLOCK + 1 :]
    fraction[np.arange(_FRACTION) >= widths[:, None]] = 0
    good &= (fraction <= 9).all(axis=1)
    return seconds.astype(np.float64), fraction @ _NANOSECONDS / 1e9, good
