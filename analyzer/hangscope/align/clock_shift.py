"""Moves the times of hosts whose clock is off to the clock of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hangscope.align.clocks import Clocks
from hangscope.align.process import Process
from hangscope.model import Line
from hangscope.parse.columns import WriterKey, writer_key
from hangscope.parse.source import ParsedSource

_OF_THE_HOST = frozenset({"kernel", "scheduler", "slurm_nodes", "kubernetes"})
"""Grammars of lines that the host writes and not the job: a container has a zone of its own."""


def correct_times(
    clocks: Clocks,
    sources: Sequence[ParsedSource],
    processes: Iterable[Process],
    by_writer: Mapping[WriterKey, Process],
) -> None:
    """Moves the times of events, calls, dumps and processes in place; lines keep their text.

    Args:
        clocks: what is known of the hosts' clocks.
        sources: what was read, ranks and hosts filled in.
        processes: all processes.
        by_writer: whose the lines are.
    """
    if not clocks.corrected and not clocks.kernel_zones:
        return
    moved: set[int] = set()
    for source in sources:
        for event in source.events:
            _move(event.line, clocks.shift_s(event.host, kernel=event.source in _OF_THE_HOST), moved)
        for dump in source.dumps:
            process = by_writer.get(writer_key(dump.line))
            if dump.time is not None and process is not None:
                dump.time += clocks.shift_s(process.host)
        _move_calls(source, clocks, by_writer)
    for process in processes:
        kernel = bool(process.events) and all(event.source in _OF_THE_HOST for event in process.events)
        shift_s = clocks.shift_s(process.host, kernel=kernel)
        for line in (process.first_line, process.last_line):
            if line is not None:
                _move(line, shift_s, moved)
        if process.first_time is not None and process.last_time is not None:
            process.first_time += shift_s
            process.last_time += shift_s


def _move(line: Line, shift_s: float, moved: set[int]) -> None:
    """Several events can be of one line: it is moved once."""
    if line.time is not None and id(line) not in moved:
        moved.add(id(line))
        line.time += shift_s


def _move_calls(source: ParsedSource, clocks: Clocks, by_writer: Mapping[WriterKey, Process]) -> None:
    calls = source.calls
    hosts = [key.host or (by_writer[key].host if key in by_writer else None) for key in calls.writers]
    shifts = [clocks.shift_s(host) for host in hosts]
    times = calls.times
    if times is not None and any(shifts):
        for row, code in enumerate(calls.shape):
            # a call without a time has NaN, and keeps it
            times[row] += shifts[calls.shapes.writer[code]]
