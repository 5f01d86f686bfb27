"""The fast way through collective-call lines: from blocks of raw lines to columns, no object a line.

The one definition of the format is the pattern that grammars/nccl_calls.lark compiles to, behind the NCCL header of an
unprefixed line. It reads one line of each layout (`hangscope.parse.call_layouts`) and each odd line; lines with
anything else in front take the slow way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hangscope.grammar import Alternative, load_grammars
from hangscope.model import Event
from hangscope.parse.columns import CallColumns, CallShape, WriterKey, pointer

if TYPE_CHECKING:
    from hangscope.parse.call_layouts import Found, LayoutFinder

CALL_KIND = "nccl_call"
MARK = ": opCount "
_MARK = MARK.encode()
_LONGEST_NUMBER = 20
"""Digits of the largest 64-bit number; Python refuses to read thousands of them."""
_LONGEST_PID = 10
_LONGEST_DEVICE = 4
LONGEST = 1024
"""NCCL's own limit of a line up to 2.28; a call line is far shorter, and a longer one takes the slow, careful way."""
_HEADER = r"([^\s:\[\]]+):(\d{1,10}):\d+ \[(-?\d+)\] NCCL INFO "
_NUMBERS = ("op_count", "count", "dtype", "reduce_op", "root", "comm", "nranks")
_WORTH_A_BLOCK = 1 << 14
"""Bytes of a block from which looking at all its lines at once is faster than one by one."""
_MOST_KEYS = 100_000


@functools.cache
def call_alternative() -> Alternative:
    """The grammar's definition of a collective-call line."""
    return next(a for grammar in load_grammars() for a in grammar.alternatives if a.kind == CALL_KIND)


@functools.cache
def _line() -> re.Pattern[str]:
    return re.compile(f"^{_HEADER}{call_alternative().pattern}[ \\t]*$", re.MULTILINE)


@functools.cache
def _finder() -> LayoutFinder:
    """One for all inputs: what it learns is how lines look, not who wrote them."""
    # numpy takes longer to import than a log without calls to read
    from hangscope.parse.call_layouts import LayoutFinder

    return LayoutFinder(_line().match)


class CallReader:
    """Puts the collective calls of one file into columns."""

    def __init__(self, file: str) -> None:
        self.columns = CallColumns()
        self._file = file
        self._match = _line().match
        self._tallies: dict[int, tuple[int, int]] = {}
        self._shape_of: dict[int, int] = {}

    def take_block(self, block: bytes, first_line: int) -> list[tuple[int, int, int]] | None:
        """Reads the call lines of a block of whole, plain lines.

        Args:
            block: ASCII, without the last newline.
            first_line: number of its first line.

        Returns:
            Index, start and end of each line that was not read; None when nothing was, as few lines are calls.
        """
        if len(block) < _WORTH_A_BLOCK or block.count(_MARK) * 2 < block.count(b"\n"):
            return None
        found = _finder().find(block)
        if len(found.rows):
            self._append(found, block, first_line)
        return found.rest

    def _append(self, found: Found, block: bytes, first_line: int) -> None:
        import numpy as np

        keys, firsts, inverse = np.unique(found.keys, return_index=True, return_inverse=True)
        if len(self._shape_of) > _MOST_KEYS:
            self._shape_of.clear()
        codes = np.empty(len(keys), dtype=np.int32)
        for number, (key, first) in enumerate(zip(keys.tolist(), firsts.tolist(), strict=True)):
            code = self._shape_of.get(key)
            if code is None:
                start = int(found.starts[first])
                code = self._shape_of[key] = self._read_shape(block[start : start + LONGEST].split(b"\n", 1)[0])
            codes[number] = code
        shapes, lines = codes[inverse], (found.rows + first_line).astype(np.int32)
        wide = bool(found.op_counts.max() > np.iinfo(np.int32).max)
        counts = found.op_counts.astype(np.int64 if wide else np.int32)
        self.columns.append_rows(shapes.tobytes(), counts.tobytes(), lines.tobytes(), wide=wide)
        present = self.columns.shapes
        owners = np.array([present[code].writer for code in codes.tolist()], dtype=np.int64)[inverse]
        calls = np.bincount(owners)
        last = np.zeros(len(calls), dtype=np.int64)
        last[owners] = lines
        for code in np.flatnonzero(calls).tolist():
            self._tally(code, int(calls[code]), int(last[code]))

    def _read_shape(self, line: bytes) -> int:
        found = self._match(line.decode("ascii"))
        if found is None:
            raise AssertionError("a line of a known layout is a call line")
        return self.columns.shape_code(self._shape(found))

    def _shape(self, found: re.Match[str]) -> CallShape:
        _, count, dtype, redop, root, comm, nranks = found.group(*_NUMBERS)
        return CallShape(
            self._code(found),
            self.columns.op_code(found["call"]),
            int(count),
            int(dtype),
            int(redop),
            int(root),
            pointer(comm),
            int(nranks),
        )

    def take(self, text: str, number: int) -> bool:
        """Reads one raw line with `MARK` in it; False when it is not a plain call line."""
        found = self._match(text) if len(text) <= LONGEST else None
        if found is None:
            return False
        if max(map(len, found.group(*_NUMBERS))) > _LONGEST_NUMBER or len(found[2]) > _LONGEST_PID:
            return False
        shape = self._shape(found)
        self.columns.append(shape, int(found["op_count"], 16), number)
        self._tally(shape.writer, 1, number)
        return True

    def _tally(self, writer: int, calls: int, last: int) -> None:
        known, before = self._tallies.get(writer, (0, 0))
        self._tallies[writer] = (known + calls, max(before, last))

    def tallies(self) -> Iterator[tuple[WriterKey, int, int]]:
        """Each writer of calls that came the fast way, with how many, and the line of the last one."""
        writers = self.columns.writers
        for code, (calls, last) in self._tallies.items():
            yield writers[code], calls, last

    def _code(self, found: re.Match[str]) -> int:
        """The writer's number; of a new one its device is noted."""
        key, known = WriterKey(self._file, "", found[1], int(found[2])), len(self.columns.writers)
        code = self.columns.writer_code(key)
        if code == known and 0 < len(found[3]) <= _LONGEST_DEVICE and not found[3].startswith("-"):
            self.columns.devices[key] = int(found[3])
        return code

    def take_event(self, event: Event, key: WriterKey) -> None:
        """Takes a call line that came the slow way (with a prefix, or torn off another line)."""

        def number(name: str) -> int:
            value = event.fields.get(name)
            return value if isinstance(value, int) else 0

        columns = self.columns
        shape = CallShape(
            columns.writer_code(key),
            columns.op_code(str(event.fields.get("call", ""))),
            number("count"),
            number("dtype"),
            number("reduce_op"),
            number("root"),
            pointer(str(event.fields.get("comm", ""))),
            number("nranks"),
        )
        columns.append(shape, number("op_count"), event.line.number, event.line.time)
