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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hangscope.model import Event
from hangscope.parse.columns import CallColumns, pointer
from hangscope.parse.source import ParsedSource

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
    found = set(_turned(sources))
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


def _turned(sources: Iterable[ParsedSource]) -> Iterator[str]:
    """Names of the files that show by themselves that their lines are not in order."""
    for some in _together(sources):
        tables = [source.calls for source in some]
        nothing: list[tuple[dict[Object, Lines], bool]] = [({}, False)] * len(some)
        looks = _look_at_calls(tables) if any(map(len, tables)) else nothing
        for source, (lines, falls) in zip(some, looks, strict=True):
            if falls or _inits_are_late(source, lines) or _times_fall(source.events):
                yield source.record.file


def _together(sources: Iterable[ParsedSource]) -> Iterator[list[ParsedSource]]:
    """Inputs whose calls can be sorted at once; one that has more than that stands alone."""
    some: list[ParsedSource] = []
    count = 0
    for source in sources:
        if some and count + len(source.calls) > _AT_ONCE:
            yield some
            some, count = [], 0
        some.append(source)
        count += len(source.calls)
    if some:
        yield some


def _look_at_calls(tables: Sequence[CallColumns]) -> list[tuple[dict[Object, Lines], bool]]:
    """For each input the lines of the calls on each object, and whether their opCounts or times keep falling."""
    import numpy as np  # noqa: PLC0415 - it takes longer to import than much of an analysis without calls

    codes: list[dict[Object, int]] = []
    inputs: list[int] = []
    of_shape = []
    for number, columns in enumerate(tables):
        known: dict[Object, int] = {}
        called, own = columns.objects()
        of_object = []
        for writer, comm in called:
            key = columns.writers[writer]
            of_object.append(known.setdefault((key.host, key.pid, comm), len(inputs) + len(known)))
        of_shape.append(np.array(of_object, dtype=np.int32)[np.frombuffer(own, dtype=np.int32)])
        codes.append(known)
        inputs += [number] * len(known)
    wide = any(columns.op_count.itemsize > np.dtype(np.int32).itemsize for columns in tables)
    timed = any(columns.times is not None for columns in tables)
    counts, times = (_Steps(np.array(inputs, dtype=np.intp), len(tables)) for _ in range(2))
    pieces: dict[int, list[Lines]] = defaultdict(list)
    for low in range(0, max(map(len, tables), default=0) if len(tables) == 1 else 1, _AT_ONCE):
        part = slice(low, low + _AT_ONCE)
        rows = [np.frombuffer(columns.shape, dtype=np.int32)[part] for columns in tables]
        mine = np.concatenate([own[row] for own, row in zip(of_shape, rows, strict=True)])
        # numbers of two bytes are sorted by counting them
        order = np.argsort(mine.astype(np.uint16) if len(inputs) < 1 << 16 else mine, kind="stable")
        mine = mine[order]
        lines = np.concatenate([np.frombuffer(columns.line, dtype=np.int32)[part] for columns in tables])[order]
        starts = np.flatnonzero(np.diff(mine, prepend=-1))
        for code, start, end in zip(mine[starts].tolist(), starts.tolist(), [*starts[1:].tolist(), None], strict=True):
            pieces[code].append(lines[start:end])
        op_counts = [np.frombuffer(c.op_count, dtype=np.dtype(c.op_count.typecode))[part] for c in tables]
        counts.follow(mine, starts, np.concatenate(op_counts).astype(np.int64 if wide else np.int32)[order], least=0)
        if timed:
            stamps = [np.frombuffer(c.times)[part] if c.times is not None else np.full(len(c), np.nan) for c in tables]
            times.follow(mine, starts, np.concatenate(stamps)[order])
    found = []
    for number, known in enumerate(codes):
        joined = {key: np.concatenate(pieces[code]) for key, code in known.items() if code in pieces}
        found.append((joined, counts.often_fall(number) or times.often_fall(number)))
    return found


class _Steps:
    """How often a number grows and falls from call to call of one object, in each input.

    Args:
        inputs: the number of the input of each object.
        count: how many inputs there are.
    """

    def __init__(self, inputs: npt.NDArray[np.intp], count: int) -> None:
        import numpy as np  # noqa: PLC0415 - as above

        self._inputs = inputs
        self._falls, self._rises = np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
        self._seen = np.zeros(len(inputs), dtype=np.bool_)
        self._last: npt.NDArray[Any] | None = None

    def follow(
        self,
        objects: npt.NDArray[np.int32],
        starts: npt.NDArray[np.intp],
        values: npt.NDArray[Any],
        least: int | None = None,
    ) -> None:
        """Adds values, those of each object together from one of `starts` on; `least` is one that may follow on any."""
        import numpy as np  # noqa: PLC0415 - as above

        if self._last is None:
            self._last = np.zeros(len(self._inputs), dtype=values.dtype)
        same = objects[1:] == objects[:-1]
        again = starts[self._seen[objects[starts]]]
        owners = self._inputs[np.concatenate((objects[1:][same], objects[again]))]
        before = np.concatenate((values[:-1][same], self._last[objects[again]]))
        after = np.concatenate((values[1:][same], values[again]))
        fallen = after < before
        if least is not None:
            # a pointer that is used again begins at 0
            fallen &= after > least
        self._falls += np.bincount(owners[fallen], minlength=len(self._falls))
        self._rises += np.bincount(owners[after > before], minlength=len(self._rises))
        ends = np.append(starts[1:], len(objects)) - 1
        self._last[objects[ends]] = values[ends]
        self._seen[objects[starts]] = True

    def often_fall(self, number: int) -> bool:
        """Whether they keep falling in this input."""
        return _often(int(self._falls[number]), int(self._rises[number]))


def _often(falls: int, rises: int) -> bool:
    """Whether a number that should only grow falls in a quarter of its steps; in half of them there is no order."""
    return falls >= _FEWEST_FALLS and falls * 3 >= rises


def _inits_are_late(source: ParsedSource, calls: Mapping[Object, Lines]) -> bool:
    """Whether a line of an object's init stands behind what comes after it: a later stage, or calls."""
    reached: dict[Object, int] = {}
    since: dict[Object, int] = {}
    started: set[Object] = set()
    for event in source.by_kind.of(*_STAGES, "comm_teardown"):
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
    last: dict[tuple[object, ...], float] = {}
    for event in events:
        if event.line.time is None:
            continue
        line = event.line
        key = line.stream, line.host, line.pid, line.rank, line.rank_source, line.local_rank, event.kind
        before = last.get(key)
        if before is not None and before != event.line.time:
            steps[event.line.time > before] += 1
        last[key] = event.line.time
    return _often(steps[False], steps[True])
