"""Finds collective-call lines in blocks of text by their layout, many at a time, with numpy.

Lines of one length whose fields have the same widths (a layout) differ only inside of their fields. So one line of each
layout is read with the grammar's own expression, and all others are compared with it outside of the fields, eight bytes
at once. What stands in the fields that tell calls apart (who calls what, of which size, where), and what launchers and
log drivers put around the call, becomes one number a line; the text is read once for each such number. Times of day
differ from line to line and are left out of it. Addresses of buffers and streams, of which nobody asks anything, are
not looked at.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hangscope.parse.call_clocks import MOST_CLOCKS, Clock
from hangscope.parse.call_places import MOST_DIGITS, Places
from hangscope.parse.call_texts import CLOCK
from hangscope.records import dataclass

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

_LONGEST = 1024
_SHORTEST = 96
"""A line with all fields of a call is longer; shorter ones are not worth a look."""
_MOST_LAYOUTS = 128
"""Of lines of one length; with more than these it is no log of calls that repeat themselves."""
_ODD = _LONGEST + 2
"""Stands for the length of a line with control or foreign characters."""
_MOST_STRANGERS = 4
"""So many lines of one length are tried before the rest of them takes the slow way."""
_LEVEL, _MARK = b"] NCCL INFO ", b": opCount "
_WORD = 8
_KEPT = 24 << 20
_SPARE = b"\0" * (_LONGEST + _WORD)
_FIRST_PRINTABLE, _PRINTABLE = ord(" "), ord("~") - ord(" ")
_NEWLINE, _RETURN = ord("\n"), ord("\r")
_HARMLESS = (ord("\t"), ord("\x1b"))
"""Control characters that may stand around a call: what is left when they are gone is read for each number."""
# random odd numbers, always the same: a sum of products tells texts of equal length apart
_FACTORS: Words = np.random.default_rng(20_240_607).integers(0, 1 << 63, _LONGEST // _WORD, np.uint64) * 2 + 1
_OF_LAYOUT = 0x9E37_79B9_7F4A_7C15
"""An odd number; its multiples part the texts of different layouts."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the fields of a call stand in the lines of one layout.

    Attributes:
        call_start, call_end: the operation's name; what stands before it says who calls.
        count_start, comm_end: from the count to nranks; what lies between has other widths in other lines.
        rest_start: what stands behind the call.
        op_count_at, op_count_width: the digits of opCount.
        others: opCount and the addresses, whatever they are.
        clocks: times of day around the call.
    """

    call_start: int
    call_end: int
    count_start: int
    comm_end: int
    rest_start: int
    op_count_at: int
    op_count_width: int
    others: tuple[tuple[int, int], ...]
    clocks: tuple[Clock, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The lines of a block that look like calls.

    Attributes:
        data: the block as numbers, with some bytes to spare behind it.
        rows: index in the block of each such line, ascending.
        keys: a number for each, equal for lines that differ in opCount, addresses and times of day only.
        op_counts: NCCL's opCount of each.
        layouts: index into the finder's `fields` of each.
        clocks: the first time of day of each, the second, and so on: where in the block it stands (-1 where there is
            none), and how many digits its fraction has.
        starts, ends: where each line of the block begins and ends in it.
        lengths: of its text; what is longer than any call, or has foreign characters, only seems to have one.
        taken: for each line of the block, whether it is one of `rows`.
    """

    data: Bytes
    rows: Ints
    keys: Words
    op_counts: Words
    layouts: npt.NDArray[np.uint16]
    clocks: list[tuple[Ints, Ints]]
    starts: Ints
    ends: Ints
    lengths: npt.NDArray[np.uint16]
    taken: npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Layout:
    """One layout: the bytes outside of fields, and where the fields that matter stand (as masks over words)."""

    number: int
    literal: Words
    mask: Words
    key_mask: Words
    salt: np.uint64
    clocks: int
    hits: int = 0


class LayoutFinder:
    """Finds call lines.

    Args:
        search: finds the header and text of a call anywhere in a line, with the groups `call`, `op_count`,
            `send_buffer`, `recv_buffer`, `count`, `comm`, `nranks` and `stream`.

    Attributes:
        fields: of each layout.
    """

    def __init__(self, search: Callable[[str], re.Match[str] | None]) -> None:
        self.fields: list[Fields] = []
        self._search = search
        self._layouts: dict[int, list[_Layout]] = {}
        self._places = Places([])
        _keep_memory()

    def find(self, block: bytes) -> Found | None:
        """Looks through whole lines (without the last newline); None where many have control or foreign characters.

        What a key stands for has still to be read: fields may hold anything.
        """
        data = np.frombuffer(b"".join((block, b"\n", _SPARE)), dtype=np.uint8)
        starts, ends, lengths = _lines(data, len(block) + 1)
        if np.count_nonzero(lengths == _ODD) * 8 > len(ends):
            return None
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
        if self._places.layouts < len(self.fields):
            self._places = Places(self.fields)
        counts, good = self._places.op_counts(data, starts[rows], layouts[rows])
        if not good.all():
            taken[rows[~good]] = False
            rows, counts = rows[good], counts[good]
        clocks = self._places.clocks(starts[rows], layouts[rows])
        return Found(data, rows, keys[rows], counts, layouts[rows], clocks, starts, ends, lengths, taken)

    def learn_clocks(self, line: bytes) -> None:
        """Learns the layout of a line that one without its times of day took for its own."""
        layouts = self._layouts.setdefault(len(line), [])
        fields = self._fields(line) if len(layouts) < _MOST_LAYOUTS else None
        if fields is None or not fields.clocks:
            return
        words = _words(line)
        if all(((words ^ known.literal) & known.mask).any() for known in layouts if known.clocks):
            layouts.append(self._layout(line, fields))

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
        # a layout with times of day says more about a line than one without
        layouts.sort(key=lambda layout: (-layout.clocks, -layout.hits))
        keys, numbers, taken = out
        strangers = at = 0
        while len(lines) and strangers <= _MOST_STRANGERS:
            if at == len(layouts):
                line = words[0].tobytes()[:length]
                fields = self._fields(line) if _MARK in line and at < _MOST_LAYOUTS else None
                if fields is None:
                    strangers += 1
                    lines, words = lines[1:], words[1:]
                    continue
                layouts.append(self._layout(line, fields))
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
            keys[mine] = _sums(different) + layout.salt
            numbers[mine] = layout.number
            taken[mine] = True
            layout.hits += len(mine)
            if not others:
                return

    def _fields(self, line: bytes) -> Fields | None:
        """Where the fields stand in a line; None when it is no call line."""
        text = line.decode("ascii")
        found = self._search(text)
        if found is None or not 0 < len(found["op_count"]) <= MOST_DIGITS:
            return None
        start, end = found.span()
        clocks = [Clock(*clock.span()) for clock in CLOCK.finditer(text) if not start <= clock.start() < end]
        if len(clocks) > MOST_CLOCKS:
            return None
        return Fields(
            *found.span("call"),
            found.start("count"),
            found.end("nranks"),
            end,
            found.start("op_count"),
            len(found["op_count"]),
            tuple(map(found.span, ("op_count", "send_buffer", "recv_buffer", "stream"))),
            tuple(clocks),
        )

    def _layout(self, line: bytes, fields: Fields) -> _Layout:
        """The layout of a line; it gets a number."""
        size = len(_words(line)) * _WORD
        mask, keys = (np.zeros(size, dtype=np.uint8) for _ in range(2))
        mask[: len(line)] = 0xFF
        # what parts the operation's name from who calls it must stand where it does in the others, too
        keys[: fields.call_end] = 0xFF
        keys[fields.call_start - len(_LEVEL) : fields.call_start] = 0
        keys[fields.count_start : fields.comm_end] = 0xFF
        keys[fields.rest_start : len(line)] = 0xFF
        for clock in fields.clocks:
            keys[clock.start : clock.end] = 0
            mask[clock.digits] = 0
        for start, end in fields.others:
            mask[start:end] = 0
        mask[keys > 0] = 0
        # what newer versions print behind the stream is in words and numbers
        behind = slice(fields.comm_end, fields.rest_start)
        mask[behind][np.char.isdigit(np.frombuffer(line[behind], dtype="S1"))] = 0
        number = len(self.fields)
        self.fields.append(fields)
        salt = np.uint64(_OF_LAYOUT * (number + 1) % (1 << 64))
        return _Layout(number, _words(line), mask.view(np.uint64), keys.view(np.uint64), salt, len(fields.clocks))


def _lines(data: Bytes, size: int) -> tuple[Ints, Ints, npt.NDArray[np.uint16]]:
    """Where each line begins and ends, and how long its text is: `_ODD` with control or foreign characters.

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
        return starts, ends, np.minimum(lengths, _LONGEST + 1).astype(np.uint16)
    # a carriage return in front of the newline is part of the line's end
    returns = (what == _RETURN) & (data[breaks + 1] == _NEWLINE)
    odd = ~(newlines | returns)
    for harmless in _HARMLESS:
        odd &= what != harmless
    lengths[np.searchsorted(ends, breaks[returns])] -= 1
    lengths = np.minimum(lengths, _LONGEST + 1)
    lengths[np.searchsorted(ends, breaks[odd])] = _ODD
    return starts, ends, lengths.astype(np.uint16)


def _keep_memory() -> None:
    """Makes glibc keep what one block needs for the next.

    It gives freed memory back to the system beyond twice the largest piece freed so far, and a fifth of the time goes
    into getting it again, page by page. This piece is never written to, so it takes none.
    """
    np.empty(_KEPT, dtype=np.uint8)


def _words(line: bytes) -> Words:
    """A line, filled up with NULs, eight bytes at once."""
    return np.frombuffer(line.ljust(-(-len(line) // _WORD) * _WORD, b"\0"), dtype=np.uint64)


def _sums(texts: Words) -> Words:
    """A number for each row of words; the words are changed."""
    # in a sum of products the upper bits of a word meet the upper bits of the others only: spread them over it
    texts ^= texts >> np.uint64(32)
    texts ^= texts >> np.uint64(16)
    sums: Words = np.einsum("ij,j->i", texts, _FACTORS[: texts.shape[1]])
    return sums
