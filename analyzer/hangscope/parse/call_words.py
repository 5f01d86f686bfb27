"""Looks at words of text eight bytes at once, in many places at a time, with numpy: how wide they are, which numbers.

The first byte of a text is the lowest of a word, whatever the machine. What is said of eight bytes in a comment is done
to all of them by one operation on one number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

WORD = 8
MOST_DIGITS = 2 * WORD
"""Digits of a number that are read here."""
_LITTLE = np.dtype("<u8")


def each(byte: int) -> np.uint64:
    """A word of eight equal bytes."""
    return np.uint64(byte * 0x0101_0101_0101_0101)


def word(text: bytes) -> np.uint64:
    """A text of up to eight bytes, with NULs behind it."""
    return np.uint64(int.from_bytes(text, "little"))


def first_bytes(count: int) -> np.uint64:
    """A word that has all bits of its first bytes."""
    return np.uint64((1 << 8 * count) - 1)


_FIRST: Words = np.array([first_bytes(count) for count in range(WORD + 1)], dtype=np.uint64)


def words(data: Bytes, places: Ints, count: int = 1) -> Words:
    """The words that begin at these places; of several, one more axis.

    Args:
        data: text, with so many bytes to spare behind the last place.
        places: where to begin.
        count: of words, one behind the other.
    """
    size = count * WORD
    # every place of the data as the beginning of so many bytes: taking some of them copies these
    every = np.ndarray((len(data) - size,), dtype=f"V{size}", buffer=data, strides=(1,))
    taken: Words = every[places].view(_LITTLE)
    return taken if count == 1 else taken.reshape(*places.shape, count)


def masks(most: int) -> Words:
    """For each width up to this, words that have all bits of so many bytes."""
    counts = np.arange(most + 1)[:, None] - np.arange(-(-most // WORD)) * WORD
    found: Words = _FIRST[np.clip(counts, 0, WORD)]
    return found


def width_of(texts: Words, stop: int) -> Ints:
    """How many bytes stand before the first of this kind; all of them when there is none.

    Args:
        texts: a row of words for each.
        stop: the byte.
    """
    # such bytes become 0, of which only the lowest bit borrows from the bit above: 0x80 is left where there was one
    other = texts ^ each(stop)
    hits = (other - each(0x01)) & ~other & each(0x80)
    # of the lowest one the place; the factor's bytes count down
    places = (hits & (~hits + np.uint64(1))) >> np.uint64(7)
    found = ((places * np.uint64(0x0001_0203_0405_0607)) >> np.uint64(56)).astype(np.int64)
    found[hits == 0] = WORD
    if texts.ndim == 1:
        return found
    total = found[:, 0].copy()
    for index in range(1, texts.shape[1]):
        total += found[:, index] * (total == index * WORD)
    return total


def _hexadecimal_word(texts: Words, widths: Ints) -> tuple[Words, Flags]:
    # the digits move to the upper end, NULs below them count as 0
    missing = np.uint64(8) * (np.uint64(WORD) - widths.astype(np.uint64))
    text = texts << missing
    digits = (text & each(0x0F)) + (text >> np.uint64(6) & each(0x01)) * np.uint64(9)
    letters = (digits + each(0x80 - 10)) >> np.uint64(7) & each(0x01)
    again = digits + (each(0x30) << missing) + letters * np.uint64(ord("a") - ord("0") - 10)
    good = (again == text) & (digits & each(0xF0) == 0)
    pairs = (digits << np.uint64(4) | digits >> np.uint64(8)) & np.uint64(0x00FF_00FF_00FF_00FF)
    fours = (pairs << np.uint64(8) | pairs >> np.uint64(16)) & np.uint64(0x0000_FFFF_0000_FFFF)
    return (fours << np.uint64(16) | fours >> np.uint64(32)) & np.uint64(0xFFFF_FFFF), good


def _decimal_word(texts: Words, widths: Ints) -> tuple[Words, Flags]:
    missing = np.uint64(8) * (np.uint64(WORD) - widths.astype(np.uint64))
    digits = (texts << missing) ^ (each(ord("0")) << missing)
    good = ((digits + each(0x80 - 10)) | digits) & each(0x80) == 0
    # the first digit is the lowest byte
    pairs = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF_00FF_00FF_00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000_FFFF_0000_FFFF)
    return (fours * np.uint64(10_000) + (fours >> np.uint64(32))) & np.uint64(0xFFFF_FFFF), good


def hexadecimal_words(texts: Words, widths: Ints) -> tuple[Words, Flags]:
    """Numbers of up to eight lower-case hexadecimal digits, and whether they are any.

    Args:
        texts: one word each.
        widths: digits of each.
    """
    numbers, good = _hexadecimal_word(texts, np.minimum(widths, WORD))
    return numbers, good & (widths > 0) & (widths <= WORD)


def hexadecimal(data: Bytes, places: Ints, widths: Ints) -> tuple[Words, Flags]:
    """Numbers of up to 16 lower-case hexadecimal digits, and whether they are any. A NUL in front makes it none.

    Args:
        data: text, with a word to spare behind it.
        places: where they begin.
        widths: digits of each.
    """
    return _number(_hexadecimal_word, np.uint64(1 << 32), data, places, widths)


def decimal(data: Bytes, places: Ints, widths: Ints) -> tuple[Words, Flags]:
    """The same for numbers of up to 16 decimal digits."""
    return _number(_decimal_word, np.uint64(10**WORD), data, places, widths)


def _number(
    read: Any,  # noqa: ANN401 - one of the two above
    factor: np.uint64,
    data: Bytes,
    places: Ints,
    widths: Ints,
) -> tuple[Words, Flags]:
    upper = np.clip(widths - WORD, 0, WORD)
    low, good = read(words(data, places + upper), np.clip(widths, 0, WORD))
    good &= (widths > 0) & (widths <= MOST_DIGITS)
    # who prints numbers prints no zeros in front
    good &= (words(data, places) & first_bytes(1) != word(b"0")) | (widths == 1)
    if not upper.any():
        return low, good
    high, as_good = read(words(data, places), upper)
    return low + high * factor, good & as_good


def _mixed(numbers: Words) -> Words:
    """Numbers as good as random (splitmix64), always the same; numpy's own take 20 ms to load."""
    numbers = numbers * np.uint64(0x9E37_79B9_7F4A_7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return numbers ^ (numbers >> np.uint64(31))


# odd ones: a sum of products tells texts of equal length apart
_FACTORS: Words = _mixed(np.arange(1, (1 << 9) + 1, dtype=np.uint64)) | np.uint64(1)


def sums(texts: Words, first: int = 0) -> Words:
    """A number for each row of words; the words are changed.

    Args:
        texts: the rows.
        first: other sums are made for other numbers here.
    """
    # in a sum of products the upper bits of a word meet the upper bits of the others only: spread them over it
    texts ^= texts >> np.uint64(32)
    texts ^= texts >> np.uint64(16)
    found: Words = np.einsum("ij,j->i", texts, _FACTORS[first : first + texts.shape[1]])
    return found
