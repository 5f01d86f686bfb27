"""Finds the files whose lines do not stand in the order in which they were written.

Exports of log stores (Loki, Kibana, CloudWatch) come with the newest line first, or in no order at all. Calls are
numbered by the order of their lines, so calls of such files cannot be compared. Three things tell:

- a communicator's init behind what comes after it: NCCL prints Init START, the layout, Init COMPLETE and the calls of
  one communicator in this order (2.4 to 2.31; START from 2.16 on);
- opCount, which grows on each communicator in jobs of several hosts and never falls;
- times of lines of one kind and writer.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from hangscope.model import Event
from hangscope.parse.columns import CallColumns, pointer, writer_key
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Lines = npt.NDArray[np.signedinteger]

_FEWEST_FALLS = 3
_AT_ONCE = 1 << 20
"""Calls that are sorted at once: one file may hold all of a job, and sorting takes several times their memory."""
_STAGES = {"comm_init_start": 0, "comm_layout": 1, "comm_init_complete": 2}
_MAX_NAMES = 4

Object = tuple[str | None, int | None, int]
"""A communicator object of one process: host, pid, pointer."""


def out_of_order(sources: Sequence[ParsedSource]) -> frozenset[str]:
    """Names of the files whose lines are not in order; all that have calls, where that shows in half of these.

    Few calls may stand in order by chance, so one export's files are trusted or doubted together.
    """
    found = {source.record.file for source in sources if _is_turned(source)}
    with_calls = {source.record.file for source in sources if len(source.calls)}
    if with_calls and len(found & with_calls) * 2 >= len(with_calls):
        found |= with_calls
    return frozenset(found)


def describe_order(files: frozenset[str]) -> Iterator[str]:
    """The warning that names these files, if there are any."""
    if files:
        names = sorted(files)
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield (
            f"lines of {', '.join(names[:_MAX_NAMES])}{more} are not in order of time: calls there are not compared, "
            "and what came last is unknown. Sort them, the oldest line first"
        )


def _is_turned(source: ParsedSource) -> bool:
    calls: Mapping[Object, Lines] = {}
    if len(source.calls):
        calls, falls = _look_at_calls(source.calls)
        if falls:
            return True
    return _inits_are_late(source.events, calls) or _times_fall(source.events)


def _look_at_calls(columns: CallColumns) -> tuple[dict[Object, Lines], bool]:
    """The lines of the calls on each object, and whether their opCounts or times keep falling."""
    import numpy as np  # noqa: PLC0415 - it takes longer to import than much of an analysis without calls

    codes: dict[Object, int] = {}
    of_shape = []
    for shape in columns.shapes:
        writer = columns.writers[shape.writer]
        of_shape.append(codes.setdefault((writer.host, writer.pid, shape.comm), len(codes)))
    objects = np.array(of_shape, dtype=np.int32)
    wide = columns.op_count.itemsize > np.dtype(np.int32).itemsize
    counts = _Steps(np.frombuffer(columns.op_count, dtype=np.int64 if wide else np.int32), least=0)
    times = None if columns.times is None else _Steps(np.frombuffer(columns.times, dtype=np.float64))
    pieces: dict[int, list[Lines]] = defaultdict(list)
    for low in range(0, len(columns), _AT_ONCE):
        mine = objects[np.frombuffer(columns.shape, dtype=np.int32)[low : low + _AT_ONCE]]
        # numbers of two bytes are sorted by counting them
        order = np.argsort(mine.astype(np.uint16) if len(codes) < 1 << 16 else mine, kind="stable")
        lines = np.frombuffer(columns.line, dtype=np.int32)[low : low + _AT_ONCE][order]
        ends = np.flatnonzero(np.diff(mine[order], append=-1)) + 1
        bounds = [0, *ends.tolist()]
        for start, end in itertools.pairwise(bounds):
            code = int(mine[order[start]])
            pieces[code].append(lines[start:end])
            for steps in (counts, times):
                if steps is not None:
                    steps.follow(code, steps.values[low : low + _AT_ONCE][order[start:end]])
    found = {key: np.concatenate(pieces[code]) for key, code in codes.items() if code in pieces}
    turned = _often(counts.falls, counts.rises) or (times is not None and _often(times.falls, times.rises))
    return found, turned


@dataclass(slots=True)
class _Steps:
    """How often a number grows and falls from call to call of one object; `least` is one that may follow on any."""

    values: npt.NDArray[Any]
    least: float | None = None
    falls: int = 0
    rises: int = 0
    last: dict[int, npt.NDArray[Any]] = field(default_factory=dict)

    def follow(self, code: int, values: npt.NDArray[Any]) -> None:
        """Adds the next values of an object."""
        import numpy as np  # noqa: PLC0415 - as above

        known = self.last.get(code)
        all_of_it = values if known is None else np.concatenate((known, values))
        before, after = all_of_it[:-1], all_of_it[1:]
        fallen = after < before
        if self.least is not None:
            # a pointer that is used again begins at 0
            fallen &= after > self.least
        self.falls += int(np.count_nonzero(fallen))
        self.rises += int(np.count_nonzero(after > before))
        self.last[code] = values[-1:].copy()


def _often(falls: int, rises: int) -> bool:
    """Whether a number that should only grow falls in a quarter of its steps; in half of them there is no order."""
    return falls >= _FEWEST_FALLS and falls * 3 >= rises


def _inits_are_late(events: Sequence[Event], calls: Mapping[Object, Lines]) -> bool:
    """Whether a line of an object's init stands behind what comes after it: a later stage, or calls."""
    reached: dict[Object, int] = {}
    since: dict[Object, int] = {}
    started: set[Object] = set()
    for event in events:
        at = _STAGES.get(event.kind)
        ends = event.kind == "comm_teardown" and event.fields.get("stage") != "START"
        if (at is None and not ends) or "comm" not in event.fields:
            continue
        key = event.line.host, event.line.pid, pointer(str(event.fields["comm"]))
        before = reached.pop(key, None)
        if at is not None:
            # a pointer may be used again, and old versions print neither START nor an end
            again = before == at or (at == 0 and key in started)
            late = before is not None and at < before
            if not again and (late or _called(calls.get(key), since.get(key, 0), event.line.number)):
                return True
            reached[key] = at
            if at == 0:
                started.add(key)
        since[key] = event.line.number
    return False


def _called(lines: Lines | None, first: int, last: int) -> bool:
    """Whether a call stands between two lines."""
    if lines is None:
        return False
    place = int(lines.searchsorted(first, side="right"))
    return place < len(lines) and int(lines[place]) < last


def _times_fall(events: Sequence[Event]) -> bool:
    """Whether times fall in lines of one writer and kind (each kind has one form of stamps), or all in all."""
    steps: dict[bool, int] = defaultdict(int)
    last: dict[tuple[object, str], float] = {}
    for event in events:
        if event.line.time is None:
            continue
        key = writer_key(event.line), event.kind
        before = last.get(key)
        if before is not None and before != event.line.time:
            steps[event.line.time > before] += 1
        last[key] = event.line.time
    return _often(steps[False], steps[True])
