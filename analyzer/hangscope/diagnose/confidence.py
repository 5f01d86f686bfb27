"""How sure a finding is: what its rule says, less what is missing from the evidence."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from hangscope.align.clocks import Clocks
from hangscope.diagnose.quoted import is_only_quoted
from hangscope.model import Finding
from hangscope.records import dataclass

LOWEST_CONFIDENCE, HIGHEST_CONFIDENCE = 0.05, 0.99

_DIRECT_FLOOR, _INFERRED_FLOOR = 0.75, 0.5
_CONFLICT_FACTOR = 0.8
_ORDER_FACTOR = 0.85
_CUT_FACTOR = 0.85
_MIXED_FACTOR = 0.75
_QUOTED_FACTOR = 0.6
_ENDED_WELL_FACTOR = 0.75


@dataclass(frozen=True, slots=True)
class Gaps:
    """What the evidence of a job lacks.

    Attributes:
        coverage: share of the job's ranks whose evidence is there, 0 to 1.
        cut: files whose last lines are lost.
        clocks: the clocks of the job's hosts; None when all of it ran on one.
        mixed: the inputs seem to be of several jobs.
    """

    coverage: float = 1.0
    cut: Collection[str] = field(default_factory=frozenset)
    clocks: Clocks | None = None
    mixed: bool = False


def confidence_of(
    finding: Finding,
    gaps: Gaps,
    *,
    direct: bool,
    machine: bool,
    contradicted: bool,
    order_unsure: bool,
    ended_well: bool = False,
) -> float:
    """The confidence of a finding among the others, 0.05 to 0.99.

    Missing ranks take up to a quarter from what a rank, kernel or device says itself, and up to half from what is
    inferred from nobody saying otherwise. Lost last lines of a file that the finding cites take 0.15 of it, unless
    hardware or kernel speak: what a rank said next may have been the reason of what it said last. A finding whose lines
    all quote their message (`is_only_quoted`) loses 0.4 of it, and one against which all ranks ended in order 0.25; so
    does every finding where several jobs are mixed.

    Args:
        finding: as its rule made it.
        gaps: what the evidence lacks.
        direct: a rank, kernel or device says it itself.
        machine: the kernel or a device says it.
        contradicted: another cause of its depth stands beside it, and neither explains the other.
        order_unsure: it goes before another one only by a time that the hosts' clocks do not vouch for.
        ended_well: it accuses somebody, and all ranks say that they ended in order.
    """
    floor = _DIRECT_FLOOR if direct else _INFERRED_FLOOR
    confidence = finding.confidence * (floor + (1 - floor) * min(1.0, max(0.0, gaps.coverage)))
    if contradicted:
        confidence *= _CONFLICT_FACTOR
    if order_unsure:
        confidence *= _ORDER_FACTOR
    if not machine and any(evidence.at.file in gaps.cut for evidence in finding.evidence):
        confidence *= _CUT_FACTOR
    if gaps.mixed:
        confidence *= _MIXED_FACTOR
    if is_only_quoted(finding):
        confidence *= _QUOTED_FACTOR
    if ended_well:
        confidence *= _ENDED_WELL_FACTOR
    return round(min(HIGHEST_CONFIDENCE, max(LOWEST_CONFIDENCE, confidence)), 2)


def is_order_sure(first: Finding, second: Finding, clocks: Clocks | None) -> bool:
    """Whether the times of two findings tell which came first; True where there is nothing to tell."""
    if clocks is None or first.time is None or second.time is None:
        return True
    return abs(first.time - second.time) >= clocks.uncertainty_s(first.hosts, second.hosts)
