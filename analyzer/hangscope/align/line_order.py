"""Finds the files whose lines do not stand in the order in which they were written.

Exports of log stores (Loki, Kibana, CloudWatch) come with the newest line first, or in no order at all. Calls are
numbered by the order of their lines, so calls of such files cannot be compared. Three things tell:

- a communicator's init behind what comes after it: NCCL prints Init START, the layout, Init COMPLETE and the calls of
  one communicator in this order (2.4 to 2.31; START from 2.16 on);
- opCount, which grows on each communicator in jobs of several hosts and never falls;
- times of lines of one kind and writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hangscope.model import Event
from hangscope.parse.columns import CallColumns, pointer, writer_key
from hangscope.parse.source import ParsedSource

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Lines = npt.NDArray[np.signedinteger]

_FEWEST_FALLS = 3
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
    mine = np.array(of_shape, dtype=np.int32)[np.frombuffer(columns.shape, dtype=np.int32)]
    # numbers of two bytes are sorted by counting them
    order = np.argsort(mine.astype(np.uint16) if len(codes) < 1 << 16 else mine, kind="stable")
    bounds = np.cumsum(np.bincount(mine, minlength=len(codes)))
    lines = np.frombuffer(columns.line, dtype=np.int32)[order]
    starts = [0, *bounds.tolist()]
    found: dict[Object, Lines] = {key: lines[starts[code] : starts[code + 1]] for key, code in codes.items()}
    same = np.diff(mine[order]) == 0
    wide = columns.op_count.itemsize > np.dtype(np.int32).itemsize
    printed: Lines = (
        np.frombuffer(columns.op_count, dtype=np.int64) if wide else np.frombuffer(columns.op_count, dtype=np.int32)
    )
    counts = printed[order]
    # a pointer that is used again begins at 0
    fallen = int(np.count_nonzero(same & (counts[1:] < counts[:-1]) & (counts[1:] > 0)))
    risen = int(np.count_nonzero(same & (counts[1:] > counts[:-1])))
    turned = _often(fallen, risen)
    if not turned and columns.times is not None:
        times = np.frombuffer(columns.times, dtype=np.float64)[order]
        later, earlier = times[1:] > times[:-1], times[1:] < times[:-1]
        turned = _often(int(np.count_nonzero(same & earlier)), int(np.count_nonzero(same & later)))
    return found, turned


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
