"""Facts about Horovod's stall reports: who did not submit what others wait for, and who waits for something else.

Up to 0.15 a report lists the ranks that are ready for a tensor, then those that are missing, a tensor after the other
("name [missing ranks: 1]"); from 0.17 on the tensors that each missing rank did not submit ("1: [name, name ...]").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.world import size_in
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.progress import numbers
from hangscope.model import Event, Fact, Value
from hangscope.records import dataclass

KINDS = {
    "horovod_not_submitted": FactKind(
        ("tensor",), "Horovod names ranks that did not submit what their peers wait for, and that wait for nothing."
    ),
    "horovod_submitted_apart": FactKind(
        ("tensor", "others", "tie"), "Ranks wait in one tensor for their peers, which wait in another tensor for them."
    ),
}
_LISTED = expression(r"(?P<tensor>[\w.\-/:]{1,200}) \[(?P<which>ready|missing) ranks: (?P<ranks>\d+(?:[ ,]+\d+)*)\]")


@dataclass(slots=True)
class _Stall:
    """One tensor that waits."""

    tensor: str
    missing: set[int]
    event: Event


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    stalls = list(_stalls(job))
    if not stalls:
        return
    apart = _apart(stalls, job)
    if apart is not None:
        yield apart
        return
    reports = job.events.of("horovod_stall")
    missing: dict[int, list[_Stall]] = defaultdict(list)
    for stall in stalls:
        for rank in stall.missing:
            missing[rank].append(stall)
    most = max(len(found) for found in missing.values()) if missing else 0
    for rank, found in sorted(missing.items()):
        if any(rank not in stall.missing for stall in stalls) and len(found) < most:
            # it submitted some of them: rather slow than absent
            continue
        evidence = tuple(evidence_of(e) for e in [*{id(s.event): s.event for s in found[:3]}.values(), *reports[:2]])
        yield Fact(
            "horovod_not_submitted",
            {"tensor": found[0].tensor},
            ranks=(rank,),
            time=found[0].event.time,
            evidence=evidence,
        )


def _stalls(job: Job) -> Iterator[_Stall]:
    listed = [
        (event, found)
        for event in job.events.of("horovod_missing", "horovod_ready", "horovod_stall")
        for found in _LISTED.finditer(event.line.text)
    ]
    known = {rank for _, found in listed for rank in numbers(found["ranks"])} | set(job.ranks)
    world = set(range(job.world_size or size_in(max(known, default=-1) + 1)))
    for event, found in listed:
        ranks = set(numbers(found["ranks"]))
        missing = ranks if found["which"] == "missing" else world - ranks
        if missing:
            yield _Stall(found["tensor"], missing, event)
    if job.events.has("horovod_missing_heading"):
        for event in job.events.of("horovod_missing_rank"):
            rank = event.number("missing_rank")
            if rank is not None:
                yield _Stall(str(event.fields.get("tensors", "")), {rank}, event)


def _apart(stalls: list[_Stall], job: Job) -> Fact | None:
    """Two tensors of one report of which each is missing on just those ranks that submitted the other."""
    listed = [stall for stall in stalls if stall.event.kind != "horovod_missing_rank"]
    world = set(range(job.world_size or 0)) or {rank for stall in listed for rank in stall.missing}
    for one in listed:
        other = next((o for o in listed if o.missing == world - one.missing and o.missing != one.missing), None)
        if other is None or not one.missing or one.missing | other.missing != world:
            continue
        few, many = sorted((one, other), key=lambda stall: (len(world - stall.missing), min(world - stall.missing)))
        fields: dict[str, Value] = {
            "tensor": few.tensor,
            "others": many.tensor,
            "tie": len(few.missing) == len(many.missing),
        }
        events = {id(e): e for e in (few.event, many.event)}.values()
        return Fact(
            "horovod_submitted_apart",
            fields,
            ranks=tuple(sorted(world - few.missing)),
            affected=tuple(sorted(few.missing)),
            time=few.event.time,
            evidence=tuple(evidence_of(e) for e in [*events, *job.events.of("horovod_stall")[:2]]),
        )
    return None
