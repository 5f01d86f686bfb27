"""Tells how it came about: from the root cause to the last symptom, in causal order, with the delays between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND
from hangscope.model import Finding, Role, StoryStep
from hangscope.model.names import group_title
from hangscope.report.inputs import DiagnosisView, JobView, StuckView
from hangscope.report.launcher_ends import tell_of_launcher
from hangscope.report.spans import MEDIUM, count_words, rank_words
from hangscope.report.times import delay_words, iso_time, split_time

_EVIDENCE = 2


def tell_story(job: JobView, diagnosis: DiagnosisView) -> tuple[StoryStep, ...]:
    """The verdict, the calls that got stuck by it, and what it explains: by causal distance, then by time.

    Whom the launcher ended stands behind that, since it is the end of the job and of many a rank. Further causes that
    nothing explains come last, each with what it explains and nothing before it did.
    """
    verdict = diagnosis.verdict
    if verdict.cause == NO_FAULT_FOUND:
        return ()
    # A verdict that is made of a stuck call's own lines tells of that call already.
    told_at = {evidence.at for evidence in verdict.evidence}
    stuck = [_stuck_step(call) for call in job.stuck if not told_at & {evidence.at for evidence in call.evidence}]
    if verdict.cause == INSUFFICIENT_EVIDENCE:
        # Nothing is known to be first, so only the clock can order what was seen.
        return (*stuck, *(_finding_step(f) for f in _by_time(diagnosis.findings) if f != verdict))
    left = [finding for finding in diagnosis.findings if finding != verdict and not says_nothing(finding)]
    steps = [_finding_step(verdict), *stuck]
    left = _follow(verdict, left, diagnosis.findings, steps)
    by_launcher = tell_of_launcher(job, verdict)
    if by_launcher is not None:
        steps.append(by_launcher)
    # of a fault that is less likely it is too much to say that nothing else explains it
    for other in [f for f in left if f.explained_by is None and f.role is Role.CAUSE and f.confidence >= MEDIUM]:
        left = [finding for finding in left if finding is not other]
        steps.append(_finding_step(other, " (nothing above explains it)"))
        left = _follow(other, left, diagnosis.findings, steps)
    return tuple(steps)


def says_nothing(finding: Finding) -> bool:
    """Beside another verdict, that nothing was found or that evidence is thin tells nobody anything."""
    return finding.cause in (NO_FAULT_FOUND, INSUFFICIENT_EVIDENCE)


def _follow(root: Finding, left: list[Finding], findings: Sequence[Finding], steps: list[StoryStep]) -> list[Finding]:
    """Adds what a root explains, directly or not; gives back the findings that it does not explain."""
    told = {root.cause}
    level = {root.cause}
    while level:
        now = [finding for finding in left if finding.explained_by in level]
        left = [finding for finding in left if finding.explained_by not in level]
        steps += (_effect_step(finding, root, findings) for finding in _by_time(now))
        level = {finding.cause for finding in now} - told
        told |= level
    return left


def _by_time(findings: Iterable[Finding]) -> list[Finding]:
    """Unknown times last; the sort is stable, so the diagnosis' own order breaks ties."""
    return sorted(findings, key=lambda f: (_happened(f) is None, f.time or 0.0))


def _happened(finding: Finding) -> float | None:
    """When it happened; a report or dump that was taken later says only that it had happened by then."""
    return None if finding.is_time_of_report else finding.time


def _seen_words(finding: Finding) -> str:
    clock = split_time(iso_time(finding.time))[1]
    return f" (seen at {clock})" if finding.is_time_of_report and clock else ""


def _finding_step(finding: Finding, remark: str = "") -> StoryStep:
    ranks = finding.ranks or finding.affected_ranks
    text = f"{finding.title}{_seen_words(finding)}{remark}"
    return StoryStep(iso_time(_happened(finding)), ranks, text, finding.evidence[:_EVIDENCE], finding.cause)


def _effect_step(finding: Finding, root: Finding, findings: Sequence[Finding]) -> StoryStep:
    """What a finding led to: how much later than its cause, which is named where it is not the root."""
    cause = _cause_of(finding, findings)
    delay_s = None
    then, now = None if cause is None else _happened(cause), _happened(finding)
    if then is not None and now is not None:
        delay_s = now - then
    text = (
        finding.title
        + _seen_words(finding)
        + delay_words(delay_s, "later" if cause is root else f"after {finding.explained_by}")
    )
    ranks = finding.ranks or finding.affected_ranks
    evidence = finding.evidence[:_EVIDENCE]
    return StoryStep(iso_time(now), ranks, text, evidence, finding.cause, finding.explained_by, delay_s)


def _cause_of(finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """The finding that explains another: of several with that cause, the one that says so."""
    named = [one for one in findings if one.cause == finding.explained_by and one is not finding]
    said = [one for one in named if any(_is_about(effect.rule, effect.ranks, finding) for effect in one.explains)]
    return next(iter(said or named), None)


def _is_about(rule: str, ranks: Sequence[int], finding: Finding) -> bool:
    return rule == finding.rule and tuple(ranks) == (finding.ranks or finding.affected_ranks)


def _stuck_step(call: StuckView) -> StoryStep:
    text = f"{call.op or 'call'} {call.seq} of group {group_title(call.group, call.description)} does not complete"
    if call.missing:
        text += f": {rank_words(call.missing, most=40)} never came"
    if call.differing:
        text += f"{' and' if call.missing else ':'} {count_words(len(call.differing), 'rank')} called something else"
    return StoryStep(None, call.arrived, text, call.evidence[:_EVIDENCE])
