"""Puts the lines themselves in the place of evidence that was rebuilt from parsed fields, and the lines around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from hangscope.model import Evidence, Finding, Report
from hangscope.report.proof import at_first_sight
from hangscope.sources.around import Around, Spot
from hangscope.sources.quote import Quoted

Lines = Mapping[tuple[str, int], Quoted]
"""Lines by file and number."""


def lines_to_quote(report: Report) -> dict[str, set[int]]:
    """The numbers of the lines that the report would quote if it had them, by file."""
    wanted: dict[str, set[int]] = {}
    for evidence in _all(report):
        if evidence.rebuilt and evidence.at.line is not None:
            wanted.setdefault(evidence.at.file, set()).add(evidence.at.line)
    return wanted


def quote(report: Report, lines: Lines) -> Report:
    """The report with these lines quoted; where a line is not among them, or another by now, the rebuilt text stays."""

    def quoted(item: Evidence) -> Evidence:
        line = lines.get((item.at.file, item.at.line)) if item.rebuilt and item.at.line is not None else None
        # since it was read, the file may have been rotated or written anew
        return item if line is None or _call(item) not in line.text else replace(item, text=line.text, rebuilt=False)

    return _with_evidence(report, quoted) if lines else report


def _call(rebuilt: Evidence) -> str:
    """What the line of a call has to say to be that call's: its operation and number; "" for other lines."""
    return rebuilt.text.partition(" NCCL INFO ")[2].partition(" ... ")[0]


def lines_to_surround(report: Report, lines: Lines) -> dict[str, list[Spot]]:
    """The verdict's lines that a reader sees first, by file: what stands around them helps to believe them.

    Args:
        report: with its lines quoted.
        lines: those that were quoted; they say where they stand.
    """
    wanted: dict[str, list[Spot]] = {}
    for proof in at_first_sight(report.verdict.evidence):
        at, text = proof.line.at, proof.line.text
        if at.line is not None and not proof.line.rebuilt:
            quoted = lines.get((at.file, at.line))
            offset = at.offset if quoted is None else quoted.offset
            wanted.setdefault(at.file, []).append(Spot(at.line, offset, text))
    return wanted


def surround(report: Report, around: Mapping[tuple[str, int], Around]) -> Report:
    """The report with these lines around the verdict's evidence; evidence that is not among them stays alone."""
    shown = {id(proof.line) for proof in at_first_sight(report.verdict.evidence)}

    def surrounded(item: Evidence) -> Evidence:
        lines = around.get((item.at.file, item.at.line)) if id(item) in shown and item.at.line is not None else None
        return item if lines is None else replace(item, before=lines.before, after=lines.after)

    return _with_evidence(report, surrounded) if around else report


def _all(report: Report) -> Iterator[Evidence]:
    for finding in (report.verdict, *report.findings):
        yield from finding.evidence
    for step in report.story:
        yield from step.evidence


def _with_evidence(report: Report, change: Callable[[Evidence], Evidence]) -> Report:
    """The report with every line of evidence changed; the verdict stays one of the findings."""

    def changed(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
        return tuple(change(item) for item in evidence)

    findings: dict[int, Finding] = {
        id(finding): replace(finding, evidence=changed(finding.evidence))
        for finding in (report.verdict, *report.findings)
    }
    return replace(
        report,
        verdict=findings[id(report.verdict)],
        findings=tuple(findings[id(finding)] for finding in report.findings),
        story=tuple(replace(step, evidence=changed(step.evidence)) for step in report.story),
    )
