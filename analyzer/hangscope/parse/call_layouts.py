"""Finds collective-call lines in blocks of text, many at a time, with numpy.

Where the parts of a call stand, its words tell (`hangscope.parse.call_lines`). What launchers and log drivers put
around it, is told by layouts: lines with as many bytes in front of the call and behind it have their times of day at
the same places, or none. So one line of each layout is read with the grammar's own expression, and all others are
compared with it, eight bytes at once. Who calls, what the call says and what stands around it become one number a line;
the text is read once for each such number. Times of day differ from line to line and are left out of it. Addresses of
buffers and streams, of which nobody asks anything, are not looked at.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hangscope.parse.call_clocks import MOST_CLOCKS, Clock
from hangscope.parse.call_lines import LONGEST, ODD, SPARE, Lines, Parts, find_lines, find_parts
from hangscope.parse.call_numbers import Numbers
from hangscope.parse.call_places import Places
from hangscope.parse.call_texts import CLOCK, Fields
from hangscope.parse.call_words import WORD, Bytes, Flags, Ints, Words, sums, words
from hangscope.records import dataclass

_MOST_LAYOUTS = 128
"""With as many bytes around the call; with more than these it is no log of calls that repeat themselves."""
_MOST_STRANGERS = 4
"""So many lines with as many bytes around the call are tried before the rest of them takes the slow way."""
_LEVEL = b"] NCCL INFO "
_STREAM = len("0x")
"""Of a stream's address so much is the same in all lines."""
_KEPT = 24 << 20
_OF_LAYOUT = 0x9E37_79B9_7F4A_7C15
"""An odd number; its multiples part the texts of different layouts."""
_OF_AROUND = 64
"""The first of the sums that are those of what stands around a call."""
_TAILS = np.int64(LONGEST + 1)


@dataclass(frozen=True, slots=True)
class Layout:
    """What stands around calls.

    Attributes:
        head: bytes in front of the operation's name.
        stream: bytes of the stream's address.
        rest: place behind the call, counted from the stream's address.
        clocks: times of day in front of the call, and then those behind it, counted from the stream's address.
        in_head: how many of them stand in front of it.
    """

    head: int
    stream: int
    rest: int
    clocks: tuple[Clock, ...]
    in_head: int


@dataclass(frozen=True, slots=True)
class News:
    """The distinct keys of a block.

    Attributes:
        firsts: the first call of each, ascending.
        which: for every call which of them it has.
        numbers: of each.
    """

    firsts: Ints
    which: Ints
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Found:
    """The lines of a block that look like calls.

    Attributes:
        data: the block as numbers, with some bytes to spare behind it.
        lines: of the block.
        parts: of those that look like calls.
        around: a number for each of these, equal for lines with the same around the call but for times of day.
        keys: the same for lines that differ in opCount, addresses and times of day only.
        layouts: index into the finder's `layouts` of each.
        clocks: the first time of day of each, the second, and so on: where in the block it stands (-1 where there is
            none), and how many digits its fraction has.
        taken: for each line of the block, whether it is one of them.
        base: place of the block in `data`, from whose beginning all places are counted.
        news: of the distinct keys, if somebody has looked at them.
    """

    data: Bytes
    lines: Lines
    parts: Parts
    around: Words
    keys: Words
    layouts: npt.NDArray[np.uint16]
    clocks: list[tuple[Ints, Ints]]
    taken: Flags
    base: int = 0
    news: News | None = None


@dataclass(slots=True)
class _Known:
    """One layout: the bytes outside of what tells lines apart, and where that stands (as masks over words)."""

    number: int
    literal: Words
    mask: Words
    key_mask: Words
    all_mask: Words
    salt: np.uint64
    clocks: int
    hits: int = 0


class LayoutFinder:
    """Finds call lines.

    Args:
        search: finds the header and text of a call anywhere in a line, with the groups `call` and `stream`.

    Attributes:
        layouts: the layouts seen.
        ops: the names of operations seen, by the numbers that `Parts` has for them.
    """

    def __init__(self, search: Callable[[str], re.Match[str] | None]) -> None:
        self.layouts: list[Layout] = []
        self.ops: dict[int, str] = {}
        self._search = search
        self._known: dict[tuple[int, int], list[_Known]] = {}
        self._places = Places([])
        _keep_memory()

    def find(self, block: bytes) -> Found | None:
        """Looks through whole lines (without the last newline); None where many have control or foreign characters.

        What a key stands for has still to be read: the fields may hold anything.
        """
        size = len(block) + 1
        data = np.frombuffer(b"".join((block, b"\n", SPARE)), dtype=np.uint8)
        lines = find_lines(data, size)
        if np.count_nonzero(lines.lengths == ODD) * 8 > len(lines.ends):
            return None
        parts = find_parts(data, size, lines)
        around, layouts, good = self._look_around(data, lines, parts)
        if not good.all():
            parts, around, layouts = parts.at(good), around[good], layouts[good]
        taken = np.zeros(len(lines.ends), dtype=np.bool_)
        taken[parts.rows] = True
        if self._places.layouts < len(self.layouts):
            self._places = Places(self.layouts)
        clocks = self._places.clocks(parts.starts, parts.tails, layouts)
        return Found(data, lines, parts, around, around + parts.keys, layouts, clocks, taken)

    def text(self, found: Found, index: int) -> tuple[bytes, Fields]:
        """One of the lines that were found, and where its parts stand."""
        parts, layout = found.parts, self.layouts[int(found.layouts[index])]
        start = int(parts.starts[index])
        tail = int(parts.tails[index]) - start
        line = found.data[start : start + int(found.lines.lengths[parts.rows[index]])].tobytes()
        clocks = (clock if number < layout.in_head else clock.moved(tail) for number, clock in enumerate(layout.clocks))
        return line, Fields(layout.head, int(parts.colons[index]) - start, tail + layout.rest, tuple(clocks))

    def learn_clocks(self, line: bytes, fields: Fields, tail: int) -> None:
        """Learns the layout of a line that one without its times of day took for its own."""
        known = self._known.setdefault((fields.call_start, len(line) - tail), [])
        layout = self._layout(line, fields.call_start, tail) if len(known) < _MOST_LAYOUTS else None
        if layout is None or not layout.clocks:
            return
        text = _around(line, layout.head, tail)
        if all(((text ^ one.literal) & one.mask).any() for one in known if one.clocks):
            known.append(self._learn(line, layout, tail))

    def _look_around(self, data: Bytes, lines: Lines, parts: Parts) -> tuple[Words, npt.NDArray[np.uint16], Flags]:
        """What stands around calls: a number for each, the layout, and whether it is known where a call may stand."""
        out = (
            np.zeros(len(parts.rows), dtype=np.uint64),
            np.zeros(len(parts.rows), dtype=np.uint16),
            np.zeros(len(parts.rows), dtype=np.bool_),
        )
        if not len(parts.rows):
            return out
        widths = (parts.names - parts.starts) * _TAILS + (parts.starts + lines.lengths[parts.rows] - parts.tails)
        first = int(widths[0])
        if (widths == first).all():
            self._look_at(data, first, parts, np.arange(len(widths)), out)
            return out
        order = np.argsort(widths, kind="stable")
        ordered = widths[order]
        bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(order)]
        for low, high in itertools.pairwise(bounds):
            self._look_at(data, int(ordered[low]), parts, order[low:high], out)
        return out

    def _look_at(
        self,
        data: Bytes,
        widths: int,
        parts: Parts,
        calls: Ints,
        out: tuple[Words, npt.NDArray[np.uint16], Flags],
    ) -> None:
        """Looks at all calls with so many bytes around them."""
        head, tail = divmod(widths, int(_TAILS))
        head_size, tail_size = -(-head // WORD), -(-tail // WORD)
        text = np.empty((len(calls), head_size + tail_size), dtype=np.uint64)
        text[:, :head_size] = words(data, parts.starts[calls], head_size).reshape(len(calls), -1)
        text[:, head_size:] = words(data, parts.tails[calls], tail_size).reshape(len(calls), -1)
        known = self._known.setdefault((head, tail), [])
        # a layout with times of day says more about a line than one without
        known.sort(key=lambda layout: (-layout.clocks, -layout.hits))
        around, numbers, taken = out
        strangers = at = 0
        while len(calls) and strangers <= _MOST_STRANGERS:
            if at == len(known):
                start, behind = int(parts.starts[calls[0]]), int(parts.tails[calls[0]])
                line = data[start : behind + tail].tobytes()
                layout = self._layout(line, head, behind - start) if at < _MOST_LAYOUTS else None
                if layout is None:
                    strangers += 1
                    calls, text = calls[1:], text[1:]
                    continue
                known.append(self._learn(line, layout, behind - start))
            one = known[at]
            at += 1
            different = text ^ one.literal
            if not (different & one.all_mask).any():
                # one writer, and nothing around its calls but times of day: the rule in large files
                around[calls], numbers[calls], taken[calls] = one.salt, one.number, True
                one.hits += len(calls)
                return
            unfit = (different & one.mask).any(axis=1)
            others = int(np.count_nonzero(unfit))
            if others == len(calls):
                continue
            mine = calls
            if others:
                fits = ~unfit
                mine, different = calls[fits], different[fits]
                calls, text = calls[unfit], text[unfit]
            different &= one.key_mask
            around[mine] = sums(different, _OF_AROUND) + one.salt
            numbers[mine] = one.number
            taken[mine] = True
            one.hits += len(mine)
            if not others:
                return

    def _layout(self, line: bytes, head: int, tail: int) -> Layout | None:
        """What stands around a call; None when it is none.

        Args:
            line: with the call.
            head: where the operation's name begins.
            tail: where the stream's address begins.
        """
        text = line.decode("ascii")
        found = self._search(text)
        if found is None or found.start("call") != head or found.start("stream") != tail:
            return None
        start, end = found.span()
        clocks = [Clock(*clock.span()) for clock in CLOCK.finditer(text) if not start <= clock.start() < end]
        if len(clocks) > MOST_CLOCKS:
            return None
        in_head = [clock for clock in clocks if clock.start < start]
        in_tail = [clock.moved(-tail) for clock in clocks if clock.start >= end]
        return Layout(head, found.end("stream") - tail, end - tail, (*in_head, *in_tail), len(in_head))

    def _learn(self, line: bytes, layout: Layout, tail: int) -> _Known:
        """Gives a layout its number.

        Args:
            line: that has it.
            layout: what it is.
            tail: where the stream's address begins.
        """
        literal = _around(line, layout.head, tail)
        mask, keys = (np.zeros(len(literal) * WORD, dtype=np.uint8) for _ in range(2))
        behind = len(keys) - -(-(len(line) - tail) // WORD) * WORD
        ends = behind + layout.rest, behind + len(line) - tail
        # what parts the operation's name from who calls it must stand where it does in the others, too
        keys[: layout.head - len(_LEVEL)] = 0xFF
        mask[layout.head - len(_LEVEL) : layout.head] = 0xFF
        keys[slice(*ends)] = 0xFF
        mask[behind : behind + _STREAM] = 0xFF
        # what some versions print behind the stream is in words and numbers
        said = slice(behind + layout.stream, ends[0])
        mask[said] = 0xFF
        mask[said][np.char.isdigit(literal.view("S1")[said])] = 0
        for number, clock in enumerate(layout.clocks):
            at = clock if number < layout.in_head else clock.moved(behind)
            keys[at.start : at.end] = 0
            mask[at.start : at.end] = 0xFF
            mask[at.digits] = 0
        number = len(self.layouts)
        self.layouts.append(layout)
        salt = np.uint64(_OF_LAYOUT * (number + 1) % (1 << 64))
        fixed, told = mask.view(np.uint64), keys.view(np.uint64)
        return _Known(number, literal, fixed, told, fixed | told, salt, len(layout.clocks))


def _around(line: bytes, head: int, tail: int) -> Words:
    """What stands around a call, in front and behind filled up with NULs, eight bytes at once."""
    texts = (text.ljust(-(-len(text) // WORD) * WORD, b"\0") for text in (line[:head], line[tail:]))
    return np.frombuffer(b"".join(texts), dtype="<u8").astype(np.uint64)


def _keep_memory() -> None:
    """Makes glibc keep what one block needs for the next.

    It gives freed memory back to the system beyond twice the largest piece freed so far, and a fifth of the time goes
    into getting it again, page by page. This piece is never written to, so it takes none.
    """
    np.empty(_KEPT, dtype=np.uint8)
