"""The fast way through collective-call lines: one expression from raw line to columns, no object a line.

The expression is the NCCL header of an unprefixed line in front of the pattern that grammars/nccl_calls.lark
compiles to, so there is one definition of the format. Lines with anything else in front take the slow way.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from hangscope.grammar import Alternative, load_grammars
from hangscope.model import Event
from hangscope.parse.columns import CallColumns, WriterKey

CALL_KIND = "nccl_call"
MARK = ": opCount "
_HEADER = r"([^\s:\[\]]+):(\d{1,10}):\d+ \[-?\d+\] NCCL INFO "
_NAN = float("nan")
_FIELDS = ("call", "op_count", "count", "dtype", "reduce_op", "root", "comm", "nranks")


@functools.cache
def call_alternative() -> Alternative:
    """The grammar's definition of a collective-call line."""
    return next(a for grammar in load_grammars() for a in grammar.alternatives if a.kind == CALL_KIND)


@functools.cache
def _matcher() -> Callable[[str], re.Match[str] | None]:
    return re.compile(_HEADER + call_alternative().pattern).match


class CallReader:
    """Puts the collective calls of one file into columns."""

    def __init__(self, file: str) -> None:
        self.columns = CallColumns()
        self._file = file
        self._match = _matcher()
        self._codes: dict[tuple[str, str], int] = {}

    def take(self, text: str, number: int) -> WriterKey | None:
        """Reads a raw line with `MARK` in it; None when it is not a plain call line."""
        found = self._match(text)
        if found is None or text[found.end() :].strip():
            # what stands behind a call belongs to another line that lost its own beginning
            return None
        writer = (str(found[1]), str(found[2]))
        columns = self.columns
        code = self._codes.get(writer)
        if code is None:
            code = columns.writer_code(WriterKey(self._file, "", writer[0], int(writer[1])))
            self._codes[writer] = code
        call, op_count, *numbers, comm, nranks = found.group(*_FIELDS)
        try:
            count, dtype, redop, root = map(int, numbers)
            size = int(nranks)
        except ValueError:
            # Python reads no number of more than 4300 digits; nobody prints one
            return None
        op = columns.op_code(call)
        columns.append((code, op, int(op_count, 16), count, dtype, redop, root, pointer(comm), size, number, _NAN))
        return columns.writers[code]

    def take_event(self, event: Event, key: WriterKey) -> None:
        """Takes a call line that came the slow way (with a prefix, or torn off another line)."""

        def number(name: str) -> int:
            value = event.fields.get(name)
            return value if isinstance(value, int) else 0

        time = event.line.time
        columns = self.columns
        columns.append(
            (
                columns.writer_code(key),
                columns.op_code(str(event.fields.get("call", ""))),
                number("op_count"),
                number("count"),
                number("dtype"),
                number("reduce_op"),
                number("root"),
                pointer(str(event.fields.get("comm", ""))),
                number("nranks"),
                event.line.number,
                _NAN if time is None else time,
            )
        )


def pointer(text: str | None) -> int:
    """A pointer as NCCL prints it, as a number; NULL (``(nil)``) and nothing are 0."""
    return 0 if not text or text.startswith("(") else int(text, 16)
