"""Findings with what their rules know of them; what several rules say about one fault becomes one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from hangscope.diagnose.defects import UNSURE_WEIGHT
from hangscope.diagnose.evaluate import unite_evidence
from hangscope.diagnose.rule import Rule
from hangscope.model import Finding, Role
from hangscope.records import dataclass

TIERS = (90, 80, 60, 40, 20)
"""Weights from which a finding is of a better tier; within a tier other things decide (see `Rule.weight`)."""

MACHINE_TIER, DIRECT_TIER = TIERS.index(90), TIERS.index(80)


@dataclass(frozen=True, slots=True)
class Node:
    """A finding together with what its rules know and the finding itself does not carry."""

    finding: Finding
    weight: int
    explains: frozenset[str]
    late: bool
    defect: str = ""

    @property
    def tier(self) -> int:
        return next((number for number, least in enumerate(TIERS) if self.weight >= least), len(TIERS))

    @property
    def time(self) -> float:
        return math.inf if self.finding.time is None else self.finding.time

    @property
    def strength(self) -> tuple[object, ...]:
        """Sorts the stronger of two findings in front: it keeps its text, and its edge where two explain each other."""
        is_cause = self.finding.role is Role.CAUSE
        return (not is_cause, -self.weight, self.time, self.finding.rule, self.finding.ranks)

    def is_elsewhere(self, other: Node) -> bool:
        """Whether both name places, and share no rank and no host."""
        mine, others = self.finding, other.finding
        named = {*mine.ranks, *mine.affected_ranks}
        if not named and not mine.hosts:
            return False
        if not others.ranks and not others.hosts:
            return False
        return named.isdisjoint(others.ranks) and set(mine.hosts).isdisjoint(others.hosts)

    def shares_a_rank(self, other: Node) -> bool:
        """Whether both blame the same rank."""
        return not set(self.finding.ranks).isdisjoint(other.finding.ranks)


def merge(findings: Iterable[Finding], rules: dict[str, Rule]) -> list[Node]:
    """One node for each cause and culprit: what several rules say about the same fault becomes one finding."""
    nodes = [_node(finding, rules[finding.rule]) for finding in findings]
    kept: list[Node] = []
    for node in sorted(nodes, key=lambda node: node.strength):
        for number, stronger in enumerate(kept):
            if not _are_two_defects(stronger, node) and _same_fault(stronger.finding, node.finding):
                kept[number] = _unite(stronger, node)
                break
        else:
            kept.append(node)
    return kept


def _node(finding: Finding, rule: Rule) -> Node:
    defect = "" if rule.affected is None else rule.id
    if rule.affected is None or finding.role is rule.role:
        return Node(finding, rule.weight, frozenset(rule.explains), rule.explains_late, defect)
    # a defect in a version that nobody knows: it accounts for nothing
    return Node(finding, min(rule.weight, UNSURE_WEIGHT), frozenset(), late=False, defect=defect)


def _are_two_defects(one: Node, other: Node) -> bool:
    """Known defects have one cause, and each its own version and remedy."""
    return bool(one.defect or other.defect) and one.defect != other.defect


def _same_fault(one: Finding, other: Finding) -> bool:
    if one.cause != other.cause:
        return False
    if one.ranks and other.ranks:
        return not set(one.ranks).isdisjoint(other.ranks)
    return not one.hosts or not other.hosts or not set(one.hosts).isdisjoint(other.hosts)


def _unite(stronger: Node, weaker: Node) -> Node:
    first, second = stronger.finding, weaker.finding
    ranks = first.ranks or second.ranks
    texts = {remedy.text for remedy in first.remedies}
    # a warning may be much older than the fault that it announces
    is_warning = second.role is Role.CONTRIBUTING and first.role is not Role.CONTRIBUTING
    timed = [one for one in ((first,) if is_warning else (first, second)) if one.time is not None]
    earliest = min(timed, key=lambda one: one.time or 0.0, default=None)
    finding = replace(
        first,
        ranks=ranks,
        hosts=first.hosts or second.hosts,
        affected_ranks=tuple(sorted({*first.affected_ranks, *second.affected_ranks} - set(ranks))),
        remedies=(*first.remedies, *(remedy for remedy in second.remedies if remedy.text not in texts)),
        evidence=unite_evidence(first.evidence, second.evidence),
        confidence=max(first.confidence, second.confidence),
        time=earliest.time if earliest else None,
        is_time_of_report=earliest is not None and earliest.is_time_of_report,
    )
    late = stronger.late or weaker.late
    return Node(finding, stronger.weight, stronger.explains | weaker.explains, late, stronger.defect)
