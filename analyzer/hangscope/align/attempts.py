"""Keeps the last attempt of a restarted job: what an earlier attempt left would look like faults of this one."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from hangscope.align.world import size_in
from hangscope.model import Value
from hangscope.parse.source import RESTART_KINDS, ParsedSource, WriterInfo


def last_attempt(sources: Sequence[ParsedSource]) -> tuple[list[ParsedSource], list[str]]:
    """The sources of the last attempt, and a warning that names the earlier ones.

    Folders ``attempt_K`` (torchrun --log-dir) tell attempts apart by themselves; inside one file a restart
    line of the launcher does.
    """
    kept, warnings = _by_folder(sources)
    return [_after_restart(source, warnings) for source in kept], warnings


def _by_folder(sources: Sequence[ParsedSource]) -> tuple[list[ParsedSource], list[str]]:
    attempts: dict[str, set[int]] = defaultdict(set)
    for source in sources:
        if source.attempt is not None:
            attempts[_run(source)].add(source.attempt)
    kept = [s for s in sources if s.attempt is None or s.attempt == max(attempts[_run(s)])]
    warnings = []
    for run, numbers in sorted(attempts.items()):
        if len(numbers) > 1:
            earlier = ", ".join(str(n) for n in sorted(numbers)[:-1])
            where = f" in {run}" if run else ""
            warnings.append(
                f"the job was restarted{where}: attempt {max(numbers)} is analyzed, not the earlier {earlier}"
            )
    return kept, warnings


def _run(source: ParsedSource) -> str:
    return source.record.file.partition(f"attempt_{source.attempt}/")[0].rstrip("/")


def _after_restart(source: ParsedSource, warnings: list[str]) -> ParsedSource:
    """What stands behind the last restart in the file, when something came after it."""
    restarts = [e.line.number for e in source.events if e.kind in RESTART_KINDS and e.fields.get("attempts_left") != 0]
    restarts += _new_processes(source)
    cut = max((number for number in restarts if number < source.record.lines), default=0)
    after = [event for event in source.events if event.line.number > cut]
    if not cut or not after:
        return source
    warnings.append(
        f"{source.record.file}: the job was restarted; what stands after line {cut} is analyzed, not what is before"
    )
    writers = [writer for writer in source.writers if _last_number(writer) > cut]
    return dataclasses.replace(source, events=after, writers=writers, calls=source.calls.after(cut))


def _last_number(writer: WriterInfo) -> int:
    return max(writer.last_call_line, writer.last_line.number if writer.last_line is not None else 0)


def _new_processes(source: ParsedSource) -> list[int]:
    """The line before which the ranks came back as other processes, after the earlier ones had fallen silent.

    Two processes that claim one rank at the same time are another matter (a duplicate rank): there both go on.
    """
    spans = {(w.key.host, w.key.pid): (w.first_line, _last_number(w)) for w in source.writers if w.key.pid is not None}
    starts = [e for e in source.events if e.kind == "comm_init_start" and e.fields.get("parent") is None]
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
