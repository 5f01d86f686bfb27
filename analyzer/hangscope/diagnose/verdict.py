"""Chooses the verdict: explains symptoms away by the causes behind them, and picks the deepest cause that is left."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hangscope.diagnose.catalogue import BOOKKEEPING_FAMILY, INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND, causes
from hangscope.diagnose.confidence import Gaps, confidence_of, is_order_sure
from hangscope.diagnose.defects import UNSURE_WEIGHT
from hangscope.diagnose.evaluate import unite_evidence
from hangscope.diagnose.rule import Rule
from hangscope.model import Consequence, Finding, Remedy, Role

CLEARLY_LATER_S = 5.0
"""A cause may be logged this much later than what it explains: ranks flush their logs, and clocks drift."""

_TIERS = (90, 80, 60, 40, 20)
"""Weights from which a finding is of a better tier; within a tier other things decide (see `Rule.weight`)."""

_MACHINE_TIER, _DIRECT_TIER = _TIERS.index(90), _TIERS.index(80)

_NOTE = "note"


@dataclass(frozen=True, slots=True)
class Edge:
    """One finding explains another; both are positions in `Diagnosis.findings`."""

    cause: int
    effect: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong with the job.

    Attributes:
        verdict: the root cause; one of the findings.
        findings: the verdict, further root causes, then what they explain, nearest first; each knows what it explains.
        edges: which finding explains which; there are no cycles.
    """

    verdict: Finding
    findings: tuple[Finding, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    """A finding together with what its rules know and the finding itself does not carry."""

    finding: Finding
    weight: int
    explains: frozenset[str]
    late: bool
    defect: str = ""

    @property
    def tier(self) -> int:
        return next((number for number, least in enumerate(_TIERS) if self.weight >= least), len(_TIERS))

    @property
    def time(self) -> float:
        return math.inf if self.finding.time is None else self.finding.time

    @property
    def strength(self) -> tuple[object, ...]:
        """Sorts the stronger of two findings in front: it keeps its text, and its edge where two explain each other."""
        is_cause = self.finding.role is Role.CAUSE
        return (not is_cause, -self.weight, self.time, self.finding.rule, self.finding.ranks)


def choose_verdict(
    findings: Iterable[Finding],
    rules: Iterable[Rule],
    *,
    gaps: Gaps | None = None,
    fallback: Finding | None = None,
) -> Diagnosis:
    """Orders findings by cause and effect and chooses the root cause.

    Among the findings that no other explains, a cause goes before a symptom or a contributing condition, which go
    before the verdicts that blame nobody, and these before contributing conditions of a weight below 20, which are
    notes; then the tier of the rule's weight decides, then how many findings it
    explains, then the earlier time, the weight itself, and the rule's id.

    Confidence is the rule's own, less what is missing (`confidence_of`): ranks, last lines, clocks that tell which of
    two causes came first, and agreement when an unexplained cause of the same tier contradicts it.

    Args:
        findings: as `evaluate` returns them.
        rules: the rules they come from.
        gaps: what the evidence lacks; by default nothing.
        fallback: the verdict when there are no findings; by default, insufficient evidence.
    """
    nodes = _merge(findings, {rule.id: rule for rule in rules})
    if not nodes:
        verdict = fallback or no_findings()
        return Diagnosis(verdict, (verdict,), ())
    if all(_rank_of(node) == _NOTE for node in nodes):
        nodes.append(_Node(fallback or no_findings(), 0, frozenset(), late=False))
    causes_of = _explain(nodes)
    order = _order(nodes, causes_of)
    roots = [number for number in order if not causes_of[number]]
    position = {number: at for at, number in enumerate(order)}
    effects: dict[int, list[int]] = {number: [] for number in order}
    for effect in order:
        for cause in causes_of[effect]:
            effects[cause].append(effect)
    findings_out = tuple(
        replace(
            nodes[number].finding,
            confidence=_confidence(number, nodes, roots, causes_of, gaps or Gaps()),
            explained_by=_explained_by(number, nodes, causes_of, position),
            explains=tuple(_consequence(nodes[number], nodes[effect]) for effect in effects[number]),
        )
        for number in order
    )
    edges = [Edge(position[cause], position[effect]) for effect, found in enumerate(causes_of) for cause in found]
    return Diagnosis(findings_out[0], findings_out, tuple(sorted(edges, key=lambda edge: (edge.cause, edge.effect))))


def no_findings() -> Finding:
    """The verdict when no rule has anything to say."""
    return Finding(
        cause=INSUFFICIENT_EVIDENCE,
        role=Role.CAUSE,
        title="The evidence shows no reason for a hang",
        ranks=(),
        affected_ranks=(),
        hosts=(),
        confidence=0.3,
        explanation="Nothing in these logs tells a fault, a stuck call or a normal end of the job.",
        remedies=(
            Remedy("Collect the logs of every rank, and the stacks of those that hang.", "py-spy dump --pid PID"),
        ),
        evidence=(),
        rule="",
    )


def _merge(findings: Iterable[Finding], rules: dict[str, Rule]) -> list[_Node]:
    """One node for each cause and culprit: what several rules say about the same fault becomes one finding."""
    nodes = [_node(finding, rules[finding.rule]) for finding in findings]
    kept: list[_Node] = []
    for node in sorted(nodes, key=lambda node: node.strength):
        for number, stronger in enumerate(kept):
            if not _are_two_defects(stronger, node) and _same_fault(stronger.finding, node.finding):
                kept[number] = _unite(stronger, node)
                break
        else:
            kept.append(node)
    return kept


def _node(finding: Finding, rule: Rule) -> _Node:
    defect = "" if rule.affected is None else rule.id
    if rule.affected is None or finding.role is rule.role:
        return _Node(finding, rule.weight, frozenset(rule.explains), rule.explains_late, defect)
    # a defect in a version that nobody knows: it accounts for nothing
    return _Node(finding, min(rule.weight, UNSURE_WEIGHT), frozenset(), late=False, defect=defect)


def _are_two_defects(one: _Node, other: _Node) -> bool:
    """Known defects have one cause, and each its own version and remedy."""
    return bool(one.defect or other.defect) and one.defect != other.defect


def _same_fault(one: Finding, other: Finding) -> bool:
    if one.cause != other.cause:
        return False
    if one.ranks and other.ranks:
        return not set(one.ranks).isdisjoint(other.ranks)
    return not one.hosts or not other.hosts or not set(one.hosts).isdisjoint(other.hosts)


def _unite(stronger: _Node, weaker: _Node) -> _Node:
    first, second = stronger.finding, weaker.finding
    ranks = first.ranks or second.ranks
    texts = {remedy.text for remedy in first.remedies}
    times = [time for time in (first.time, second.time) if time is not None]
    finding = replace(
        first,
        ranks=ranks,
        hosts=first.hosts or second.hosts,
        affected_ranks=tuple(sorted({*first.affected_ranks, *second.affected_ranks} - set(ranks))),
        remedies=(*first.remedies, *(remedy for remedy in second.remedies if remedy.text not in texts)),
        evidence=unite_evidence(first.evidence, second.evidence),
        confidence=max(first.confidence, second.confidence),
        time=min(times, default=None),
    )
    late = stronger.late or weaker.late
    return _Node(finding, stronger.weight, stronger.explains | weaker.explains, late, stronger.defect)


def _explain(nodes: Sequence[_Node]) -> list[set[int]]:
    """For each node the nodes that explain it directly; the stronger of two that explain each other wins."""
    causes_of: list[set[int]] = [set() for _ in nodes]
    for cause in sorted(range(len(nodes)), key=lambda number: nodes[number].strength):
        for effect in range(len(nodes)):
            # An effect that already stands behind its cause would close a circle.
            is_new = effect != cause and effect not in _behind(cause, causes_of)
            if is_new and _may_explain(nodes[cause], nodes[effect]):
                causes_of[effect].add(cause)
    return causes_of


def _may_explain(cause: _Node, effect: _Node) -> bool:
    if effect.finding.cause not in cause.explains:
        return False
    if _speaks_for_itself(cause, effect):
        return False
    known = cause.finding.time is not None and effect.finding.time is not None
    return cause.late or not known or cause.time <= effect.time + CLEARLY_LATER_S


def _speaks_for_itself(cause: _Node, effect: _Node) -> bool:
    """Whether ranks say their own reason, and a cause that is only inferred names others and none of them.

    Such a cause may be true as well; it is no reason to disbelieve what a rank says of itself.
    """
    own, other = effect.finding, cause.finding
    if own.role is not Role.CAUSE or not own.ranks or effect.tier > _DIRECT_TIER or cause.tier <= _DIRECT_TIER:
        return False
    named = {*other.ranks, *other.affected_ranks}
    is_elsewhere = bool(named) and named.isdisjoint(own.ranks)
    return is_elsewhere and (not other.hosts or set(other.hosts).isdisjoint(own.hosts))


def _behind(number: int, causes_of: Sequence[set[int]]) -> set[int]:
    """Everything that explains a node, directly or not."""
    found: set[int] = set()
    waiting = list(causes_of[number])
    while waiting:
        cause = waiting.pop()
        if cause not in found:
            found.add(cause)
            waiting += causes_of[cause]
    return found


def _order(nodes: Sequence[_Node], causes_of: Sequence[set[int]]) -> list[int]:
    """The verdict, the other unexplained findings, then the explained ones, by how much stands behind them."""
    behind = [_behind(number, causes_of) for number in range(len(nodes))]
    explained = [sum(number in found for found in behind) for number in range(len(nodes))]
    unexplained = [node for node, found in zip(nodes, causes_of, strict=True) if not found]
    standing = _standing(unexplained)

    def preference(number: int) -> tuple[object, ...]:
        node = nodes[number]
        depth = len(behind[number])
        place = (standing[_rank_of(node)], node.tier, -explained[number], node.time, -node.weight)
        return (depth, *place, node.finding.rule, node.finding.ranks)

    return sorted(range(len(nodes)), key=preference)


def _rank_of(node: _Node) -> str:
    """What kind of answer a finding is: its role, or its cause when it blames nobody; or no answer, only a note."""
    if node.finding.role is Role.CONTRIBUTING and node.weight < _TIERS[-1]:
        return _NOTE
    known = causes().get(node.finding.cause)
    return node.finding.cause if known and known.family == BOOKKEEPING_FAMILY else node.finding.role


def _standing(unexplained: Sequence[_Node]) -> dict[str, int]:
    """Which kinds of answers go first. A job that is well despite a contributing condition has no fault."""
    is_well = not any(_rank_of(node) in (Role.CAUSE, Role.SYMPTOM) for node in unexplained)
    return {
        Role.CAUSE: 0,
        Role.SYMPTOM: 2,
        Role.CONTRIBUTING: 2,
        NO_FAULT_FOUND: 1 if is_well else 3,
        INSUFFICIENT_EVIDENCE: 4,
        _NOTE: 5,
    }


def _explained_by(
    number: int, nodes: Sequence[_Node], causes_of: Sequence[set[int]], position: dict[int, int]
) -> str | None:
    """The direct cause that stands first in the report, so a root where there is one."""
    if not causes_of[number]:
        return None
    return nodes[min(causes_of[number], key=position.__getitem__)].finding.cause


def _consequence(cause: _Node, effect: _Node) -> Consequence:
    found = effect.finding
    known = cause.finding.time is not None and found.time is not None
    delay_s = effect.time - cause.time if known else None
    return Consequence(found.cause, found.rule, found.ranks or found.affected_ranks, delay_s)


def _confidence(
    number: int, nodes: Sequence[_Node], roots: Sequence[int], causes_of: Sequence[set[int]], gaps: Gaps
) -> float:
    node = nodes[number]
    rivals = [nodes[other] for other in roots if other != number] if number in roots else []
    # of two that explain each other, the time may have decided which is the cause
    turned = [nodes[effect] for effect, found in enumerate(causes_of) if number in found]
    turned = [other for other in turned if node.finding.cause in other.explains and other.weight == node.weight]
    equals = [other for other in rivals if _rank_of(other) == _rank_of(node) and other.tier == node.tier]
    return confidence_of(
        node.finding,
        gaps,
        direct=node.tier <= _DIRECT_TIER,
        machine=node.tier <= _MACHINE_TIER,
        contradicted=any(_conflicts(node, other) for other in rivals),
        order_unsure=not all(is_order_sure(node.finding, other.finding, gaps.clocks) for other in (*equals, *turned)),
    )


def _conflicts(node: _Node, other: _Node) -> bool:
    is_cause = _rank_of(node) == _rank_of(other) == Role.CAUSE
    return is_cause and node.tier == other.tier and node.finding.cause != other.finding.cause
