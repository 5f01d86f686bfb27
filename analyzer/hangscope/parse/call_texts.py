"""Reads what the text of a call line says: who calls, what tells the call apart, and which of its times counts.

The one definition of a call is the pattern that grammars/nccl_calls.lark compiles to, behind NCCL's header. What
launchers and log drivers put around it, the sources layer knows.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hangscope.expressions import expression
from hangscope.grammar import Alternative, load_grammars
from hangscope.model import Line
from hangscope.parse.call_shapes import CallShape
from hangscope.parse.columns import CallColumns, WriterKey, pointer, writer_key
from hangscope.records import dataclass
from hangscope.sources.decode import RawLine, clean

if TYPE_CHECKING:
    from hangscope.parse.call_clocks import Clock

CALL_KIND = "nccl_call"
LONGEST = 1024
"""NCCL's own limit of a line up to 2.28; a call line is far shorter, and a longer one takes the slow, careful way."""
CLOCK = expression(r"(?<!\d)[0-2]\d:[0-5]\d:[0-6]\d(?:[.,]\d{1,9})?(?!\d)")
"""A time of day."""
Unwrap = Callable[[RawLine], Sequence[Line]]
"""Makes logical lines of a physical one."""

_HEADER = r"([^\s:\[\]]+):(\d{1,10}):\d+ \[(-?\d+)\] NCCL INFO "
_LONGEST_NUMBER = 20
"""Digits of the largest 64-bit number; Python refuses to read thousands of them."""
_LONGEST_PID = 10
_LONGEST_DEVICE = 4
_COUNTS = ("count", "dtype", "reduce_op", "root")
_GROUP = ("comm", "nranks")
_SHAPE = (1, 2, 3, "call", *_COUNTS, *_GROUP)
"""The groups that tell calls apart: host, pid, device, operation, and the numbers."""
_CLOCK = len("00:00:00")
_MOST_KEPT = 100_000


@functools.cache
def call_alternative() -> Alternative:
    """The grammar's definition of a collective-call line."""
    return next(a for grammar in load_grammars() for a in grammar.alternatives if a.kind == CALL_KIND)


@functools.cache
def headed_call() -> re.Pattern[str]:
    """A call behind NCCL's header."""
    return re.compile(_HEADER + call_alternative().pattern)


def op_of(line: bytes, fields: Fields) -> str | None:
    """The name of the operation that a line says; None when it says no call."""
    found = _call_text().match(line.decode("ascii"), fields.call_start)
    return None if found is None or found.end("call") != fields.call_end else found["call"]


@functools.cache
def _call_text() -> re.Pattern[str]:
    return re.compile(call_alternative().pattern)


@functools.cache
def _whole_line() -> re.Pattern[str]:
    return re.compile(rf"^{headed_call().pattern}[ \t]*$")


@functools.cache
def _whole_text() -> re.Pattern[str]:
    return re.compile(rf"^{call_alternative().pattern}[ \t]*$")


@dataclass(frozen=True, slots=True)
class Fields:
    """Where the parts of a line stand.

    Attributes:
        call_start, call_end: the operation's name; what stands before it says who calls.
        rest_start: what stands behind the call.
        clocks: times of day around the call.
    """

    call_start: int
    call_end: int
    rest_start: int
    clocks: tuple[Clock, ...]


class Who(NamedTuple):
    """What stands around a call.

    Attributes:
        writer: its number.
        midnight: to which the time of day is added, or the whole time, in seconds; NaN when the line has none.
        clock: which of the layout's times of day is added, -1 for none.
        plain: nothing stands around it.
        headed: what stands in front of the header is different in every line, or tells nothing by itself.
    """

    writer: int
    midnight: float = math.nan
    clock: int = -1
    plain: bool = False
    headed: bool = False


class CallTexts:
    """Reads the call lines of one input.

    Args:
        file: name of the input.
        unwrap: takes prefixes and envelopes off.

    Attributes:
        file: as given.
        columns: gets the distinct calls, operations and writers; rows are the caller's affair.
    """

    def __init__(self, file: str, unwrap: Unwrap) -> None:
        self.columns = CallColumns()
        self.file = file
        self._unwrap = unwrap
        self._match = _whole_line().match
        self._code_of: dict[tuple[str, ...], int] = {}

    def plain(self, text: str) -> tuple[int, int] | None:
        """Number of the distinct call and opCount of a line that nothing is put around; None for any other line."""
        found = self._match(text) if len(text) <= LONGEST else None
        if found is None or len(op_count := found["op_count"]) > _LONGEST_NUMBER:
            return None
        texts = found.group(*_SHAPE)
        code = self._code_of.get(texts)
        if code is None:
            if (parts := _numbers(found)) is None or (writer := self._plain_writer(found)) is None:
                return None
            bound(self._code_of)
            shape = CallShape(writer, self.columns.op_code(found["call"]), *parts[0], *parts[1])
            code = self._code_of[texts] = self.columns.shape_code(shape)
        return code, int(op_count, 16)

    def shape(self, line: bytes, fields: Fields) -> CallShape | None:
        """The call that a line says, for the first writer; None when its numbers are none."""
        found = headed_call().search(line.decode("ascii"))
        if found is None or found.span("call") != (fields.call_start, fields.call_end):
            return None
        if (parts := _numbers(found)) is None:
            return None
        return CallShape(0, self.columns.op_code(found["call"]), *parts[0], *parts[1])

    def who(self, line: bytes, fields: Fields) -> Who | None:
        """Who writes a line, and when; None when there is more in it than one whole call.

        What stands in its opCount and its addresses is not looked at.

        Args:
            line: without its end.
            fields: where its parts stand.
        """
        text = line.decode("ascii")
        found = self._match(text)
        if found is not None:
            writer = self._plain_writer(found)
            return None if writer is None else Who(writer, plain=True)
        if not fields.clocks and (CLOCK.search(text, 0, fields.call_start) or CLOCK.search(text, fields.rest_start)):
            # of another layout, which leaves the times of day out
            return None
        lines = self._unwrap(RawLine(1, 0, clean(text), len(line) + 1))
        if len(lines) != 1 or lines[0].header != "nccl" or lines[0].damaged:
            return None
        said = _whole_text().match(lines[0].text)
        call = text[fields.call_start : fields.rest_start]
        if said is None or said[0].rstrip(" \t") != call.rstrip(" \t"):
            return None
        time = lines[0].time
        clock = -1 if time is None else self._deciding_clock(text, fields, time)
        if time is not None and clock >= 0:
            at = fields.clocks[clock]
            seconds, fraction = clock_parts(text[at.start : at.end])
            midnight = float(round(time - seconds - fraction))
            if midnight + seconds + fraction != time:
                return None
            time = midnight
        headed = text.startswith("{") or any(at.start < fields.call_start for at in fields.clocks)
        writer = self.columns.writer_code(writer_key(lines[0]))
        return Who(writer, math.nan if time is None else time, clock, headed=headed)

    def _deciding_clock(self, text: str, fields: Fields, time: float) -> int:
        """Which of a line's times of day its time depends on, -1 when on none: a time may stand there twice."""
        for index, at in enumerate(fields.clocks):
            hour = "00" if text[at.start : at.start + 2] != "00" else "01"
            other = text[: at.start] + hour + text[at.start + 2 :]
            lines = self._unwrap(RawLine(1, 0, clean(other), len(text) + 1))
            if len(lines) == 1 and lines[0].time != time:
                return index
        return -1

    def _plain_writer(self, found: re.Match[str]) -> int | None:
        """The number of who writes a plain line, None when no process has such a number. Its device is kept."""
        if len(found[2]) > _LONGEST_PID:
            return None
        key = WriterKey(self.file, "", found[1], int(found[2]))
        if key not in self.columns.devices and len(found[3]) <= _LONGEST_DEVICE and not found[3].startswith("-"):
            self.columns.devices[key] = int(found[3])
        return self.columns.writer_code(key)


def clock_parts(text: str) -> tuple[int, float]:
    """Seconds and fraction of a time of day."""
    hours, minutes, seconds = text[:_CLOCK].split(":")
    fraction = text[_CLOCK + 1 :]
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds), float(f"0.{fraction}") if fraction else 0.0


def _numbers(found: re.Match[str]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The numbers of a call, from the count to root, and of the communicator; None when they are too long to be any."""
    texts = found.group(*_COUNTS, *_GROUP)
    if max(map(len, texts)) > _LONGEST_NUMBER:
        return None
    *counts, comm, nranks = texts
    return tuple(map(int, counts)), (pointer(comm), int(nranks))


def bound(kept: dict[Any, Any]) -> None:
    """Empties what has grown too large: a log that goes on for ever may always have something new."""
    if len(kept) > _MOST_KEPT:
        kept.clear()
