"""Attaches to the jobs of this host, and reports on what it saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hangscope.api.analysis import analyze, check_rules
from hangscope.live.bundle import hand_over, pack
from hangscope.live.capture import Options, Say, capture, check_options, say_nothing
from hangscope.live.choose import find_jobs
from hangscope.live.watch import wait_until_stuck
from hangscope.model import Report
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class Attachment:
    """What attaching to the jobs of this host gave.

    Attributes:
        bundle: the folder with everything collected, or its archive.
        jobs: the jobs' names.
        reports: a report a job, in the same order.
    """

    bundle: Path
    jobs: tuple[str, ...]
    reports: tuple[Report, ...]

    @property
    def report(self) -> Report:
        """The report on the job, or on the first one."""
        return self.reports[0]


def attach(
    *pids: int,
    output: str | Path | None = None,
    interval_s: float = 5.0,
    native: bool = False,
    nonblocking: bool = False,
    recorder: bool = True,
    watch_s: float | None = None,
    archive: bool = False,
    several: bool = True,
    rules: Sequence[str | Path] = (),
    say: Say | None = None,
    history: int = 0,
) -> Attachment | None:
    """Looks twice at the training jobs of this host, writes a bundle, and says why they are stuck.

    It only reads; the byte that asks torch for its flight recorder is all that it ever writes into a job.

    Args:
        *pids: processes of the jobs that are meant; by default all jobs of this host.
        output: folder to write the bundle to; by default a new one in the working directory.
        interval_s: seconds between the two looks.
        native: also C and C++ frames of the stacks.
        nonblocking: do not pause the processes for their stacks, which then may be inconsistent.
        recorder: ask torch for its flight recorder where the job listens to a pipe for that.
        watch_s: look from afar every so many seconds, and attach as soon as the job stands still.
        archive: pack the bundle into a ``.tar.gz``, beside the folder.
        several: whether more than one job will do.
        rules: folders of further rules.
        say: called with what is being done, how much of it is done, and how much there is.
        history: as for `analyze`.

    Returns:
        None when the job that was watched ended.

    Raises:
        InputError: no training process, no py-spy, a folder that is not empty, or more jobs than wanted.
        RuleError: when a rule of one of the folders is wrong.
    """
    check_rules(rules)
    options = Options(interval_s, native, nonblocking, recorder)
    check_options(options, Path(output) if output is not None else None, archive=archive)
    if watch_s is not None and not wait_until_stuck(pids, watch_s, say or say_nothing):
        return None
    captured = capture(find_jobs(pids, several=several), Path(output) if output is not None else None, options, say)
    bundle = pack(captured.folder) if archive else captured.folder
    for written in {captured.folder, bundle}:
        hand_over(written)
    reports = tuple(analyze(folder, jobs=1, rules=rules, history=history) for _, folder in captured.jobs)
    return Attachment(bundle, tuple(name for name, _ in captured.jobs), reports)
