"""Finds collective-call lines in blocks of text by their layout, many at a time, with numpy.

Lines of one length whose fields have the same widths (a layout) differ only inside of their fields. So one line of each
layout is read with the grammar's own expression, and all others are compared with it outside of the fields, eight bytes
at once. What stands in the fields that tell calls apart (who calls what, of which size, where) becomes one number a
line; the text is read once for each such number. Addresses of buffers and streams, of which nobody asks anything, are
not looked at.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

_LONGEST = 512
_SHORTEST = 96
"""A line with all fields of a call is longer; shorter ones are not worth a look."""
_MOST_LAYOUTS = 64
"""Of lines of one length; with more than these it is no log of calls that repeat themselves."""
_MOST_STRANGERS = 4
"""So many lines of one length are tried before the rest of them takes the slow way."""
_WORD = 8
_SPARE = b"\0" * (_LONGEST + _WORD)
_MOST_DIGITS = 8
"""Hexadecimal digits of an opCount that are read here."""
_FIRST_PRINTABLE, _PRINTABLE = ord(" "), ord("~") - ord(" ")
# random odd numbers, always the same: a sum of products tells texts of equal length apart
_FACTORS: Words = np.random.default_rng(20_240_607).integers(0, 1 << 63, _LONGEST // _WORD, np.uint64) * 2 + 1
_OF_LAYOUT = 0x9E37_79B9_7F4A_7C15
"""An odd number; its multiples part the texts of different layouts."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the fields of a call stand in the lines of one layout.

    Attributes:
        head_end: end of the operation's name, before which the line says who calls what.
        tail_start, tail_end: from the count to nranks.
        count_at, count_width: the digits of opCount.
    """

    head_end: int
    tail_start: int
    tail_end: int
    count_at: int
    count_width: int


@dataclass(frozen=True, slots=True)
class Found:
    """The lines of a block that look like calls.

    Attributes:
        rows: index in the block of each such line, ascending.
        keys: a number for each, equal for lines that differ in opCount and addresses only.
        op_counts: NCCL's opCount of each.
        layouts: index into the finder's `fields` of each.
        starts, ends: where each line of the block begins and ends in it.
        taken: for each line of the block, whether it is one of `rows`.
    """

    rows: Ints
    keys: Words
    op_counts: Words
    layouts: npt.NDArray[np.uint16]
    starts: Ints
    ends: Ints
    taken: npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Layout:
    """One layout: the bytes outside of fields, and where the fields that matter stand (as masks over words)."""

    number: int
    literal: Words
    mask: Words
    key_mask: Words
    salt: np.uint64
    hits: int = 0


class LayoutFinder:
    """Finds the call lines of one input.

    Args:
        match: the expression that a call line matches as a whole, with the groups `call`, `op_count`, `send_buffer`,
            `recv_buffer`, `count`, `nranks` and `stream`.

    Attributes:
        fields: of each layout.
    """

    def __init__(self, match: Callable[[str], re.Match[str] | None]) -> None:
        self.fields: list[Fields] = []
        self._match = match
        self._layouts: dict[int, list[_Layout]] = {}
        self._count_at: Ints = np.empty(0, dtype=np.int64)
        self._missing_bits: Words = np.empty(0, dtype=np.uint64)

    def find(self, block: bytes) -> Found | None:
        """Looks through whole lines (without the last newline); None where many have control or foreign characters.

        What a key stands for has still to be read: fields may hold anything.
        """
        data = np.frombuffer(block + b"\n" + _SPARE, dtype=np.uint8)
        breaks = np.flatnonzero(data[: len(block) + 1] - np.uint8(_FIRST_PRINTABLE) > _PRINTABLE)
        newlines = data[breaks] == ord("\n")
        ends = breaks[newlines]
        starts = np.empty_like(ends)
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
        lengths = np.minimum(ends - starts, _LONGEST + 1).astype(np.uint16)
        if len(ends) < len(breaks):
            odd = np.unique(np.searchsorted(ends, breaks[~newlines]))
            if len(odd) * 8 > len(ends):
                return None
            lengths[odd] = 0
        order = np.argsort(lengths, kind="stable")
        ordered = lengths[order]
        bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(order)]
        keys = np.zeros(len(starts), dtype=np.uint64)
        layouts = np.zeros(len(starts), dtype=np.uint16)
        taken = np.zeros(len(starts), dtype=np.bool_)
        for first, last in itertools.pairwise(bounds):
            length = int(ordered[first])
            if _SHORTEST <= length <= _LONGEST:
                self._look_at(data, length, starts, order[first:last], (keys, layouts, taken))
        rows = np.flatnonzero(taken)
        counts, good = self._op_counts(data, starts[rows], layouts[rows])
        if not good.all():
            taken[rows[~good]] = False
            rows, counts = rows[good], counts[good]
        return Found(rows, keys[rows], counts, layouts[rows], starts, ends, taken)

    def _look_at(
        self,
        data: Bytes,
        length: int,
        starts: Ints,
        lines: Ints,
        out: tuple[Words, npt.NDArray[np.uint16], npt.NDArray[np.bool_]],
    ) -> None:
        """Looks at all lines of one length."""
        size = -(-length // _WORD) * _WORD
        # every place of the data as the beginning of so many bytes: taking some of them copies the lines
        every = np.ndarray((len(data) - size,), dtype=f"V{size}", buffer=data, strides=(1,))
        words = every[starts[lines]].view(np.uint64).reshape(len(lines), -1)
        layouts = self._layouts.setdefault(length, [])
        layouts.sort(key=lambda layout: -layout.hits)
        keys, numbers, taken = out
        strangers = at = 0
        while len(lines) and strangers <= _MOST_STRANGERS:
            if at == len(layouts):
                layout = self._learn(words[0].tobytes()[:length]) if at < _MOST_LAYOUTS else None
                if layout is None:
                    strangers += 1
                    lines, words = lines[1:], words[1:]
                    continue
                layouts.append(layout)
            layout = layouts[at]
            at += 1
            different = words ^ layout.literal
            unfit = (different & layout.mask).any(axis=1)
            others = int(np.count_nonzero(unfit))
            if others == len(lines):
                continue
            mine = lines
            if others:
                fits = ~unfit
                mine, different = lines[fits], different[fits]
                lines, words = lines[unfit], words[unfit]
            different &= layout.key_mask
            keys[mine] = different @ _FACTORS[: different.shape[1]] + layout.salt
            numbers[mine] = layout.number
            taken[mine] = True
            layout.hits += len(mine)
            if not others:
                return

    def _op_counts(
        self, data: Bytes, starts: Ints, layouts: npt.NDArray[np.uint16]
    ) -> tuple[Words, npt.NDArray[np.bool_]]:
        """The opCount of each of these lines, and whether it is one: lower-case hexadecimal digits, eight at once."""
        if len(self._count_at) < len(self.fields):
            self._count_at = np.array([one.count_at for one in self.fields], dtype=np.int64)
            widths = np.array([one.count_width for one in self.fields], dtype=np.uint64)
            self._missing_bits = np.uint64(8) * (np.uint64(_MOST_DIGITS) - widths)
        every = np.ndarray((len(data) - _WORD,), dtype=f"V{_WORD}", buffer=data, strides=(1,))
        # the first digit is the lowest byte; the digits move to the upper end, NULs below them count as 0
        missing = self._missing_bits[layouts]
        text = every[starts + self._count_at[layouts]].view(np.dtype("<u8")) << missing
        digits = (text & _each(0x0F)) + (text >> np.uint64(6) & _each(0x01)) * np.uint64(9)
        letters = (digits + _each(0x80 - 10)) >> np.uint64(7) & _each(0x01)
        again = digits + (_each(0x30) << missing) + letters * np.uint64(ord("a") - ord("0") - 10)
        good = (again == text) & (digits & _each(0xF0) == 0)
        pairs = (digits << np.uint64(4) | digits >> np.uint64(8)) & np.uint64(0x00FF_00FF_00FF_00FF)
        fours = (pairs << np.uint64(8) | pairs >> np.uint64(16)) & np.uint64(0x0000_FFFF_0000_FFFF)
        return (fours << np.uint64(16) | fours >> np.uint64(32)) & np.uint64(0xFFFF_FFFF), good

    def _learn(self, line: bytes) -> _Layout | None:
        """The layout of a line; None when it is no call line."""
        found = self._match(line.decode("ascii"))
        if found is None or not 0 < len(found["op_count"]) <= _MOST_DIGITS:
            return None
        size = -(-len(line) // _WORD) * _WORD
        mask, keys = (np.zeros(size, dtype=np.uint8) for _ in range(2))
        mask[: len(line)] = 0xFF
        keys[: found.end("call")] = 0xFF
        keys[found.start("count") : found.end("nranks")] = 0xFF
        for start, end in (*map(found.span, ("op_count", "send_buffer", "recv_buffer", "stream")),):
            mask[start:end] = 0
        mask[keys > 0] = 0
        # what newer versions print behind the stream is in words and numbers
        for at in range(found.end("stream"), len(line)):
            if chr(line[at]).isdigit():
                mask[at] = 0
        number = len(self.fields)
        self.fields.append(
            Fields(
                found.end("call"),
                found.start("count"),
                found.end("nranks"),
                found.start("op_count"),
                len(found["op_count"]),
            )
        )
        literal = np.frombuffer(line.ljust(size, b"\0"), dtype=np.uint64)
        salt = np.uint64(_OF_LAYOUT * number % (1 << 64))
        return _Layout(number, literal, mask.view(np.uint64), keys.view(np.uint64), salt)


def _each(byte: int) -> np.uint64:
    """A word of eight equal bytes."""
    return np.uint64(byte * 0x0101_0101_0101_0101)
