"""Finds the lines of a block, and in those that look like calls the places of their parts, with numpy.

All versions print the same words in the same order, with one blank between them, and numbers of any width. So the
places of the parts are found one behind the other, in all lines at once: ``NAME: opCount N sendbuff P recvbuff P``,
then what tells calls of one operation apart, the middle, ``count N datatype N op N root N comm P [nranks=N]``, then
``stream P`` and the rest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hangscope.parse.call_words import (
    WORD,
    Bytes,
    Flags,
    Ints,
    Words,
    hexadecimal_words,
    masks,
    sums,
    width_of,
    word,
    words,
)
from hangscope.records import dataclass

LONGEST = 1024
"""Bytes of a line that is looked at."""
ODD = LONGEST + 2
"""Stands for the length of a line with control or foreign characters."""
SPARE = b"\0" * (LONGEST + WORD)
"""Behind a block there have to be so many bytes that belong to no line."""
MOST_MIDDLE = 14 * WORD
"""A longer text from the count to nranks takes the slow way: it has room for the widest of all numbers but one."""
_LEAST_MIDDLE = 6 * WORD
_SHORTEST_HEAD = len("h:1:1 [0] NCCL INFO AB")
_MOST_NAME = 2 * WORD
_FIRST_PRINTABLE, _PRINTABLE = ord(" "), ord("~") - ord(" ")
_NEWLINE, _RETURN = ord("\n"), ord("\r")
_HARMLESS = (ord("\t"), ord("\x1b"))
"""Control characters that may stand around a call: what is left when they are gone is read for each number."""
_ANCHOR = word(b": opCoun")
_ANCHOR_LENGTH = len(": opCount ")
_LETTERS, _LETTERS_AT = np.uint16(int.from_bytes(b"pC", "little")), len(": o")
"""Two letters that nothing else has are found faster than a word; where they stand behind the colon."""
_SEND, _RECEIVE = word(b" sendbuf"), word(b" recvbuf")
_BEHIND = word(b"] stream")
_LITERAL = len(" sendbuff ")
_POINTER_WORDS = 3
_MIDDLES = masks(MOST_MIDDLE)
_NAMES = masks(_MOST_NAME)
_OF_NAME = MOST_MIDDLE // WORD
"""Which of the sums is that of a name."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a block.

    Attributes:
        starts, ends: where each begins and ends, with its line end.
        lengths: of its text; `ODD` with control or foreign characters.
    """

    starts: Ints
    ends: Ints
    lengths: npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of lines that look like calls.

    Attributes:
        rows: index of each line in its block, ascending.
        starts: where the line begins.
        names: where the operation's name begins.
        colons: the place behind it.
        middles: where the blank in front of ``count`` stands.
        widths: bytes from there to behind the bracket of nranks.
        tails: where the stream's address begins.
        op_counts: opCount.
        ops: a number for each, equal for equal names.
        keys: the same for equal names and middles.
    """

    rows: Ints
    starts: Ints
    names: Ints
    colons: Ints
    middles: Ints
    widths: Ints
    tails: Ints
    op_counts: Words
    ops: Words
    keys: Words

    def at(self, which: Flags | Ints | slice) -> Parts:
        """Some of them."""
        return Parts(
            self.rows[which],
            self.starts[which],
            self.names[which],
            self.colons[which],
            self.middles[which],
            self.widths[which],
            self.tails[which],
            self.op_counts[which],
            self.ops[which],
            self.keys[which],
        )

    def further_up(self, lines: int) -> Parts:
        """The same for a block that begins so many lines further down."""
        return replace(self, rows=self.rows - lines)


def find_lines(data: Bytes, size: int) -> Lines:
    """The lines of a text.

    Args:
        data: lines, with a newline behind the last.
        size: bytes of them.
    """
    breaks = np.flatnonzero(data[:size] - np.uint8(_FIRST_PRINTABLE) > _PRINTABLE)
    what = data[breaks]
    newlines = what == _NEWLINE
    ends = breaks[newlines]
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts
    if len(ends) == len(breaks):
        return Lines(starts, ends, np.minimum(lengths, LONGEST + 1).astype(np.uint16))
    # a carriage return in front of the newline is part of the line's end
    returns = (what == _RETURN) & (data[breaks + 1] == _NEWLINE)
    odd = ~(newlines | returns)
    for harmless in _HARMLESS:
        odd &= what != harmless
    lengths[np.searchsorted(ends, breaks[returns])] -= 1
    lengths = np.minimum(lengths, LONGEST + 1)
    lengths[np.searchsorted(ends, breaks[odd])] = ODD
    return Lines(starts, ends, lengths.astype(np.uint16))


def find_parts(data: Bytes, size: int, lines: Lines) -> Parts:
    """The parts of all lines of a text that have them where NCCL prints them.

    Args:
        data: the text, with `SPARE` behind it.
        size: bytes of it.
        lines: its lines.
    """
    colons = _find_letters(data[:size]) - _LETTERS_AT
    colons = colons[colons >= _SHORTEST_HEAD]
    rows = np.searchsorted(lines.ends, colons)
    good = (words(data, colons) == _ANCHOR) & (colons - lines.starts[rows] >= _SHORTEST_HEAD)
    good &= lines.lengths[rows] <= LONGEST
    # a line of two calls is torn
    twice = rows[1:] == rows[:-1]
    good[1:] &= ~twice
    good[:-1] &= ~twice
    if not good.all():
        colons, rows, good = colons[good], rows[good], good[good]
    # from the colon back to the blank
    name = words(data, colons - _MOST_NAME, _MOST_NAME // WORD)[:, ::-1].byteswap()
    name_widths = width_of(name, ord(" "))
    name &= _NAMES.take(name_widths, axis=0)
    good &= name_widths < _MOST_NAME
    op_count = words(data, colons + _ANCHOR_LENGTH)
    digits = width_of(op_count, ord(" "))
    op_counts, numbers = hexadecimal_words(op_count, digits)
    good &= numbers & (words(data, colons + (_ANCHOR_LENGTH - WORD)) >> np.uint64(48) == word(b"t "))
    place = colons + _ANCHOR_LENGTH + digits
    for literal in (_SEND, _RECEIVE):
        text = words(data, place, 2)
        good &= (text[:, 0] == literal) & _opens(text[:, 1], b"f ")
        place = place + _LITERAL
        # the next word shows whether there was a blank
        place += (words(data, place, _POINTER_WORDS).view(np.uint8) == ord(" ")).argmax(axis=1)
    middle = words(data, place, MOST_MIDDLE // WORD)
    brackets = middle.view(np.uint8)[:, _LEAST_MIDDLE:] == ord("]")
    widths = brackets.argmax(axis=1) + (_LEAST_MIDDLE + 1)
    middle &= _MIDDLES.take(widths, axis=0)
    text = words(data, place + widths - 1, 2)
    good &= (text[:, 0] == _BEHIND) & _opens(text[:, 1], b" ")
    tails = place + widths + len(" stream ")
    good &= tails < lines.ends[rows]
    ops = sums(name, _OF_NAME)
    around = lines.starts[rows], colons - name_widths, colons
    parts = Parts(rows, *around, place, widths, tails, op_counts, ops, sums(middle) + ops)
    return parts if good.all() else parts.at(good)


def _find_letters(data: Bytes) -> Ints:
    """Where these letters stand, ascending."""
    pairs = "<u2"
    even = np.flatnonzero(data[: len(data) // 2 * 2].view(pairs) == _LETTERS) * 2
    odd = np.flatnonzero(data[1 : (len(data) - 1) // 2 * 2 + 1].view(pairs) == _LETTERS) * 2 + 1
    places = np.concatenate((even, odd))
    places.sort(kind="stable")
    return places


def _opens(texts: Words, literal: bytes) -> Flags:
    """Whether this, and then an address, is what texts begin with."""
    size = np.uint64(8 * (WORD - len(literal) - 2))
    begun = texts << size
    plain: Flags = begun == word(literal + b"0x") << size
    nil: Flags = begun == word(literal + b"(n") << size
    return plain | nil
