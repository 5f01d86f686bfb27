"""Makes texts out of logs fit for a picture: one line, no longer than there is room for, in characters of the font."""

from __future__ import annotations

import functools

from matplotlib import get_data_path
from matplotlib.ft2font import FT2Font

FONT = "DejaVu Sans"
"""Comes with matplotlib, so that every machine draws the same picture."""
_DPI = 72
_LARGE = 100.0
_MOST_SHOWN = 300
"""No picture has room for more characters in a line."""
_ELLIPSIS = "\u2026"


def clean(text: str) -> str:
    """One line of characters that the font has; others are written as escapes, so that nothing can hide."""
    known = _characters()
    return "".join(
        c
        if c.isprintable() and ord(c) in known
        else " "
        if c in "\t\n\r"
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


@functools.lru_cache(maxsize=1 << 12)
def width_in(text: str, size: float, *, bold: bool = False) -> float:
    """Width of a clean text in inches."""
    # letters that move together only make it narrower
    return sum(_advance(character, bold=bold) for character in text) * size


@functools.lru_cache(maxsize=1 << 12)
def fitted(text: str, size: float, room_in: float, *, bold: bool = False) -> str:
    """The text, made clean, its middle left out where it is wider than the room."""
    if len(text) > _MOST_SHOWN:
        text = text[: 2 * _MOST_SHOWN // 3] + text[-_MOST_SHOWN // 3 :]
    text = clean(text)
    if width_in(text, size, bold=bold) <= room_in:
        return text
    keep = len(text)
    low, high = 1, keep
    while low < high:
        middle = (low + high + 1) // 2
        if width_in(_shortened(text, middle), size, bold=bold) <= room_in:
            low = middle
        else:
            high = middle - 1
    return _shortened(text, low)


def wrapped(text: str, size: float, room_in: float, *, most: int = 2, bold: bool = False) -> list[str]:
    """The text in so many lines at most, the last of which may be shortened."""
    lines: list[str] = []
    words = clean(text[: most * _MOST_SHOWN]).split()
    while words and len(lines) < most - 1:
        count = 1
        while count < len(words) and width_in(" ".join(words[: count + 1]), size, bold=bold) <= room_in:
            count += 1
        lines.append(fitted(" ".join(words[:count]), size, room_in, bold=bold))
        words = words[count:]
    if words:
        lines.append(fitted(" ".join(words), size, room_in, bold=bold))
    return lines


def _shortened(text: str, keep: int) -> str:
    first = (keep * 2 + 2) // 3
    return text[:first] + _ELLIPSIS + (text[len(text) - (keep - first) :] if keep > first else "")


@functools.lru_cache(maxsize=1 << 12)
def _advance(character: str, *, bold: bool) -> float:
    """How wide a character is, in inches a point of size."""
    font = _font(bold=bold)
    # measured large, so that rounding to whole pixels does not count
    font.set_size(_LARGE, _DPI)
    return font.load_char(ord(character)).linearHoriAdvance / 65536 / _DPI / _LARGE


@functools.cache
def _characters() -> frozenset[int]:
    return frozenset(_font(bold=False).get_charmap())


@functools.cache
def _font(*, bold: bool) -> FT2Font:
    return FT2Font(f"{get_data_path()}/fonts/ttf/DejaVuSans{'-Bold' if bold else ''}.ttf")
