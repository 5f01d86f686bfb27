"""Reads logs into a job, and keeps the way back to the lines that a report quotes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

from hangscope.align.job import Job, align
from hangscope.api.collector import collector_at_rest
from hangscope.model import SourceRecord
from hangscope.parse.executors import Executor, open_executor
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass
from hangscope.sources.around import Around
from hangscope.sources.bundles import check_one_job
from hangscope.sources.discover import discover
from hangscope.sources.inputs import Input
from hangscope.sources.quote import Quoted
from hangscope.sources.saved import split_saved

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes there are."""


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """What was read of some paths.

    Attributes:
        inputs: where it was read.
        sources: what each input holds.
        unreadable: inputs that could not be read.
        lines: log lines that a saved job brought along, by file and number.
        around: what stands around them, the same way.
    """

    inputs: list[Input] = field(default_factory=list)
    sources: list[ParsedSource] = field(default_factory=list)
    unreadable: list[SourceRecord] = field(default_factory=list)
    lines: dict[tuple[str, int], Quoted] = field(default_factory=dict)
    around: dict[tuple[str, int], Around] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """A job, and what it takes to report on it later.

    Attributes:
        job: the job, aligned.
        logs: what it was read from.
        jobs, scheduler: where to read, as for `load`.
    """

    job: Job
    logs: ReadLogs
    jobs: int | None
    scheduler: str | None


def load(
    *paths: str | Path, jobs: int | None = None, progress: Progress | None = None, scheduler: str | None = None
) -> Job:
    """Reads logs and aligns their ranks.

    Args:
        *paths: folders, files, globs or archives, also as URLs that fsspec knows (``s3://bucket/logs``); ``-`` is
            standard input; folders that `analyze` wrote tables into.
        jobs: processes to read with; by default one a core when there is enough to read.
        progress: called with (bytes done, bytes in all).
        scheduler: address or file of the dask scheduler whose workers shall read; ``local`` starts workers here, for
            which a script needs its ``if __name__ == "__main__"``.

    Raises:
        InputError: when nothing is there to read, attach saw several jobs in it, or a URL or scheduler is out of reach.
    """
    return read_job(*paths, jobs=jobs, progress=progress, scheduler=scheduler).job


def read_job(
    *paths: str | Path, jobs: int | None = None, progress: Progress | None = None, scheduler: str | None = None
) -> Reading:
    """The same as `load`, with what it takes to report on the job later."""
    with open_executor(scheduler, jobs) as executor:
        logs = read_logs(paths, executor, progress)
    with collector_at_rest():
        job = align(logs.sources, logs.unreadable)
    return Reading(job, logs, jobs, scheduler)


def read_logs(paths: Sequence[str | Path], executor: Executor, progress: Progress | None) -> ReadLogs:
    """Finds the inputs, and reads them; folders of saved tables are read in place of their logs."""
    folders, others = split_saved([str(path) for path in paths])
    inputs, unreadable = discover(others, members=executor.list_members) if others or not folders else ([], [])
    check_one_job(one.name for one in inputs)
    read = ReadLogs(inputs, executor.read(inputs, progress), unreadable)
    for folder in folders:
        from hangscope.tables.saved.reader import read_saved  # noqa: PLC0415 (loads pandas)

        saved = read_saved(folder, {source.record.file for source in read.sources}, progress)
        read.sources.extend(saved.sources)
        read.unreadable.extend(saved.unreadable)
        read.lines.update(saved.lines)
        read.around.update(saved.around)
    if folders:
        check_one_job(source.record.file for source in read.sources)
    return read
