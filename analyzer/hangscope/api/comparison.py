"""Compares two jobs: what they have, what they called, and what the verdict on each is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import hangscope
from hangscope.align.job import Job
from hangscope.api.analysis import report_on
from hangscope.api.reading import Reading
from hangscope.facts.job_differences import compare_jobs
from hangscope.model.difference import CallsCompared, JobDifference, JobSide


def diff(
    good: Reading, bad: Reading, names: tuple[str, str] = ("good", "bad"), rules: Sequence[str | Path] = ()
) -> JobDifference:
    """What two jobs differ in: versions, settings, shape, network, and the first call at which they part.

    Args:
        good: a job that ran well, as `read_job` gives it.
        bad: one that did not.
        names: what to call them.
        rules: folders of further rules, for the verdicts.

    Raises:
        RuleError: when a rule of one of the folders is wrong.
    """

    def side(name: str, reading: Reading) -> JobSide:
        report = report_on(reading, rules)
        return JobSide(name, report.job, report.verdict)

    differences, equal = compare_jobs(good.job, bad.job)
    return JobDifference(
        hangscope.__version__,
        side(names[0], good),
        side(names[1], bad),
        differences,
        equal,
        _compare_calls(good.job, bad.job),
    )


def _compare_calls(good: Job, bad: Job) -> CallsCompared:

    if not all(len(job.calls) or job.recordings.tracks for job in (good, bad)):
        return CallsCompared()
    from hangscope.align.call_differences import compare_calls  # noqa: PLC0415 (loads numpy)

    return compare_calls(good, bad)
