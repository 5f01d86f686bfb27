"""Evaluates rules on facts: each rule that holds becomes one finding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hangscope.align.versions import Versions
from hangscope.diagnose.defects import UNSURE_CONFIDENCE, unsure_words
from hangscope.diagnose.extent import World, extent_words
from hangscope.diagnose.index import FactIndex, earliest
from hangscope.diagnose.match import Match, match
from hangscope.diagnose.rule import Rule
from hangscope.diagnose.settings import fit_remedy, in_order
from hangscope.diagnose.template import Subject, headline, render, sentences
from hangscope.diagnose.versions import Fit, fits
from hangscope.facts.collect import Facts
from hangscope.model import Evidence, Fact, Finding, Remedy, Role

MOST_EVIDENCE = 12
"""Lines a finding cites at most: enough to prove it, few enough to read."""

_OF_REPORTS = ("ras_", "stack", "smi_", "attached_", "process_gone", "process_stopped", "process_defunct")
"""Beginnings of the kinds of facts whose time is that of the report or dump that shows them."""

_FOR_OTHERS = 4
"""Of those, so many are kept for facts that are no culprits but belong to the proof."""


def evaluate(
    rules: Iterable[Rule],
    facts: Facts | Iterable[Fact],
    versions: Versions | None = None,
    *,
    without_nccl: bool = False,
    world: World | None = None,
) -> tuple[Finding, ...]:
    """Findings of the rules that hold, in the order of the rules; nothing is explained or merged yet.

    Args:
        rules: what to evaluate.
        facts: everything the evidence shows, in any order.
        versions: versions seen, which decide what remedies are offered, and under which names settings go.
        without_nccl: the job does not use NCCL, so that advice about it is of no use.
        world: who is in the job, which tells a fault of the job or of a host from one of a rank.
    """
    index = FactIndex(facts)
    seen = versions or Versions()
    findings = []
    for rule in rules:
        found = match(rule.when, index)
        covered = Fit.NO if found is None else Fit.YES if rule.affected is None else rule.affected.covers(seen)
        if found is None or covered is Fit.NO:
            continue
        finding = _build_finding(rule, found, seen, world or World(), without_nccl=without_nccl)
        if covered is Fit.YES:
            findings.append(finding)
        elif rule.role is Role.CAUSE:
            findings.append(_doubt(finding, rule, seen))
    return tuple(findings)


def _doubt(finding: Finding, rule: Rule, versions: Versions) -> Finding:
    """A defect's finding when nothing tells whether the version has it: a note, however clear the signature is."""
    doubt = unsure_words(rule.affected, versions) if rule.affected else ""
    return replace(
        finding,
        role=Role.CONTRIBUTING,
        title=f"Perhaps a known defect: {finding.title}",
        confidence=min(finding.confidence, UNSURE_CONFIDENCE),
        explanation=f"{finding.explanation} {doubt}",
    )


def _build_finding(rule: Rule, found: Match, versions: Versions, world: World, *, without_nccl: bool) -> Finding:
    everything = earliest(itertools.chain.from_iterable(found.bound.values()))
    ranks = sorted({rank for fact in found.culprits for rank in fact.ranks} - found.excused_ranks)
    hosts = sorted({host for fact in found.culprits for host in fact.hosts} - found.excused_hosts)
    affected = {rank for fact in everything for rank in fact.affected}
    if rule.role is Role.SYMPTOM and not found.culprits:
        # who says it and is not to blame suffers from it
        affected.update(rank for fact in everything for rank in fact.ranks)
    subject = Subject(
        ranks=tuple(ranks),
        hosts=tuple(hosts) or world.hosts_of(ranks),
        groups=tuple(dict.fromkeys(fact.group for fact in everything if fact.group)),
        affected=tuple(sorted(affected - set(ranks))),
        count=len(found.culprits or everything),
        bound=found.bound,
        are_all=world.is_all(ranks),
    )
    extent = extent_words(ranks, world) if rule.role is Role.CAUSE else ""
    offered = (
        fit_remedy(Remedy(render(remedy.text, subject), remedy.command), versions, without_nccl=without_nccl)
        for remedy in rule.remedies
        if fits(remedy.versions, versions)
    )
    timed = next((fact for fact in found.culprits or everything if fact.time is not None), None)
    return Finding(
        cause=rule.cause,
        role=rule.role,
        title=headline(render(rule.title, subject)),
        ranks=subject.ranks,
        affected_ranks=subject.affected,
        hosts=subject.hosts,
        confidence=rule.confidence,
        explanation=" ".join(filter(None, (sentences(render(rule.explanation, subject)), extent))),
        remedies=in_order(remedy for remedy in offered if remedy is not None),
        evidence=choose_evidence(found.culprits, everything),
        rule=rule.id,
        time=timed.time if timed else None,
        is_time_of_report=timed is not None and timed.kind.startswith(_OF_REPORTS),
    )


def choose_evidence(culprits: Sequence[Fact], everything: Sequence[Fact]) -> tuple[Evidence, ...]:
    """The lines to cite: the culprits' first, the best line of each writer before further ones, no line twice."""
    own = {id(fact) for fact in culprits}
    others = [fact for fact in everything if id(fact) not in own]
    room = MOST_EVIDENCE - min(_FOR_OTHERS, len(others))
    chosen: dict[tuple[object, ...], Evidence] = {}
    _take(_by_turns(culprits), room, chosen)
    _take(_by_turns(others), MOST_EVIDENCE, chosen)
    _take(_by_turns(culprits), MOST_EVIDENCE, chosen)
    return tuple(chosen.values())


def unite_evidence(first: Sequence[Evidence], second: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Two findings' evidence as one, the first one's in front."""
    chosen: dict[tuple[object, ...], Evidence] = {}
    _take(itertools.chain(first, second), MOST_EVIDENCE, chosen)
    return tuple(chosen.values())


def _take(lines: Iterable[Evidence], limit: int, chosen: dict[tuple[object, ...], Evidence]) -> None:
    for evidence in lines:
        if len(chosen) >= limit:
            return
        # Entries of binary sources have no line number: there the text tells them apart.
        at = evidence.at
        chosen.setdefault((at.file, at.line, at.offset if at.line is None else 0, evidence.text), evidence)


def _by_turns(facts: Sequence[Fact]) -> Iterator[Evidence]:
    """The first line of the earliest fact of each kind and writer, then that of the other facts, then all lines."""
    writers: set[tuple[object, ...]] = set()
    for fact in facts:
        if fact.evidence:
            writer = (fact.kind, fact.ranks or fact.evidence[0].at.file)
            if writer not in writers:
                writers.add(writer)
                yield fact.evidence[0]
    for fact in facts:
        yield from fact.evidence[:1]
    for fact in facts:
        yield from fact.evidence[1:]
