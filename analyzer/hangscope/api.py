"""The analysis as functions: what the command line and notebooks call."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hangscope.align.job import Job
    from hangscope.diagnose.verdict import Diagnosis
    from hangscope.model import Fact, Finding, Report

__all__ = ["analyze", "analyze_text", "diagnose", "explain", "load"]

Progress = Callable[[int, int], None]


def load(*paths: str | Path, jobs: int | None = None, progress: Progress | None = None) -> Job:
    """Reads logs and aligns their ranks.

    Args:
        *paths: folders, files, globs or archives; ``-`` is standard input.
        jobs: processes to read with; by default one a core when there is enough to read.
        progress: called with (bytes done, bytes in all).

    Raises:
        InputError: when nothing is there to read.
    """
    from hangscope.align.job import align
    from hangscope.parse.run import read_inputs
    from hangscope.sources.discover import discover

    inputs, unreadable = discover([str(path) for path in paths])
    return align(read_inputs(inputs, jobs, progress), unreadable)


def diagnose(job: Job, rules: Sequence[str | Path] = (), facts: Sequence[Fact] | None = None) -> Diagnosis:
    """Applies the rule base to a job.

    Args:
        job: as `load` gives it.
        rules: folders of further rules.
        facts: the job's facts, when they are at hand already.
    """
    from hangscope.diagnose.check import check_rules
    from hangscope.diagnose.evaluate import evaluate
    from hangscope.diagnose.kinds import known_kinds
    from hangscope.diagnose.loader import load_rules
    from hangscope.diagnose.verdict import choose_verdict
    from hangscope.facts.collect import collect_facts
    from hangscope.facts.coverage import coverage

    base = load_rules(tuple(rules))
    if rules:
        check_rules(base, known_kinds())
    findings = evaluate(base, collect_facts(job) if facts is None else facts, job.versions)
    return choose_verdict(findings, base, coverage=coverage(job))


def analyze(
    *paths: str | Path, jobs: int | None = None, rules: Sequence[str | Path] = (), progress: Progress | None = None
) -> Report:
    """Reads logs and says why the job is stuck.

    Args:
        *paths: as for `load`.
        jobs: as for `load`.
        rules: folders of further rules.
        progress: as for `load`.

    Raises:
        InputError: when nothing is there to read.
        RuleError: when a rule of one of the folders is wrong.
    """
    from hangscope.align.job import align
    from hangscope.facts.collect import collect_facts
    from hangscope.facts.stuck import stuck_calls
    from hangscope.parse.run import read_inputs
    from hangscope.report.build import build_report
    from hangscope.report.quotes import lines_to_quote, quote
    from hangscope.sources.discover import discover
    from hangscope.sources.quote import read_lines

    inputs, unreadable = discover([str(path) for path in paths])
    job = align(read_inputs(inputs, jobs, progress), unreadable)
    facts = collect_facts(job)
    diagnosis = diagnose(job, rules, facts)
    report = build_report(dataclasses.replace(job, stuck=stuck_calls(job, facts)), diagnosis)
    return quote(report, read_lines(inputs, lines_to_quote(report)))


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


def explain(name: str) -> str:
    """What a cause or a rule means, how it looks in logs, and what to do.

    Raises:
        UnknownNameError: when there is no such cause or rule.
    """
    from hangscope.diagnose.reference import explain_text

    return explain_text(name)
