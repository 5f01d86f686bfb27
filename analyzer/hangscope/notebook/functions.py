"""The ways into a notebook: read a job, read it and say at once why it is stuck, compare two."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec

from hangscope import api
from hangscope.notebook.difference import Difference
from hangscope.notebook.job import Job
from hangscope.notebook.report import Report

_CALLS = 200
"""So many calls of each group a report has that cannot go back to its job."""


_P = ParamSpec("_P")


def load(*paths: str | Path, jobs: int | None = None, scheduler: str | None = None) -> Job:
    """Reads what the ranks of a job left behind; ``load("logs/")`` is all it takes.

    Args:
        *paths: folders, files, globs or archives, also as URLs that fsspec knows (``s3://bucket/logs``), and folders
            that ``hangscope analyze --tables`` wrote.
        jobs: processes to read with; by default one a core when there is enough to read.
        scheduler: address or file of the dask scheduler whose workers shall read; ``local`` starts workers here.

    Returns:
        The job: its tables as DataFrames (`Job.calls`, `Job.events`, `Job.stacks`, ...), and `Job.analyze`.

    Raises:
        InputError: when nothing is there to read, attach saw several jobs in it, or a URL or scheduler is out of reach.
    """
    return Job(api.read_job(*paths, jobs=jobs, scheduler=scheduler), " ".join(map(str, paths)))


def analyze(
    *paths: str | Path,
    jobs: int | None = None,
    rules: Sequence[str | Path] = (),
    tables: str | Path | None = None,
    scheduler: str | None = None,
) -> Report:
    """Reads a job and says why it is stuck.

    Args:
        *paths: as for `load`.
        jobs: as for `load`.
        rules: folders of further rules.
        tables: folder to save the job in, as Parquet files; given as a path later, it is read in place of the logs.
        scheduler: as for `load`.

    Raises:
        InputError: as for `load`, and when the tables cannot be written.
        RuleError: when a rule of one of the folders is wrong.
    """
    if tables is None:
        return load(*paths, jobs=jobs, scheduler=scheduler).analyze(rules)
    return Report.of(api.analyze(*paths, jobs=jobs, rules=rules, tables=tables, scheduler=scheduler, history=_CALLS))


def diff(good: Job | str | Path, bad: Job | str | Path, rules: Sequence[str | Path] = ()) -> Difference:
    """What two jobs differ in: versions, settings, topology, transports, and the first call at which they part.

    Args:
        good: a job that ran well: as `load` gives it, or a path as for `load`.
        bad: one that did not.
        rules: folders of further rules, for the verdicts of both.

    Raises:
        InputError: as for `load`.
        RuleError: when a rule of one of the folders is wrong.
    """
    one, other = (job if isinstance(job, Job) else load(job) for job in (good, bad))
    return one.diff(other, rules)


def _shown(function: Callable[_P, api.Attachment | None]) -> Callable[_P, api.Attachment | None]:
    @functools.wraps(function)
    def attached(*args: _P.args, **kwargs: _P.kwargs) -> api.Attachment | None:
        found = function(*args, **kwargs)
        return found and dataclasses.replace(found, reports=tuple(map(Report.of, found.reports)))

    return attached


attach = _shown(api.attach)
