"""Chooses the verdict: explains symptoms away by the causes behind them, and picks the deepest cause that is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hangscope.diagnose.catalogue import BOOKKEEPING_FAMILY, INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND, causes
from hangscope.diagnose.causality import behind, explain
from hangscope.diagnose.confidence import Gaps, confidence_of, is_order_sure
from hangscope.diagnose.nodes import DIRECT_TIER, MACHINE_TIER, TIERS, Node, merge
from hangscope.diagnose.quoted import is_only_quoted
from hangscope.diagnose.rule import Rule
from hangscope.model import Consequence, Evidence, Finding, Remedy, Role
from hangscope.records import dataclass

_NOTE = "note"

_FIRST_BY_S = 60.0
"""So much earlier, elsewhere, a stated fault came first, however deep the later one is: that one began nothing."""

_DRIFT_S = 1500.0
"""No clock of a cluster is off by more; time zones are at least half an hour apart."""

_SURE_OF_END = 0.75
"""So sure are the rules that see every rank, or the program, end; those that only see nothing wrong are less so."""


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


def choose_verdict(
    findings: Iterable[Finding],
    rules: Iterable[Rule],
    *,
    gaps: Gaps | None = None,
    fallback: Finding | None = None,
) -> Diagnosis:
    """Orders findings by cause and effect and chooses the root cause.

    Among the findings that no other explains, a cause goes before a symptom or a contributing condition, which go
    before the verdicts that blame nobody, and these before notes (conditions of a weight below 20). Of causes that a
    rank, kernel or device states itself, one that another place stated a minute before goes behind that one. Then the
    tier of the rule's weight decides, then how many findings it explains, then the earlier time, the weight itself,
    and the rule's id.

    Confidence is the rule's own, less what is missing (`confidence_of`): ranks, last lines, clocks that tell which of
    two causes came first, and agreement when an unexplained cause of the same tier contradicts it.

    Args:
        findings: as `evaluate` returns them.
        rules: the rules they come from.
        gaps: what the evidence lacks; by default nothing.
        fallback: the verdict when there are no findings; by default, insufficient evidence.
    """
    nodes = merge(findings, {rule.id: rule for rule in rules})
    if not nodes:
        verdict = fallback or no_findings()
        return Diagnosis(verdict, (verdict,), ())
    if all(_rank_of(node) == _NOTE for node in nodes):
        nodes.append(Node(fallback or no_findings(), 0, frozenset(), late=False))
    causes_of = explain(nodes)
    order = _order(nodes, causes_of)
    roots = [number for number in order if not causes_of[number]]
    position = {number: at for at, number in enumerate(order)}
    effects: dict[int, list[int]] = {number: [] for number in order}
    for effect in order:
        for cause in causes_of[effect]:
            effects[cause].append(effect)
    lacks = gaps or Gaps()
    unsure = {number: _unsure_order(number, nodes, roots, causes_of, lacks) for number in order}
    findings_out = tuple(
        replace(
            nodes[number].finding,
            confidence=_confidence(number, nodes, roots, lacks, order_unsure=bool(unsure[number])),
            explanation=_with_doubt(
                nodes[number].finding, unsure[number], ended_well=_ended_well(number, nodes, roots)
            ),
            explained_by=_explained_by(number, nodes, causes_of, position),
            explains=tuple(_consequence(nodes[number], nodes[effect]) for effect in effects[number]),
        )
        for number in order
    )
    edges = [Edge(position[cause], position[effect]) for effect, found in enumerate(causes_of) for cause in found]
    return Diagnosis(findings_out[0], findings_out, tuple(sorted(edges, key=lambda edge: (edge.cause, edge.effect))))


def no_findings(evidence: tuple[Evidence, ...] = ()) -> Finding:
    """The verdict when no rule has anything to say.

    Args:
        evidence: where the logs end.
    """
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
        evidence=evidence,
        rule="",
    )


def _order(nodes: Sequence[Node], causes_of: Sequence[set[int]]) -> list[int]:
    """The verdict, the other unexplained findings, then the explained ones, by how much stands behind them."""
    reasons = [behind(number, causes_of) for number in range(len(nodes))]
    explained = [sum(number in found for found in reasons) for number in range(len(nodes))]
    unexplained = [node for node, found in zip(nodes, causes_of, strict=True) if not found]
    standing = _standing(unexplained)

    def preference(number: int) -> tuple[object, ...]:
        node = nodes[number]
        stated = max(node.tier, DIRECT_TIER)
        late = any(_comes_after(node, other) for other in unexplained)
        place = (standing[_rank_of(node)], stated, late, node.tier, -explained[number], node.time, -node.weight)
        return (len(reasons[number]), *place, node.finding.rule, node.finding.ranks)

    return sorted(range(len(nodes)), key=preference)


def _comes_after(node: Node, other: Node) -> bool:
    """Whether a fault that is stated was clearly not the first: another one was stated elsewhere long before.

    Times of another clock (a kernel's) that are further apart than clocks drift may be of another time zone.
    """
    if max(node.tier, other.tier) > DIRECT_TIER or not _rank_of(node) == _rank_of(other) == Role.CAUSE:
        return False
    if node.finding.time is None or other.finding.time is None or not node.is_elsewhere(other):
        return False
    gap_s = node.time - other.time
    return gap_s > _FIRST_BY_S and not (gap_s > _DRIFT_S and (node.late or other.late))


def _rank_of(node: Node) -> str:
    """What kind of answer a finding is: its role, or its cause when it blames nobody; or no answer, only a note."""
    if node.finding.role is Role.CONTRIBUTING and node.weight < TIERS[-1]:
        return _NOTE
    known = causes().get(node.finding.cause)
    return node.finding.cause if known and known.family == BOOKKEEPING_FAMILY else node.finding.role


def _standing(unexplained: Sequence[Node]) -> dict[str, int]:
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
    number: int, nodes: Sequence[Node], causes_of: Sequence[set[int]], position: dict[int, int]
) -> str | None:
    """The direct cause that stands first in the report, so a root where there is one."""
    if not causes_of[number]:
        return None
    return nodes[min(causes_of[number], key=position.__getitem__)].finding.cause


def _consequence(cause: Node, effect: Node) -> Consequence:
    found = effect.finding
    known = not any(one.time is None or one.is_time_of_report for one in (cause.finding, found))
    delay_s = effect.time - cause.time if known else None
    return Consequence(found.cause, found.rule, found.ranks or found.affected_ranks, delay_s)


def _unsure_order(
    number: int, nodes: Sequence[Node], roots: Sequence[int], causes_of: Sequence[set[int]], gaps: Gaps
) -> list[Finding]:
    """Those that only the time puts before or behind this one, by less than the clocks of their hosts vouch for."""
    node = nodes[number]
    rivals = [nodes[other] for other in roots if other != number] if number in roots else []
    equals = [other for other in rivals if _rank_of(other) == _rank_of(node) and other.tier == node.tier]
    # of two that explain each other, the time may have decided which is the cause
    turned = [nodes[effect] for effect, found in enumerate(causes_of) if number in found]
    turned = [other for other in turned if node.finding.cause in other.explains and other.weight == node.weight]
    others = [other.finding for other in (*equals, *turned)]
    return [other for other in others if not is_order_sure(node.finding, other, gaps.clocks)]


def _ended_well(number: int, nodes: Sequence[Node], roots: Sequence[int]) -> bool:
    """Whether a finding accuses somebody while all ranks, or the program, say that they ended in order."""
    if number not in roots or _rank_of(nodes[number]) not in (Role.CAUSE, Role.SYMPTOM):
        return False
    others = (nodes[other] for other in roots)
    return any(_rank_of(other) == NO_FAULT_FOUND and other.finding.confidence >= _SURE_OF_END for other in others)


def _with_doubt(finding: Finding, others: Sequence[Finding], *, ended_well: bool) -> str:
    """The explanation, and what speaks against it: its lines only quote, the job ended well, another came first."""
    doubts = [finding.explanation]
    if is_only_quoted(finding):
        doubts.append("The line stands in a text that quotes messages, so it may be about another job.")
    if ended_well:
        doubts.append("All the same the job says that it ended in order: it may have got over this.")
    if others:
        doubts.append(_doubt_of_order(finding, others))
    return " ".join(doubt for doubt in doubts if doubt).strip()


def _doubt_of_order(finding: Finding, others: Sequence[Finding]) -> str:
    """Which other finding may have come first all the same."""
    if finding.time is None:
        return ""
    other = others[0]
    apart_s = abs((other.time or 0.0) - finding.time)
    where = f" on {', '.join(other.hosts)}" if other.hosts else ""
    doubt = f"Whether it came before {other.cause}{where} is not certain"
    return f"{doubt}: by the logs' clocks they are {apart_s:.1f} s apart."


def _confidence(number: int, nodes: Sequence[Node], roots: Sequence[int], gaps: Gaps, *, order_unsure: bool) -> float:
    node = nodes[number]
    rivals = [nodes[other] for other in roots if other != number] if number in roots else []
    return confidence_of(
        node.finding,
        gaps,
        direct=node.tier <= DIRECT_TIER,
        machine=node.tier <= MACHINE_TIER,
        # a fault that came long after this one does not put it in doubt
        contradicted=any(_conflicts(node, other) and not _comes_after(other, node) for other in rivals),
        order_unsure=order_unsure,
        ended_well=_ended_well(number, nodes, roots),
    )


def _conflicts(node: Node, other: Node) -> bool:
    is_cause = _rank_of(node) == _rank_of(other) == Role.CAUSE
    return is_cause and node.tier == other.tier and node.finding.cause != other.finding.cause
