"""Says in words who has which value of a comparison, and takes lines that one rank alone printed as evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE
from hangscope.facts.comparisons.messages import TOPIC as MESSAGES
from hangscope.model import ComparedValue, Comparison, Evidence, Finding
from hangscope.report.printable import one_line
from hangscope.report.spans import count_words, fold_hosts, rank_words

_LONE_LINES = 3


def properties(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """The comparisons of what ranks and hosts have, without the lines that one rank alone printed."""
    return [c for c in comparisons if c.topic != MESSAGES]


def differing(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Those with several values, what must agree first; not the lines that one rank printed."""
    found = [c for c in properties(comparisons) if c.differs]
    return sorted(found, key=lambda c: not c.must_agree)


def lone_lines(comparisons: Iterable[Comparison]) -> list[ComparedValue]:
    """The lines that one rank or host alone printed, with who did."""
    return [c.values[0] for c in comparisons if c.topic == MESSAGES]


def who_has(value: ComparedValue, *, most: int = 0) -> str:
    """``ranks 8-15 on node02``, ``node[01-04]``, or the files of those that nobody knows.

    Args:
        value: of a comparison.
        most: no more characters of rank numbers than so many.
    """
    hosts = one_line(fold_hosts(value.hosts)) if value.hosts else ""
    if value.ranks:
        return rank_words(value.ranks, most=most) + (f" on {hosts}" if hosts else "")
    if hosts:
        return hosts
    if value.names:
        first = one_line(value.names[0])
        return first if len(value.names) == 1 else f"{first} and {count_words(len(value.names) - 1, 'more file')}"
    return count_words(value.count, "process")


def with_lone_lines(finding: Finding, comparisons: Sequence[Comparison]) -> Finding:
    """A verdict that too little is known, with the first lines that one rank alone printed as further evidence."""
    if finding.cause != INSUFFICIENT_EVIDENCE:
        return finding
    known = {(evidence.at.file, evidence.at.line) for evidence in finding.evidence}
    added: list[Evidence] = []
    for value in lone_lines(comparisons):
        evidence = value.evidence
        if evidence is not None and (evidence.at.file, evidence.at.line) not in known:
            added.append(Evidence(evidence.at, evidence.text, f"{who_has(value)} alone printed this"))
    return replace(finding, evidence=(*finding.evidence, *added[:_LONE_LINES])) if added else finding
