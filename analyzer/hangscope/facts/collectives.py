"""Facts about collectives that cannot complete, from NCCL's call lines (NCCL_DEBUG_SUBSYS=COLL) of all ranks."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.collectives import Parting, StuckCall
from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.model import Fact, Value

_FIELDS = ("seq", "op", "expected", "found", "tie", "reliable", "arrived", "missing")
KINDS = {
    "call_missing": FactKind(_FIELDS, "Ranks that wait nowhere else have not made a call in which their peers wait."),
    "call_skipped": FactKind(
        _FIELDS, "A rank left out a call that its peers made: its later calls are theirs, shifted."
    ),
    "call_extra": FactKind(_FIELDS, "A rank made a call that its peers did not make; after it the calls agree again."),
    "call_op_differs": FactKind(_FIELDS, "At one call of a group a rank called another operation, root or reduction."),
    "call_size_differs": FactKind(_FIELDS, "At one call of a group a rank called with another count or data type."),
    "p2p_call_unmatched": FactKind(
        _FIELDS, "A send has no recv at its peer, or a recv no send, and nothing else holds the peer."
    ),
    "wait_cycle": FactKind(("groups", "size"), "Ranks wait for each other across two or more communicators."),
}
_BY_PARTING = {
    Parting.SKIPPED: "call_skipped",
    Parting.EXTRA: "call_extra",
    Parting.OPERATION: "call_op_differs",
    Parting.SIZE: "call_size_differs",
}


def find(job: Job) -> Iterator[Fact]:
    """Facts about the stuck calls: mismatches, and the ends of the wait-for graph."""
    for call in job.stuck:
        # what flight recorders show is told by `facts.recordings`
        if call.parting in _BY_PARTING and call.source != "recorder":
            yield _fact(_BY_PARTING[call.parting], call, call.odd, job)
    for call, ranks in job.waits.roots:
        if call.parting is Parting.P2P:
            yield _fact("p2p_call_unmatched", call, call.odd, job)
        else:
            yield _fact("call_missing", call, ranks, job)
    yield from _cycles(job)


def _cycles(job: Job) -> Iterator[Fact]:
    for ring, ranks in job.waits.cycles:
        waiting = tuple(sorted({rank for call in ring for rank in call.arrived} - set(ranks)))
        p2p = next((call for call in ring if call.parting is Parting.P2P), None)
        if p2p is not None:
            yield _fact("p2p_call_unmatched", p2p, ranks, job)
            continue
        evidence = tuple(line for call in ring for line in call.evidence[:4])
        groups = tuple(call.group for call in ring)
        yield Fact(
            "wait_cycle",
            {"groups": groups, "size": len(ring)},
            ranks=ranks,
            hosts=job.hosts_of(ranks),
            group=groups[0],
            affected=waiting,
            evidence=evidence,
        )


def _fact(kind: str, call: StuckCall, ranks: tuple[int, ...], job: Job) -> Fact:
    fields: dict[str, Value] = {
        "seq": call.seq,
        "op": call.op,
        "expected": call.expected,
        "found": call.found,
        "tie": call.tie,
        "reliable": call.reliable,
        "arrived": call.arrived,
        "missing": call.missing,
    }
    affected = tuple(sorted(set(call.arrived) - set(ranks)))
    return Fact(
        kind,
        fields,
        ranks=ranks,
        hosts=job.hosts_of(ranks),
        group=call.group,
        affected=affected,
        evidence=call.evidence,
    )
