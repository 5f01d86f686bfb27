"""Tells how it came about: from the root cause to the last symptom, in causal order."""

from __future__ import annotations

from collections.abc import Iterable

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND
from hangscope.model import Finding, StoryStep
from hangscope.report.inputs import DiagnosisView, JobView, StuckView
from hangscope.report.spans import count_words, rank_words
from hangscope.report.times import iso_time

_EVIDENCE = 2


def tell_story(job: JobView, diagnosis: DiagnosisView) -> tuple[StoryStep, ...]:
    """The verdict, the calls that got stuck by it, and what it explains: by causal distance, then by time."""
    verdict = diagnosis.verdict
    if verdict.cause == NO_FAULT_FOUND:
        return ()
    # A verdict that is made of a stuck call's own lines tells of that call already.
    told_at = {evidence.at for evidence in verdict.evidence}
    stuck = [_stuck_step(call) for call in job.stuck if not told_at & {evidence.at for evidence in call.evidence}]
    if verdict.cause == INSUFFICIENT_EVIDENCE:
        # Nothing is known to be first, so only the clock can order what was seen.
        return (*stuck, *(_finding_step(f) for f in _by_time(diagnosis.findings) if f != verdict))
    steps = [_finding_step(verdict), *stuck]
    told = {verdict.cause}
    level = {verdict.cause}
    left = [finding for finding in diagnosis.findings if finding != verdict and not says_nothing(finding)]
    while level:
        now = [finding for finding in left if finding.explained_by in level]
        left = [finding for finding in left if finding.explained_by not in level]
        steps += (_finding_step(finding) for finding in _by_time(now))
        level = {finding.cause for finding in now} - told
        told |= level
    return tuple(steps)


def says_nothing(finding: Finding) -> bool:
    """Beside another verdict, that nothing was found or that evidence is thin tells nobody anything."""
    return finding.cause in (NO_FAULT_FOUND, INSUFFICIENT_EVIDENCE)


def _by_time(findings: Iterable[Finding]) -> list[Finding]:
    """Unknown times last; the sort is stable, so the diagnosis' own order breaks ties."""
    return sorted(findings, key=lambda f: (f.time is None, f.time or 0.0))


def _finding_step(finding: Finding) -> StoryStep:
    ranks = finding.ranks or finding.affected_ranks
    return StoryStep(iso_time(finding.time), ranks, finding.title, finding.evidence[:_EVIDENCE])


def _stuck_step(call: StuckView) -> StoryStep:
    text = f"{call.op} {call.seq} of group {call.group} does not complete"
    if call.missing:
        text += f": {rank_words(call.missing, most=40)} never came"
    if call.differing:
        text += f"{' and' if call.missing else ':'} {count_words(len(call.differing), 'rank')} called something else"
    return StoryStep(None, call.arrived, text, call.evidence[:_EVIDENCE])
