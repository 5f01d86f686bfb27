"""Numbers what distinct texts of call lines say: which call it is, and how its time is told.

More texts than calls are distinct, as one call may stand in lines of several layouts and days.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hangscope.parse import call_clocks, call_numbers
from hangscope.parse.call_codes import distinct
from hangscope.parse.call_layouts import Found, LayoutFinder
from hangscope.parse.call_texts import CallTexts, bound, op_of

if TYPE_CHECKING:
    from hangscope.parse.call_shapes import Numbers

Codes = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Entries:
    """The entries of one input, each with a number.

    Args:
        texts: reads what is new.
        finder: has found the lines.

    Attributes:
        new_heads: how often something new stood around the call so far.
    """

    def __init__(self, texts: CallTexts, finder: LayoutFinder) -> None:
        self.new_heads = 0
        self._texts = texts
        self._finder = finder
        self._shapes = array("i")
        self._who = array("i")
        self._who_of: dict[int, int] = {}
        self._writers = array("i")
        self._plain = array("b")
        self._headed = array("b")
        self._midnights = array("d")
        self._clocks = array("b")
        self._timed = False

    def read(self, found: Found, lines: Ints, numbers: call_numbers.Numbers | None = None) -> Codes:
        """Adds an entry for each of these lines; returns their numbers, -1 for no call.

        Args:
            found: call lines of a block.
            lines: some of them.
            numbers: of these, if they were read already.
        """
        if numbers is None:
            numbers = call_numbers.read(found.data, found.parts.middles[lines], found.parts.widths[lines])
        good = numbers.good.copy()
        ops = np.full(len(lines), -1, dtype=np.int8)
        ops[good] = self._ops(found, lines[good])
        good &= ops >= 0
        odd = {}
        # a number that is negative or very long, or a pointer that is NULL
        for index in np.flatnonzero(~numbers.good).tolist():
            shape = self._texts.shape(*self._finder.text(found, int(lines[index])))
            if shape is not None:
                odd[index] = shape
        readable = good.copy()
        readable[list(odd)] = True
        whos = np.full(len(lines), -1, dtype=np.int32)
        whos[readable] = self._whos(found, lines[readable])
        good &= whos >= 0
        if not self._writers:
            return np.full(len(lines), -1, dtype=np.int32)
        writers = np.array(self._writers, dtype=np.int32)[whos]
        columns: Sequence[Numbers] = (
            *(writers, ops, numbers.elements, numbers.dtype, numbers.redop, numbers.root, numbers.comm),
            numbers.nranks,
        )
        if not good.all():
            columns = [column[good] for column in columns]
        shapes = np.full(len(lines), -1, dtype=np.int32)
        # one writer may write with several things around
        several = len(set(self._writers)) < len(self._writers)
        first = self._texts.columns.add_shapes(columns, distinct=not several)
        shapes[good] = np.arange(first, first + np.count_nonzero(good))
        for index, shape in odd.items():
            if whos[index] >= 0:
                shapes[index] = self._texts.columns.shape_code(shape._replace(writer=int(writers[index])))
        return self._add(shapes, whos)

    def _add(self, shapes: Codes, whos: Codes) -> Codes:
        """Numbers entries, but for those whose shape is -1."""
        good = shapes >= 0
        first = len(self._shapes)
        codes = np.full(len(shapes), -1, dtype=np.int32)
        codes[good] = np.arange(first, first + np.count_nonzero(good))
        self._shapes.frombytes(shapes[good].tobytes())
        self._who.frombytes(whos[good].tobytes())
        return codes

    def _ops(self, found: Found, lines: Ints) -> npt.NDArray[np.int8]:
        """The number of each line's operation, -1 for none."""
        keys = found.parts.ops[lines]
        firsts, which = distinct(keys)
        numbers = []
        known = self._finder.ops
        for key, at in zip(keys[firsts].tolist(), lines[firsts].tolist(), strict=True):
            name = known.get(key) or op_of(*self._finder.text(found, at))
            if name is not None:
                bound(known)
                known[key] = name
            numbers.append(-1 if name is None else self._texts.columns.op_code(name))
        return np.array(numbers, dtype=np.int8)[which]

    def _whos(self, found: Found, lines: Ints) -> Codes:
        """The number of what stands around the call in each line, -1 where more stands in it than one whole call."""
        firsts, which = distinct(found.around[lines])
        bound(self._who_of)
        numbers = []
        for at in lines[firsts].tolist():
            key = int(found.around[at])
            number = self._who_of.get(key)
            if number is None:
                self.new_heads += 1
                number = self._who_of[key] = self._read_who(found, at)
            numbers.append(number)
        return np.array(numbers, dtype=np.int32)[which]

    def _read_who(self, found: Found, index: int) -> int:
        line, fields = self._finder.text(found, index)
        who = self._texts.who(line, fields)
        if who is None:
            if not fields.clocks:
                start = int(found.parts.starts[index])
                self._finder.learn_clocks(line, fields, int(found.parts.tails[index]) - start)
            return -1
        self._writers.append(who.writer)
        self._plain.append(who.plain)
        self._headed.append(who.headed)
        self._midnights.append(who.midnight)
        self._clocks.append(who.clock)
        self._timed = self._timed or not math.isnan(who.midnight)
        return len(self._writers) - 1

    def shapes(self, codes: Codes) -> Codes:
        """The distinct call of each of these entries."""
        return np.frombuffer(self._shapes, dtype=np.int32)[codes]

    def whos(self, codes: Codes) -> Codes:
        """What stands around each of these entries, as a number."""
        return np.frombuffer(self._who, dtype=np.int32)[codes]

    def writers(self, whos: Codes) -> Codes:
        """Who writes."""
        return np.array(self._writers, dtype=np.int32)[whos]

    def plain(self, whos: Codes) -> Flags:
        """Whether nothing stands around the call."""
        return np.array(self._plain, dtype=np.bool_)[whos]

    def headed(self, whos: Codes) -> Flags:
        """Whether what stands in front of the header is different in every line."""
        return np.array(self._headed, dtype=np.bool_)[whos]

    def times(self, found: Found, codes: Codes) -> tuple[Floats | None, Flags]:
        """The time of each line (NaN: none; None: of no line), and whether it is a call with times that are any.

        Args:
            found: call lines of a block.
            codes: number of each line's entry, -1 where it is no call.
        """
        good = codes >= 0
        if not found.clocks and not self._timed:
            return None, good
        # the last one is that of -1
        whos = np.append(np.array(self._who, dtype=np.int32), -1)[codes]
        times = np.append(self._midnights, math.nan)[whos]
        deciding = np.append(self._clocks, -1)[whos]
        for index, (places, fractions) in enumerate(found.clocks):
            rows = np.flatnonzero(places >= 0)
            seconds, parts, any_time = call_clocks.read(found.data, places[rows], fractions[rows])
            good[rows] &= any_time
            counts = deciding[rows] == index
            times[rows[counts]] += seconds[counts]
            times[rows[counts]] += parts[counts]
        return (None if np.isnan(times[good]).all() else times), good
