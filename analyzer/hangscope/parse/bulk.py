"""The fast way through collective-call lines: one expression from raw line to columns, no object a line.

The expression is the NCCL header of an unprefixed line in front of the pattern that grammars/nccl_calls.lark
compiles to, so there is one definition of the format. Lines with anything else in front take the slow way.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator

from hangscope.grammar import Alternative, load_grammars
from hangscope.model import Event
from hangscope.parse.columns import CallColumns, WriterKey, pointer

CALL_KIND = "nccl_call"
MARK = ": opCount "
_LONGEST_NUMBER = 20
"""Digits of the largest 64-bit number; Python refuses to read thousands of them."""
_LONGEST_PID = 10
LONGEST = 1024
"""NCCL's own limit of a line up to 2.28; a call line is far shorter, and a longer one takes the slow, careful way."""
_HEADER = r"([^\s:\[\]]+):(\d{1,10}):\d+ \[-?\d+\] NCCL INFO "
_NAN = float("nan")
_NUMBERS = ("op_count", "count", "dtype", "reduce_op", "root", "comm", "nranks")


@functools.cache
def call_alternative() -> Alternative:
    """The grammar's definition of a collective-call line."""
    return next(a for grammar in load_grammars() for a in grammar.alternatives if a.kind == CALL_KIND)


@functools.cache
def _line() -> re.Pattern[str]:
    return re.compile(f"^{_HEADER}{call_alternative().pattern}[ \\t]*$", re.MULTILINE)


class CallReader:
    """Puts the collective calls of one file into columns."""

    def __init__(self, file: str) -> None:
        self.columns = CallColumns()
        self._file = file
        pattern = _line()
        self._find, self._match = pattern.findall, pattern.match
        self._tallies: dict[int, tuple[int, int]] = {}
        self._call = pattern.groupindex["call"] - 1
        self._numbers = tuple(pattern.groupindex[name] - 1 for name in _NUMBERS)

    def take_block(self, text: str, first_line: int) -> bool:
        """Reads whole lines that are all plain call lines; False when any is not, then none is read."""
        if MARK not in text[:LONGEST]:
            return False
        rows = self._find(text)
        if len(rows) != text.count("\n") + 1:
            return False
        columns = list(zip(*rows, strict=True))
        writers = list(zip(columns[0], columns[1], strict=True))
        if any(len(pid) > _LONGEST_PID for _, pid in set(writers)):
            return False
        codes = {writer: self._code(*writer, text) for writer in dict.fromkeys(writers)}
        printed = [columns[group] for group in self._numbers]
        if any(len(number) > _LONGEST_NUMBER for column in printed for number in set(column)):
            return False
        owners = [codes[writer] for writer in writers]
        self.columns.append_block(owners, columns[self._call], printed, first_line)
        last_line = dict(zip(owners, range(first_line, first_line + len(owners)), strict=True))
        for code, calls in Counter(owners).items():
            self._tallies[code] = (self._tallies.get(code, (0, 0))[0] + calls, last_line[code])
        return True

    def take(self, text: str, number: int) -> bool:
        """Reads one raw line with `MARK` in it; False when it is not a plain call line."""
        found = self._match(text) if len(text) <= LONGEST else None
        if found is None:
            return False
        printed = found.group(*_NUMBERS)
        if max(map(len, printed)) > _LONGEST_NUMBER or len(found[2]) > _LONGEST_PID:
            return False
        op_count, count, dtype, redop, root, comm, nranks = printed
        columns = self.columns
        code, op = self._code(found[1], found[2], text), columns.op_code(found["call"])
        numbers = (int(op_count, 16), int(count), int(dtype), int(redop), int(root), pointer(comm), int(nranks))
        columns.append((code, op, *numbers, number, _NAN))
        self._tallies[code] = (self._tallies.get(code, (0, 0))[0] + 1, number)
        return True

    def tallies(self) -> Iterator[tuple[WriterKey, int, int]]:
        """Each writer of calls that came the fast way, with how many, and the line of the last one."""
        writers = self.columns.writers
        for code, (calls, last) in self._tallies.items():
            yield writers[code], calls, last

    def _code(self, host: str, pid: str, text: str) -> int:
        """The writer's number; of a new one its device is noted, which stands in `text`."""
        key, known = WriterKey(self._file, "", host, int(pid)), len(self.columns.writers)
        code = self.columns.writer_code(key)
        if code == known and (found := re.search(rf"{re.escape(host)}:{pid}:\d+ \[(\d{{1,4}})\]", text)):
            self.columns.devices[key] = int(found[1])
        return code

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
