"""Keeps the last attempt of a restarted job: what an earlier attempt left would look like faults of this one."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from hangscope.parse.source import ParsedSource

_RESTARTS = ("worker_group_restart",)
"""Event kinds that say: the launcher starts the workers anew (torch's elastic agent)."""


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
    """The events and calls behind the last restart line of the file, when something came after it."""
    restarts = [event.line.number for event in source.events if event.kind in _RESTARTS]
    if not restarts or restarts[-1] >= source.record.lines:
        return source
    cut = restarts[-1]
    after = [event for event in source.events if event.line.number > cut]
    if not after:
        return source
    times = f"{len(restarts)} time{'s' if len(restarts) > 1 else ''}"
    warnings.append(
        f"{source.record.file}: the workers were restarted {times}; what stands after line {cut} is analyzed"
    )
    return dataclasses.replace(source, events=after)
