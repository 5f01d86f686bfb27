"""Attaches what NCCL and PyTorch warned of, and what no rule concludes anything from, to the finding it belongs to.

A warning belongs to the finding that cites lines of the same process nearest to it, in time where both lines carry
one, else by their place in the file. Levels are those of the headers: NCCL's WARN, ATTN (2.32.3 and later) and ABORT
(up to 2.6.4), c10's W, E and F.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND
from hangscope.model import Event, Evidence, Finding
from hangscope.parse.complaints import template_of
from hangscope.records import dataclass
from hangscope.report.inputs import JobView

_LEVELS = {"nccl": frozenset({"WARN", "ATTN", "ABORT"}), "c10": frozenset({"W", "E", "F"})}
_SPEAKERS = {"nccl": "NCCL", "c10": "PyTorch"}
# c10 warns of much that healthy jobs do; what a grammar knows of it is not worth a line
_ONLY_UNKNOWN = frozenset({"W"})
_NEAR_S = 60.0
_NEAR_LINES = 500
_MOST = 8

_Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Cited:
    """A line that a finding cites, in the process that printed it."""

    finding: int
    event: Event


def with_what_was_said(job: JobView, findings: Sequence[Finding], verdict: int) -> tuple[Finding, ...]:
    """The findings with `also_said` filled in: no line twice, none that a finding cites, few of each finding.

    Where too little is known to name a cause, the verdict gets the warnings of all processes.

    Args:
        job: the aligned job.
        findings: in the order of the report.
        verdict: which of them is the verdict.
    """
    if findings[verdict].cause == NO_FAULT_FOUND:
        return tuple(findings)
    cited = _cited_places(findings)
    takes_all = findings[verdict].cause == INSUFFICIENT_EVIDENCE
    concerned = {id(job.ranks.get(r)) for r in (*findings[verdict].ranks, *findings[verdict].affected_ranks)}
    said: dict[int, list[tuple[Event, str]]] = {}
    files = {file for file, _ in cited}
    for process in job.processes:
        # few files are cited, and a job has thousands
        own = () if files.isdisjoint(process.files) else process.events
        known = [_Cited(n, event) for event in own for n in cited.get(_place(event), ())]
        default = verdict if takes_all or id(process) in concerned else None
        if not known and default is None:
            continue
        for event, wording in _warnings(process.events, cited, known):
            finding = _nearest(event, known, default)
            if finding is not None:
                said.setdefault(finding, []).append((event, wording))
    return tuple(
        replace(finding, also_said=tuple(_evidence(said[number]))) if number in said else finding
        for number, finding in enumerate(findings)
    )


def _cited_places(findings: Sequence[Finding]) -> dict[_Place, list[int]]:
    found: dict[_Place, list[int]] = {}
    for number, finding in enumerate(findings):
        for evidence in finding.evidence:
            if evidence.at.line is not None:
                found.setdefault((evidence.at.file, evidence.at.line), []).append(number)
    return found


def _place(event: Event) -> _Place:
    return event.line.file, event.line.number


def _warnings(
    events: Iterable[Event], cited: dict[_Place, list[int]], known: Sequence[_Cited]
) -> Iterator[tuple[Event, str]]:
    """The warnings of a process that are not cited, and no more of what is: each wording once, with it."""
    wordings = {template_of(one.event.line.text) for one in known}
    kinds = {one.event.kind for one in known}
    for event in events:
        line = event.line
        if line.level not in _LEVELS.get(line.header, ()) or line.damaged or _place(event) in cited:
            continue
        if line.level in _ONLY_UNKNOWN and event.source != "any":
            continue
        wording = template_of(line.text)
        if wording in wordings or (event.kind in kinds and event.source != "any"):
            continue
        wordings.add(wording)
        yield event, wording


def _nearest(event: Event, known: Sequence[_Cited], default: int | None) -> int | None:
    """The finding whose line stands nearest to the warning, if it is near."""
    distances = [(distance, one.finding) for one in known if (distance := _distance(event, one.event)) is not None]
    return min(distances)[1] if distances else default


def _distance(one: Event, other: Event) -> tuple[float, int] | None:
    """Seconds, where both lines carry a time, and lines between them; None when that is far."""
    lines = abs(one.line.number - other.line.number) if one.line.file == other.line.file else _NEAR_LINES
    if one.time is not None and other.time is not None:
        apart = abs(one.time - other.time)
        return (apart, lines) if apart <= _NEAR_S else None
    return (0.0, lines) if one.line.file == other.line.file and lines <= _NEAR_LINES else None


def _moment(one: tuple[Event, str]) -> tuple[bool, float, str, int]:
    event, _ = one
    return event.time is None, event.time or 0.0, event.line.file, event.line.number


def _evidence(said: Sequence[tuple[Event, str]]) -> Iterator[Evidence]:
    """The warnings in order of time, each wording once, whoever says it."""
    seen: set[str] = set()
    for event, wording in sorted(said, key=_moment):
        if wording not in seen and len(seen) < _MOST:
            seen.add(wording)
            times = f", {event.count} times" if event.count > 1 else ""
            yield Evidence(event.line.location, event.line.raw, f"{_SPEAKERS[event.line.header]} warned{times}")
