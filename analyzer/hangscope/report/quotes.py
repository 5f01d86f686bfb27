"""Puts the lines themselves in the place of evidence whose text was rebuilt from parsed fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from hangscope.model import Evidence, Finding, Report

Lines = Mapping[tuple[str, int], str]
"""Lines by file and number."""


def lines_to_quote(report: Report) -> dict[str, set[int]]:
    """The numbers of the lines that the report would quote if it had them, by file."""
    wanted: dict[str, set[int]] = {}
    for evidence in _all(report):
        if evidence.rebuilt and evidence.at.line is not None:
            wanted.setdefault(evidence.at.file, set()).add(evidence.at.line)
    return wanted


def quote(report: Report, lines: Lines) -> Report:
    """The report with these lines quoted; where a line is not among them, the rebuilt text stays."""
    if not lines:
        return report
    findings = {id(finding): _quoted(finding, lines) for finding in (report.verdict, *report.findings)}
    return replace(
        report,
        verdict=findings[id(report.verdict)],
        findings=tuple(findings[id(finding)] for finding in report.findings),
        story=tuple(replace(step, evidence=_lines(step.evidence, lines)) for step in report.story),
    )


def _all(report: Report) -> Iterator[Evidence]:
    for finding in (report.verdict, *report.findings):
        yield from finding.evidence
    for step in report.story:
        yield from step.evidence


def _quoted(finding: Finding, lines: Lines) -> Finding:
    return replace(finding, evidence=_lines(finding.evidence, lines))


def _lines(evidence: Iterable[Evidence], lines: Lines) -> tuple[Evidence, ...]:
    return tuple(_line(item, lines) for item in evidence)


def _line(item: Evidence, lines: Lines) -> Evidence:
    text = lines.get((item.at.file, item.at.line)) if item.rebuilt and item.at.line is not None else None
    return item if text is None else replace(item, text=text, rebuilt=False)
