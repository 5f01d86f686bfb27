"""The last line of every process: all that can be shown where nothing tells a reason."""

from __future__ import annotations

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.model import Evidence, Line

_MOST = 8


def last_words(job: Job) -> tuple[Evidence, ...]:
    """Where the logs end: the last known line of each process, by rank; of many processes the first few."""
    found = [(process, line) for process in job.processes if (line := process.last_line) is not None]
    found.sort(key=lambda pair: (pair[0].rank is None, pair[0].rank or 0, pair[1].file, pair[1].number))
    return tuple(Evidence(line.location, line.raw, _what_it_is(process, line, job)) for process, line in found[:_MOST])


def _what_it_is(process: Process, line: Line, job: Job) -> str:
    who = "" if process.rank is None else f" of rank {process.rank}"
    return f"the last line{who}" + (", or near it: the file is cut off" if line.file in job.lost_tails else "")
