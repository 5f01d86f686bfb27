"""The fast way through collective-call lines: from blocks of raw lines to columns, no object a line.

The one definition of the format is the pattern that grammars/nccl_calls.lark compiles to, behind the NCCL header of an
unprefixed line. It reads one line of each layout (`hangscope.parse.call_layouts`) and each odd line; lines with
anything else in front take the slow way.
"""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hangscope.grammar import Alternative, load_grammars
from hangscope.model import Event
from hangscope.parse.columns import CallColumns, CallShape, WriterKey, pointer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hangscope.parse.call_codes import CodeSlots
    from hangscope.parse.call_layouts import Fields, Found, LayoutFinder

    Ints = npt.NDArray[np.int32]
    Numbers = npt.NDArray[np.integer[Any]]

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
_NUMBERS = ("count", "dtype", "reduce_op", "root", "comm", "nranks")
_SHAPE = (1, 2, 3, "call", *_NUMBERS)
"""The groups that tell calls apart: host, pid, device, operation, and the numbers."""
_WHO = 2
"""So many fields of a shape say who calls what; the others come from the end of the line."""
_WORTH_A_BLOCK = 1 << 14
"""Bytes of a block from which looking at all its lines at once is faster than one by one."""
_MOST_KEYS = 100_000
_PROBE = 1 << 13
"""Bytes at the beginning and the end of a block that tell whether most of its lines are calls."""


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


def _has_many_calls(block: bytes) -> bool:
    """Whether half of the lines at both ends of a block are calls."""
    ends = (0, _PROBE), (max(_PROBE, len(block) - _PROBE), len(block))
    calls = sum(block.count(_MARK, *span) for span in ends)
    return calls > 0 and calls * 2 >= sum(block.count(b"\n", *span) for span in ends)


class CallReader:
    """Puts the collective calls of one file into columns."""

    def __init__(self, file: str) -> None:
        self.columns = CallColumns()
        self._file = file
        self._match = _line().match
        self._tallies: dict[int, tuple[int, int]] = {}
        self._code_of: dict[tuple[str | Any, ...], int] = {}
        self._heads: dict[bytes, tuple[int, ...]] = {}
        self._tails: dict[bytes, tuple[int, ...]] = {}
        self._owners = array("i")
        self._slots: CodeSlots | None = None

    def take_block(self, block: bytes, first_line: int) -> tuple[int, list[tuple[int, int, int]]] | None:
        """Reads the call lines of a block of whole lines.

        Args:
            block: without the last newline.
            first_line: number of its first line.

        Returns:
            How many lines it has, and index, start and end of each that was not read; None when nothing was, as few
            lines are plain calls.
        """
        if len(block) < _WORTH_A_BLOCK or not _has_many_calls(block):
            return None
        finder = _finder()
        found = finder.find(block)
        if found is None:
            return None
        if len(found.rows):
            self._append(found, finder.fields, block, first_line)
        rest = (~found.taken).nonzero()[0]
        others = zip(rest.tolist(), found.starts[rest].tolist(), found.ends[rest].tolist(), strict=True)
        return len(found.ends), list(others)

    def _append(self, found: Found, fields: Sequence[Fields], block: bytes, first_line: int) -> None:
        import numpy as np

        from hangscope.parse.call_codes import CodeSlots

        def read(row: int) -> int:
            start, end = int(found.starts[found.rows[row]]), int(found.ends[found.rows[row]])
            return self._read_shape(block[start:end], fields[int(found.layouts[row])])

        if self._slots is None:
            self._slots = CodeSlots()
        shapes = self._slots.codes(found.keys, read)
        rows, op_counts = found.rows, found.op_counts
        good = shapes >= 0
        if not good.all():
            # the fields of these hold what no call has
            found.taken[rows[~good]] = False
            shapes, rows, op_counts = shapes[good], rows[good], op_counts[good]
            if not len(rows):
                return
        self.add_rows(shapes, op_counts, (rows + first_line).astype(np.int32))

    def add_rows(self, shapes: Ints, op_counts: Numbers, lines: Ints) -> None:
        """Adds call lines without a time: the number of the distinct call, opCount and line number of each."""
        import numpy as np

        wide = bool(op_counts.max() > np.iinfo(np.int32).max)
        counts = op_counts.astype(np.int64 if wide else np.int32)
        self.columns.append_rows(shapes.tobytes(), counts.tobytes(), lines.tobytes(), wide=wide)
        self._owners.extend(shape.writer for shape in self.columns.shapes[len(self._owners) :])
        owners = np.array(self._owners)[shapes]
        calls = np.bincount(owners)
        last = np.zeros(len(calls), dtype=np.int64)
        last[owners] = lines
        for code in np.flatnonzero(calls).tolist():
            self._tally(code, int(calls[code]), int(last[code]))

    def _read_shape(self, line: bytes, fields: Fields) -> int:
        """Number of the distinct call that a line is; -1 when it is none."""
        head, tail = line[: fields.head_end], line[fields.tail_start : fields.tail_end]
        who, what = self._heads.get(head), self._tails.get(tail)
        if who is not None and what is not None:
            # what is right in one line is right in another: the parts of a call do not depend on each other
            return self.columns.shape_code(CallShape(*who, *what))
        found = self._match(line.decode("ascii"))
        code = -1 if found is None else self._code(found)
        if code >= 0:
            shape = self.columns.shapes[code]
            for kept in (self._heads, self._tails):
                if len(kept) > _MOST_KEYS:
                    kept.clear()
            self._heads[head], self._tails[tail] = shape[:_WHO], shape[_WHO:]
        return code

    def take(self, text: str, number: int) -> bool:
        """Reads one raw line with `MARK` in it; False when it is not a plain call line."""
        found = self._match(text) if len(text) <= LONGEST else None
        if found is None or len(op_count := found["op_count"]) > _LONGEST_NUMBER:
            return False
        code = self._code(found)
        if code < 0:
            return False
        self.columns.append_code(code, int(op_count, 16), number)
        self._tally(self.columns.shapes[code].writer, 1, number)
        return True

    def _code(self, found: re.Match[str]) -> int:
        """Number of the distinct call that a line is; -1 when its numbers are too long to be any."""
        texts = found.group(*_SHAPE)
        code = self._code_of.get(texts)
        if code is None:
            if len(self._code_of) > _MOST_KEYS:
                self._code_of.clear()
            code = self._code_of[texts] = self._new_code(found)
        return code

    def _new_code(self, found: re.Match[str]) -> int:
        count, dtype, redop, root, comm, nranks = numbers = found.group(*_NUMBERS)
        if max(map(len, numbers)) > _LONGEST_NUMBER or len(found[2]) > _LONGEST_PID:
            return -1
        columns = self.columns
        return columns.shape_code(
            CallShape(
                self._writer(found),
                columns.op_code(found["call"]),
                int(count),
                int(dtype),
                int(redop),
                int(root),
                pointer(comm),
                int(nranks),
            )
        )

    def _tally(self, writer: int, calls: int, last: int) -> None:
        known, before = self._tallies.get(writer, (0, 0))
        self._tallies[writer] = (known + calls, max(before, last))

    def tallies(self) -> Iterator[tuple[WriterKey, int, int]]:
        """Each writer of calls that came the fast way, with how many, and the line of the last one."""
        writers = self.columns.writers
        for code, (calls, last) in self._tallies.items():
            yield writers[code], calls, last

    def _writer(self, found: re.Match[str]) -> int:
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
