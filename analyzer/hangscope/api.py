"""The analysis as functions: what the command line and notebooks call."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.records import dataclass

if TYPE_CHECKING:
    from hangscope.align.job import Job
    from hangscope.diagnose.rule import Rule
    from hangscope.diagnose.verdict import Diagnosis
    from hangscope.live.capture import Say
    from hangscope.model import AttemptResult, Fact, Finding, History, Report, SourceRecord
    from hangscope.model.difference import CallsCompared, JobDifference
    from hangscope.parse.executors import Executor
    from hangscope.parse.source import ParsedSource
    from hangscope.plot.picture import Picture
    from hangscope.sources.around import Around
    from hangscope.sources.inputs import Input
    from hangscope.sources.quote import Quoted
    from hangscope.tables.saved.writer import JobWriter

__all__ = [
    "Attachment",
    "Reading",
    "analyze",
    "analyze_text",
    "attach",
    "diagnose",
    "diagnose_attempts",
    "diff",
    "explain",
    "history_of",
    "load",
    "plot",
    "read_job",
    "report_on",
]

Progress = Callable[[int, int], None]


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


@dataclass(frozen=True, slots=True)
class Reading:
    """A job, and the way back to the lines it was read from.

    Attributes:
        job: the job, aligned.
        inputs: what was read.
        lines: log lines that a saved job brought along, by file and number.
        around: what stands around them, the same way.
        jobs, scheduler: where to read, as for `load`.
    """

    job: Job
    inputs: tuple[Input, ...]
    lines: Mapping[tuple[str, int], Quoted]
    around: Mapping[tuple[str, int], Around]
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
    from hangscope.align.job import align
    from hangscope.parse.executors import open_executor

    with open_executor(scheduler, jobs) as executor:
        found = _read(paths, executor, progress)
    job = align(found.sources, found.unreadable)
    return Reading(job, tuple(found.inputs), found.lines, found.around, jobs, scheduler)


def report_on(reading: Reading, rules: Sequence[str | Path] = (), history: int = 0) -> Report:
    """The report on a job that was read before; the lines it quotes are read again, as far as they are still there.

    Args:
        reading: as `read_job` gives it.
        rules: folders of further rules.
        history: as for `analyze`.

    Raises:
        RuleError: when a rule of one of the folders is wrong.
    """
    from hangscope.parse.executors import open_executor

    _check_rules(rules)
    report = _report(reading.job, rules, history)
    with open_executor(reading.scheduler, reading.jobs) as executor:
        return _with_lines(report, reading, executor)[0]


def diagnose(job: Job, rules: Sequence[str | Path] = (), facts: Sequence[Fact] | None = None) -> Diagnosis:
    """Applies the rule base to a job.

    Args:
        job: as `load` gives it.
        rules: folders of further rules.
        facts: the job's facts, when they are at hand already.
    """
    from hangscope.diagnose.confidence import Gaps
    from hangscope.diagnose.evaluate import evaluate
    from hangscope.diagnose.extent import World
    from hangscope.diagnose.verdict import choose_verdict, no_findings
    from hangscope.facts.collect import collect_facts
    from hangscope.facts.coverage import coverage
    from hangscope.facts.last_words import last_words

    known = tuple(collect_facts(job) if facts is None else facts)
    base = _rules_for(known, rules)
    world = World(job.world_size, {rank: process.host for rank, process in job.ranks.items() if process.host})
    findings = evaluate(base, known, job.versions, without_nccl=job.without_nccl, world=world)
    clocks = job.clocks if len(job.hosts) > 1 else None
    gaps = Gaps(coverage(job), job.lost_tails, clocks, mixed=bool(job.runs))
    return choose_verdict(findings, base, gaps=gaps, fallback=no_findings(last_words(job)))


def _rules_for(facts: Sequence[Fact], own: Sequence[str | Path]) -> tuple[Rule, ...]:
    if own:
        from hangscope.diagnose.own_rules import load_checked_rules

        return load_checked_rules(own)
    from hangscope.diagnose.shipped import load_rules_about

    return load_rules_about(frozenset(fact.kind for fact in facts))


def diagnose_attempts(job: Job, rules: Sequence[str | Path] = ()) -> tuple[AttemptResult, ...]:
    """How the attempts before the last one ended, the oldest first; empty for a job that was never restarted.

    Args:
        job: as `load` gives it.
        rules: folders of further rules.
    """
    from hangscope.align.job import align
    from hangscope.model import AttemptResult

    return tuple(
        AttemptResult(attempt.number, diagnose(align(attempt.sources), rules).verdict) for attempt in job.earlier
    )


def analyze(
    *paths: str | Path,
    jobs: int | None = None,
    rules: Sequence[str | Path] = (),
    progress: Progress | None = None,
    tables: str | Path | None = None,
    scheduler: str | None = None,
    history: int = 0,
) -> Report:
    """Reads logs and says why the job is stuck.

    Args:
        *paths: as for `load`.
        jobs: as for `load`.
        rules: folders of further rules.
        progress: as for `load`.
        tables: folder to save the job in, as Parquet files; given as a path later, it is read in place of the logs.
        scheduler: as for `load`.
        history: how many of the last calls of each group the report shall hold (`Report.history`), at most.

    Raises:
        InputError: as for `load`, and when the tables cannot be written.
        RuleError: when a rule of one of the folders is wrong.
    """
    from hangscope.parse.executors import open_executor
    from hangscope.sources.saved import check_folder

    _check_rules(rules)
    if tables is None:
        with open_executor(scheduler, jobs) as executor:
            return _report_and_save(_read(paths, executor, progress), executor, rules, None, history)
    from hangscope.tables.saved.writer import JobWriter

    check_folder(tables, [str(path) for path in paths])
    with JobWriter(tables) as writer, open_executor(scheduler, jobs) as executor:
        return _report_and_save(_read(paths, executor, progress), executor, rules, writer, history)


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read: of each input, and the log lines that a saved job brought along, with those around them."""

    inputs: list[Input]
    sources: list[ParsedSource]
    unreadable: list[SourceRecord]
    lines: dict[tuple[str, int], Quoted]
    around: dict[tuple[str, int], Around]


def _read(paths: Sequence[str | Path], executor: Executor, progress: Progress | None) -> _Read:
    from hangscope.sources.bundles import check_one_job
    from hangscope.sources.discover import discover
    from hangscope.sources.saved import split_saved

    folders, others = split_saved([str(path) for path in paths])
    inputs, unreadable = discover(others, members=executor.list_members) if others or not folders else ([], [])
    check_one_job(one.name for one in inputs)
    read = _Read(inputs, executor.read(inputs, progress), unreadable, {}, {})
    for folder in folders:
        from hangscope.tables.saved.reader import read_saved

        saved = read_saved(folder, {source.record.file for source in read.sources}, progress)
        read.sources.extend(saved.sources)
        read.unreadable.extend(saved.unreadable)
        read.lines.update(saved.lines)
        read.around.update(saved.around)
    if folders:
        check_one_job(source.record.file for source in read.sources)
    return read


def _report_and_save(
    read: _Read, executor: Executor, rules: Sequence[str | Path], writer: JobWriter | None, history: int
) -> Report:
    from hangscope.align.job import align

    if writer is not None:
        writer.add(read.sources)  # alignment fills in what the lines do not say
    job = align(read.sources, read.unreadable)
    report = _report(job, rules, history)
    report, lines, around = _with_lines(report, read, executor)
    if writer is not None:
        writer.finish(job.tables, read.unreadable, lines, around)
    return report


def _with_lines(
    report: Report, read: _Read | Reading, executor: Executor
) -> tuple[Report, dict[tuple[str, int], Quoted], dict[tuple[str, int], Around]]:
    """The report with its lines quoted as they stand, and with those around them; all these lines."""
    from hangscope.report.quotes import lines_to_quote, lines_to_surround, quote, surround

    lines = {**read.lines, **executor.read_lines(read.inputs, lines_to_quote(report))}
    report = quote(report, lines)
    around = {**read.around, **executor.read_around(read.inputs, lines_to_surround(report, lines))}
    return surround(report, around), lines, around


def _report(job: Job, rules: Sequence[str | Path], history: int) -> Report:
    from hangscope.facts.collect import collect_facts
    from hangscope.facts.comparisons import compare
    from hangscope.facts.stuck import stuck_calls
    from hangscope.report.build import build_report

    facts = collect_facts(job)
    diagnosis = diagnose(job, rules, facts)
    attempts = diagnose_attempts(job, rules)
    stuck = dataclasses.replace(job, stuck=stuck_calls(job, facts))
    return build_report(stuck, diagnosis, compare(job), attempts, history_of(job, history))


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
    import hangscope
    from hangscope.facts.job_differences import compare_jobs
    from hangscope.model.difference import JobDifference, JobSide

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
    from hangscope.model.difference import CallsCompared

    if not all(len(job.calls) or job.recordings.tracks for job in (good, bad)):
        return CallsCompared()
    # numpy takes longer to import than much of an analysis without calls
    from hangscope.align.call_differences import compare_calls

    return compare_calls(good, bad)


def history_of(job: Job, calls: int) -> History | None:
    """The last calls of each group, at most so many (`Report.history`); None when no calls are known, or wanted."""
    if calls < 1:
        return None
    from hangscope.align.history import find_history
    from hangscope.facts.counts import find_counts

    return find_history(job, calls) or find_counts(job)


def plot(
    kind: str,
    *paths: str | Path,
    output: str | Path | None = None,
    dark: bool = False,
    jobs: int | None = None,
    rules: Sequence[str | Path] = (),
) -> Picture:
    """Reads logs and draws a picture of the job.

    Args:
        kind: one of `hangscope.plot.plot_names`: "timeline", "progress", "skew", "ranks", "init" or "waits".
        *paths: as for `load`.
        output: file to write it to (.png, .svg or .pdf), too.
        dark: for a dark page.
        jobs: as for `load`.
        rules: folders of further rules.

    Returns:
        A matplotlib Figure; nothing is shown, and pyplot does not know of it.

    Raises:
        UnknownNameError: there is no such kind.
        MissingEvidenceError: the logs hold nothing that it could show.
        InputError: as for `load`.
    """
    from hangscope.plot import load_plot

    chosen = load_plot(kind)
    picture = chosen.draw(analyze(*paths, jobs=jobs, rules=rules, history=chosen.HISTORY), dark=dark)
    if output is not None:
        picture.save(output)
    return picture


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
    from hangscope.live.bundle import hand_over, pack
    from hangscope.live.capture import Options, capture, check_options, say_nothing
    from hangscope.live.choose import find_jobs
    from hangscope.live.watch import wait_until_stuck

    _check_rules(rules)
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


def _check_rules(folders: Sequence[str | Path]) -> None:
    """Before the work: a wrong rule should cost nobody a wait."""
    if folders:
        from hangscope.diagnose.own_rules import check_own_rules

        check_own_rules(folders)


def analyze_text(text: str) -> tuple[Finding, ...]:
    """All findings of a piece of log, given as text; a line ``### FILE name`` begins another file."""
    from hangscope.align.job import align
    from hangscope.parse.reader import read_stream

    files: dict[str, list[str]] = {}
    name = "case.log"
    for line in text.splitlines():
        if line.startswith("### FILE "):
            name = line.removeprefix("### FILE ").strip()
            files.setdefault(name, [])
        else:
            files.setdefault(name, []).append(line)
    sources = [read_stream(name, io.BytesIO("\n".join([*lines, ""]).encode())) for name, lines in files.items()]
    return diagnose(align(sources)).findings


def explain(name: str, rules: Sequence[str | Path] = ()) -> str:
    """What a cause or a rule means, how it looks in logs, why it happens, how to confirm it, and what to do.

    Args:
        name: id of a cause or of a rule.
        rules: folders of further rules.

    Raises:
        UnknownNameError: when there is no such cause or rule.
        RuleError: when a rule of one of the folders is wrong.
    """
    from hangscope.diagnose.pages import explain_text

    return explain_text(name, rules)
