"""From a job to its report: facts, rules, verdict, and the lines that prove it."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.align.job import Job, align
from hangscope.api.collector import collector_at_rest
from hangscope.api.reading import Progress, Reading, ReadLogs, read_logs
from hangscope.diagnose.confidence import Gaps
from hangscope.diagnose.evaluate import evaluate
from hangscope.diagnose.extent import World
from hangscope.diagnose.rule import Rule
from hangscope.diagnose.shipped import load_rules_about
from hangscope.diagnose.verdict import Diagnosis, choose_verdict, no_findings
from hangscope.facts.collect import Facts, collect_facts
from hangscope.facts.comparisons import compare
from hangscope.facts.counts import find_counts
from hangscope.facts.coverage import coverage
from hangscope.facts.last_words import last_words
from hangscope.facts.stuck import stuck_calls
from hangscope.model import AttemptResult, Finding, History, Report
from hangscope.parse.executors import Executor, open_executor
from hangscope.parse.reader import read_stream
from hangscope.report.build import build_report
from hangscope.report.quotes import lines_to_quote, lines_to_surround, quote, surround
from hangscope.sources.around import Around
from hangscope.sources.quote import Quoted
from hangscope.sources.saved import check_folder

if TYPE_CHECKING:
    from hangscope.tables.saved.writer import JobWriter


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
    check_rules(rules)
    if tables is None:
        with open_executor(scheduler, jobs) as executor:
            return _report_and_save(read_logs(paths, executor, progress), executor, rules, None, history)
    from hangscope.tables.saved.writer import JobWriter  # noqa: PLC0415 (loads pandas)

    check_folder(tables, [str(path) for path in paths])
    with JobWriter(tables) as writer, open_executor(scheduler, jobs) as executor:
        return _report_and_save(read_logs(paths, executor, progress), executor, rules, writer, history)


def _report_and_save(
    read: ReadLogs, executor: Executor, rules: Sequence[str | Path], writer: JobWriter | None, history: int
) -> Report:
    if writer is not None:
        writer.add(read.sources)  # alignment fills in what the lines do not say
    with collector_at_rest():
        job = align(read.sources, read.unreadable)
        report = _report(job, rules, history)
    report, lines, around = _with_lines(report, read, executor)
    if writer is not None:
        writer.finish(job.tables, read.unreadable, lines, around)
    return report


def _with_lines(
    report: Report, read: ReadLogs, executor: Executor
) -> tuple[Report, dict[tuple[str, int], Quoted], dict[tuple[str, int], Around]]:
    """The report with its lines quoted as they stand, and with those around them; all these lines."""
    lines = {**read.lines, **executor.read_lines(read.inputs, lines_to_quote(report))}
    report = quote(report, lines)
    around = {**read.around, **executor.read_around(read.inputs, lines_to_surround(report, lines))}
    return surround(report, around), lines, around


def report_on(reading: Reading, rules: Sequence[str | Path] = ()) -> Report:
    """The report on a job that was read before; the lines it quotes are read again, as far as they are still there.

    Args:
        reading: as `read_job` gives it.
        rules: folders of further rules.

    Raises:
        RuleError: when a rule of one of the folders is wrong.
    """
    check_rules(rules)
    report = _report(reading.job, rules, history=0)
    with open_executor(reading.scheduler, reading.jobs) as executor:
        return _with_lines(report, reading.logs, executor)[0]


def _report(job: Job, rules: Sequence[str | Path], history: int) -> Report:
    facts = collect_facts(job)
    diagnosis = diagnose(job, rules, facts)
    attempts = diagnose_attempts(job, rules)
    stuck = dataclasses.replace(job, stuck=stuck_calls(job, facts.found))
    return build_report(stuck, diagnosis, compare(job), attempts, history_of(job, history))


def diagnose(job: Job, rules: Sequence[str | Path] = (), facts: Facts | None = None) -> Diagnosis:
    """Applies the rule base to a job.

    Args:
        job: as `load` gives it.
        rules: folders of further rules.
        facts: the job's facts, when they are at hand already.
    """
    known = collect_facts(job) if facts is None else facts
    base = _rules_for(known, rules)
    world = World(job.world_size, {rank: process.host for rank, process in job.ranks.items() if process.host})
    findings = evaluate(base, known, job.versions, without_nccl=job.without_nccl, world=world)
    clocks = job.clocks if len(job.hosts) > 1 else None
    gaps = Gaps(coverage(job), job.lost_tails, clocks, mixed=bool(job.runs))
    return choose_verdict(findings, base, gaps=gaps, fallback=no_findings(last_words(job)))


def _rules_for(facts: Facts, own: Sequence[str | Path]) -> tuple[Rule, ...]:
    if own:
        from hangscope.diagnose.own_rules import load_checked_rules  # noqa: PLC0415 (loads all grammars)

        return load_checked_rules(own)
    return load_rules_about(facts.kinds)


def diagnose_attempts(job: Job, rules: Sequence[str | Path] = ()) -> tuple[AttemptResult, ...]:
    """How the attempts before the last one ended, the oldest first; empty for a job that was never restarted.

    Args:
        job: as `load` gives it.
        rules: folders of further rules.
    """
    return tuple(
        AttemptResult(attempt.number, diagnose(align(attempt.sources), rules).verdict) for attempt in job.earlier
    )


def history_of(job: Job, calls: int) -> History | None:
    """The last calls of each group, at most so many (`Report.history`); None when no calls are known, or wanted."""
    if calls < 1:
        return None
    from hangscope.align.history import find_history  # noqa: PLC0415 (loads numpy)

    return find_history(job, calls) or find_counts(job)


def check_rules(folders: Sequence[str | Path]) -> None:
    """Says before the work whether a rule of these folders is wrong: it should cost nobody a wait.

    Raises:
        RuleError: when one is.
    """
    if folders:
        from hangscope.diagnose.own_rules import check_own_rules  # noqa: PLC0415 (loads all grammars)

        check_own_rules(folders)


def analyze_text(text: str) -> tuple[Finding, ...]:
    """All findings of a piece of log, given as text; a line ``### FILE name`` begins another file."""
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
