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
# random odd numbers, always the same: a sum of products tells texts of equal length apart
_FACTORS: Words = np.random.default_rng(20_240_607).integers(0, 1 << 63, _LONGEST // _WORD + 2, np.uint64) * 2 + 1


@dataclass(frozen=True, slots=True)
class Found:
    """The call lines of a block.

    Attributes:
        rows: index in the block of each call line, ascending.
        keys: a number for each, equal for lines that differ in opCount and addresses only.
        op_counts: NCCL's opCount of each.
        starts: where each line begins in the block.
        rest: index of each other line, and where it begins and ends.
    """

    rows: Ints
    keys: Words
    op_counts: Words
    starts: Ints
    rest: list[tuple[int, int, int]]


@dataclass(slots=True)
class _Layout:
    """One layout: the bytes outside of fields, and where the fields that matter stand (as masks over words)."""

    literal: Words
    mask: Words
    head: slice
    head_mask: Words
    tail: slice
    tail_mask: Words
    count_at: int
    count_width: int
    hits: int = 0


class LayoutFinder:
    """Finds the call lines of one input.

    Args:
        match: the expression that a call line matches as a whole, with the groups `call`, `op_count`, `send_buffer`,
            `recv_buffer`, `count`, `nranks` and `stream`.
    """

    def __init__(self, match: Callable[[str], re.Match[str] | None]) -> None:
        self._match = match
        self._layouts: dict[int, list[_Layout]] = {}

    def find(self, block: bytes) -> Found:
        """Looks through whole lines (ASCII, without the last newline)."""
        data = np.frombuffer(block + b"\n" + _SPARE, dtype=np.uint8)
        ends = np.flatnonzero(data[: len(block) + 1] == ord("\n"))
        starts = np.empty_like(ends)
        starts[0] = 0
        starts[1:] = ends[:-1] + 1
        lengths = ends - starts
        order = np.argsort(np.minimum(lengths, _LONGEST + 1).astype(np.uint16), kind="stable")
        ordered = lengths[order]
        bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(order)]
        keys = np.zeros(len(starts), dtype=np.uint64)
        counts = np.zeros(len(starts), dtype=np.uint64)
        taken = np.zeros(len(starts), dtype=np.bool_)
        for first, last in itertools.pairwise(bounds):
            length = int(ordered[first])
            if _SHORTEST <= length <= _LONGEST:
                self._look_at(data, length, starts, order[first:last], (keys, counts, taken))
        rows, rest = np.flatnonzero(taken), np.flatnonzero(~taken)
        others = list(zip(rest.tolist(), starts[rest].tolist(), ends[rest].tolist(), strict=True))
        return Found(rows, keys[rows], counts[rows], starts[rows], others)

    def _look_at(
        self,
        data: npt.NDArray[np.uint8],
        length: int,
        starts: Ints,
        lines: Ints,
        out: tuple[Words, Words, npt.NDArray[np.bool_]],
    ) -> None:
        """Looks at all lines of one length."""
        size = -(-length // _WORD) * _WORD
        # every place of the data as the beginning of so many bytes: taking some of them copies the lines
        every = np.ndarray((len(data) - size,), dtype=f"V{size}", buffer=data, strides=(1,))
        words = every[starts[lines]].view(np.uint64).reshape(len(lines), -1)
        layouts = self._layouts.setdefault(length, [])
        layouts.sort(key=lambda layout: -layout.hits)
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
            different &= layout.mask
            fits = ~different.any(axis=1)
            if fits.all():
                self._take(layout, lines, words, out)
                return
            if fits.any():
                self._take(layout, lines[fits], words[fits], out)
                lines, words = lines[~fits], words[~fits]

    def _take(
        self, layout: _Layout, lines: Ints, words: Words, out: tuple[Words, Words, npt.NDArray[np.bool_]]
    ) -> None:
        keys, counts, taken = out
        digits = words.view(np.uint8).reshape(len(lines), -1)[:, layout.count_at : layout.count_at + layout.count_width]
        values = np.zeros(len(lines), dtype=np.uint64)
        good = np.ones(len(lines), dtype=np.bool_)
        for column in range(layout.count_width):
            digit = _HEX[digits[:, column]]
            good &= digit < _NO_DIGIT
            values = values * 16 + digit
        head = (words[:, layout.head] & layout.head_mask) @ _FACTORS[: len(layout.head_mask)]
        tail = (words[:, layout.tail] & layout.tail_mask) @ _FACTORS[-len(layout.tail_mask) :]
        layout.hits += len(lines)
        if not good.all():
            lines, head, tail, values = lines[good], head[good], tail[good], values[good]
        keys[lines] = head ^ (tail << np.uint64(1))
        counts[lines] = values
        taken[lines] = True

    def _learn(self, line: bytes) -> _Layout | None:
        """The layout of a line; None when it is no call line."""
        found = self._match(line.decode("ascii"))
        if found is None or not 0 < len(found["op_count"]) <= _MOST_DIGITS:
            return None
        size = -(-len(line) // _WORD) * _WORD
        mask, head, tail = (np.zeros(size, dtype=np.uint8) for _ in range(3))
        mask[: len(line)] = 0xFF
        head[: found.end("call")] = 0xFF
        tail[found.start("count") : found.end("nranks")] = 0xFF
        for start, end in (*map(found.span, ("op_count", "send_buffer", "recv_buffer", "stream")),):
            mask[start:end] = 0
        mask[(head | tail) > 0] = 0
        # what newer versions print behind the stream is in words and numbers
        for at in range(found.end("stream"), len(line)):
            if chr(line[at]).isdigit():
                mask[at] = 0
        heads = slice(0, -(-found.end("call") // _WORD))
        tails = slice(found.start("count") // _WORD, -(-found.end("nranks") // _WORD))
        literal = np.frombuffer(line.ljust(size, b"\0"), dtype=np.uint64)
        return _Layout(
            literal,
            mask.view(np.uint64),
            heads,
            head.view(np.uint64)[heads],
            tails,
            tail.view(np.uint64)[tails],
            found.start("op_count"),
            len(found["op_count"]),
        )


_NO_DIGIT = 16
_HEX = np.full(256, _NO_DIGIT, dtype=np.uint64)
for _value, _digit in enumerate(b"0123456789abcdef"):
    _HEX[_digit] = _value
