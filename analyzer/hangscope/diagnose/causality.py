"""Which finding explains which: by the rules' own word, by time, and by where each of them is."""

from __future__ import annotations

from collections.abc import Sequence

from hangscope.diagnose.nodes import DIRECT_TIER, Node
from hangscope.model import Role

CLEARLY_LATER_S = 5.0
"""A cause may be logged this much later than what it explains: ranks flush their logs, and clocks drift."""


def explain(nodes: Sequence[Node]) -> list[set[int]]:
    """For each node the nodes that explain it directly; the stronger of two that explain each other wins."""
    causes_of: list[set[int]] = [set() for _ in nodes]
    for cause in sorted(range(len(nodes)), key=lambda number: nodes[number].strength):
        for effect in range(len(nodes)):
            # An effect that already stands behind its cause would close a circle.
            is_new = effect != cause and effect not in behind(cause, causes_of)
            if is_new and _may_explain(nodes[cause], nodes[effect]):
                causes_of[effect].add(cause)
    return _without_far_causes(nodes, causes_of)


def _may_explain(cause: Node, effect: Node) -> bool:
    if effect.finding.cause not in cause.explains:
        return False
    known = cause.finding.time is not None and effect.finding.time is not None
    is_late = known and cause.time > effect.time + CLEARLY_LATER_S
    if _speaks_for_itself(effect) and cause.is_elsewhere(effect):
        return cause.tier <= DIRECT_TIER and not is_late
    return cause.late or not is_late


def _speaks_for_itself(node: Node) -> bool:
    """Whether a rank, kernel or device states its own reason.

    What is only inferred about others is no reason to disbelieve it, nor is what happened elsewhere later.
    """
    return node.finding.role is Role.CAUSE and node.tier <= DIRECT_TIER


def _without_far_causes(nodes: Sequence[Node], causes_of: Sequence[set[int]]) -> list[set[int]]:
    """What a rank's own fault explains on that rank needs no fault of another place as well."""
    kept = []
    for effect, found in enumerate(causes_of):
        near = {cause for cause in found if nodes[cause].shares_a_rank(nodes[effect])}
        far = {cause for cause in found - near if nodes[cause].is_elsewhere(nodes[effect])} if near else set()
        kept.append(found - far)
    return kept


def behind(number: int, causes_of: Sequence[set[int]]) -> set[int]:
    """Everything that explains a node, directly or not."""
    found: set[int] = set()
    waiting = list(causes_of[number])
    while waiting:
        cause = waiting.pop()
        if cause not in found:
            found.add(cause)
            waiting += causes_of[cause]
    return found
