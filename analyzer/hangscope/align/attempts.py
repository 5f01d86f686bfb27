"""Tells the attempts of a restarted job apart: what an earlier one left would look like faults of the last one.

Folders ``attempt_K`` (torchrun --log-dir) tell attempts apart by themselves; inside one file a restart line of the
launcher does, or ranks that come back as other processes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from hangscope.align.world import size_in
from hangscope.model import Value
from hangscope.parse.source import RESTART_KINDS, ParsedSource, WriterInfo
from hangscope.records import dataclass

_MOST_EARLIER = 3
"""So many of the attempts before the last one are looked at: a job may restart hundreds of times."""

_ONE_RESTART_LINES = 20
"""Agents of several hosts in one stream announce the same restart within so many lines."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt before the last one left.

    Attributes:
        number: as torchrun counts, the first is 0.
        sources: its files, and its parts of files.
    """

    number: int
    sources: tuple[ParsedSource, ...]


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts of a job.

    Attributes:
        last: the sources of the last one, with those that no attempt can be told of.
        earlier: up to three attempts before it, the oldest first.
        warnings: what was left out, and where.
    """

    last: list[ParsedSource]
    earlier: tuple[Attempt, ...]
    warnings: list[str]


def find_attempts(sources: Sequence[ParsedSource]) -> Attempts:
    """The last attempt of a job, and those before it."""
    kept, older, warnings = _by_folder(sources)
    count = max(older, default=0)
    last = []
    for source in kept:
        after, restarts = _after_restart(source, warnings)
        last.append(after)
        count = max(count, len(restarts))
        for age, part in enumerate(_latest_parts(source, restarts), 1):
            older[age].append(part)
    earlier = (Attempt(count - age, tuple(older[age])) for age in sorted(older, reverse=True) if age <= _MOST_EARLIER)
    return Attempts(last, tuple(earlier), warnings)


def _by_folder(
    sources: Sequence[ParsedSource],
) -> tuple[list[ParsedSource], dict[int, list[ParsedSource]], list[str]]:
    """The files of the last attempt, those of earlier ones by how many attempts ago that was, and warnings."""
    attempts: dict[str, set[int]] = defaultdict(set)
    for source in sources:
        if source.attempt is not None:
            attempts[_run(source)].add(source.attempt)
    kept: list[ParsedSource] = []
    older: dict[int, list[ParsedSource]] = defaultdict(list)
    for source in sources:
        age = max(attempts[_run(source)]) - source.attempt if source.attempt is not None else 0
        (older[age] if age else kept).append(source)
    warnings = []
    for run, numbers in sorted(attempts.items()):
        if len(numbers) > 1:
            earlier = ", ".join(str(n) for n in sorted(numbers)[:-1])
            where = f" in {run}" if run else ""
            warnings.append(
                f"the job was restarted{where}: attempt {max(numbers)} is analyzed, not the earlier {earlier}"
            )
    return kept, older, warnings


def _run(source: ParsedSource) -> str:
    return source.record.file.partition(f"attempt_{source.attempt}/")[0].rstrip("/")


def _after_restart(source: ParsedSource, warnings: list[str]) -> tuple[ParsedSource, list[int]]:
    """What stands behind the last restart in the file, when something came after it; and the lines of all restarts."""
    said = [e for e in source.by_kind.of(*RESTART_KINDS) if e.fields.get("attempts_left") != 0]
    restarts = {e.line.number: e.fields.get("attempts_left") for e in said if e.line.number < source.record.lines}
    returned = {number: None for number in _new_processes(source) if number < source.record.lines}
    cut = max((*restarts, *returned), default=0)
    after = [event for event in source.events if event.line.number > cut] if cut else []
    if not after:
        return source, []
    warnings.append(
        f"{source.record.file}: the job was restarted; what stands after line {cut} is analyzed, not what is before"
    )
    writers = [writer for writer in source.writers if _last_number(writer) > cut]
    last = dataclasses.replace(source, events=after, writers=writers, calls=source.calls.after(cut))
    return last, _each_once(restarts or returned)


def _each_once(restarts: Mapping[int, Value]) -> list[int]:
    """The last line of each restart, of lines (-> attempts left, if they say) that announce one."""
    ends: list[int] = []
    for number, left in sorted(restarts.items()):
        # agents of several hosts in one stream announce one restart
        is_same = bool(ends) and number - ends[-1] <= _ONE_RESTART_LINES and left == restarts[ends[-1]]
        ends[-1:] = [number] if is_same else [*ends[-1:], number]
    return ends


def _latest_parts(source: ParsedSource, restarts: Sequence[int]) -> list[ParsedSource]:
    """The parts of a file before its latest restarts, the latest first."""
    parts = []
    for start, end in list(itertools.pairwise([0, *restarts]))[: -_MOST_EARLIER - 1 : -1]:
        events = [event for event in source.events if start < event.line.number <= end]
        writers = [_until(writer, end) for writer in source.writers if _first_number(writer) <= end]
        writers = [writer for writer in writers if _last_number(writer) > start]
        calls = source.calls.between(start, end)
        parts.append(dataclasses.replace(source, events=events, writers=writers, calls=calls, block_buffered=False))
    return parts


def _first_number(writer: WriterInfo) -> int:
    return writer.first_line.number if writer.first_line is not None else 0


def _last_number(writer: WriterInfo) -> int:
    return max(writer.last_call_line, writer.last_line.number if writer.last_line is not None else 0)


def _until(writer: WriterInfo, end: int) -> WriterInfo:
    """What a writer had written by a line; its last words then are not kept, and unknown when it wrote on."""
    if _last_number(writer) <= end:
        return writer
    return dataclasses.replace(writer, last_line=None, last_time=None, last_call_line=end)


def _new_processes(source: ParsedSource) -> list[int]:
    """The line before which the ranks came back as other processes, after the earlier ones had fallen silent.

    Two processes that claim one rank at the same time are another matter (a duplicate rank): there both go on.
    """
    spans = {(w.key.host, w.key.pid): (w.first_line, _last_number(w)) for w in source.writers if w.key.pid is not None}
    starts = [e for e in source.by_kind.of("comm_init_start") if e.fields.get("parent") is None]
    # in smaller communicators several processes have the same rank
    world = max((size_in(event.fields.get("nranks")) for event in starts), default=0)
    owners: dict[Value, tuple[str | None, int | None]] = {}
    latest: dict[Value, int] = {}
    for event in starts:
        if event.fields.get("nranks") != world:
            continue
        rank, process = event.fields.get("group_rank"), (event.host, event.pid)
        before = owners.setdefault(rank, process)
        if before != process and before in spans and process in spans:
            first = spans[process][0]
            if first is not None and spans[before][1] < first.number:
                latest[rank] = first.number - 1
                owners[rank] = process
    return [min(latest.values())] if latest else []
