"""Facts about InfiniBand and RoCE errors: what the numbers mean, and which host they accuse (formats/ib.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.majority import ranks_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "ib_first_error": FactKind(
        ("status", "meaning", "vendor_err", "peer", "hca", "accused"),
        "The first completion error of a status that is no flush; its hosts are those the status accuses.",
    ),
    "ib_flush_only": FactKind(
        ("status", "peer"), "Only flushed requests were reported: the error before them is not shown."
    ),
}
# IBV_WC_*: libibverbs' enum; 5 is always the consequence of an earlier error.
MEANINGS = {
    1: "local length error (MTU or sizes differ)",
    2: "local queue pair error",
    4: "the own NIC may not access the local buffer",
    7: "bad response",
    8: "local access error",
    9: "the peer's NIC calls the request invalid",
    10: "the peer's NIC refuses access to its memory",
    11: "the peer could not execute the request",
    12: "no acknowledgement after all retries",
    13: "the peer had no receive posted",
    15: "the peer's queue pair does not exist any more",
    16: "the peer aborted",
    19: "the device is in a fatal state",
    20: "no answer from the remote device",
    21: "general error",
}
_FLUSH = 5
_ACCUSES_PEER = frozenset({9, 10, 11, 15, 16})
_ACCUSES_OWN = frozenset({1, 2, 4, 8, 19})


def find(job: Job) -> Iterator[Fact]:
    """One fact a status, flushes only when there is nothing else."""
    by_status: dict[int, list[Event]] = defaultdict(list)
    for event in job.events.of("ib_completion_error"):
        status = event.fields.get("status")
        if isinstance(status, int):
            by_status[status].append(event)
    flushed = by_status.pop(_FLUSH, [])
    for status, events in sorted(by_status.items()):
        yield _error(job, status, events)
    if flushed and not by_status:
        lines = tuple(evidence_of(event, "flushed after an earlier error") for event in flushed[:6])
        fields: dict[str, Value] = {"status": _FLUSH, "peer": str(flushed[0].fields.get("peer", ""))}
        yield Fact("ib_flush_only", fields, (), (), "", _ranks(job, flushed), flushed[0].time, lines)


def _error(job: Job, status: int, events: list[Event]) -> Fact:
    first = events[0]
    accused, hosts = "the path between the two hosts", _common_peer(job, events)
    if status in _ACCUSES_PEER:
        accused = "the peer's host"
    elif status in _ACCUSES_OWN:
        accused, hosts = "the host that prints it", tuple(sorted({event.host for event in events if event.host}))
    fields: dict[str, Value] = {
        "status": status,
        "meaning": MEANINGS.get(status, "see ibv_wc_status"),
        "vendor_err": first.fields.get("vendor_err"),
        "peer": str(first.fields.get("peer", "")),
        "hca": str(first.fields.get("hca", "")),
        "accused": accused,
    }
    lines = tuple(
        evidence_of(event, fields["meaning"] if isinstance(fields["meaning"], str) else "") for event in events[:8]
    )
    return Fact("ib_first_error", fields, (), hosts, "", _ranks(job, events), first.time, lines)


def _common_peer(job: Job, events: list[Event]) -> tuple[str, ...]:
    """The host that all complaints name, when they come from two hosts or more; one complaint alone accuses nobody."""
    addresses = {
        str(event.fields.get("address", "")): event.host
        for event in job.events.of("bootstrap_interface", "ib_devices")
        if event.host
    }
    peers = {addresses.get(peer := str(event.fields.get("peer", "")), peer.split(".", 1)[0]) for event in events}
    witnesses = {event.host for event in events}
    known = {host for host in peers if host in job.hosts}
    return tuple(str(host) for host in known) if len(peers) == len(known) == 1 and len(witnesses) > 1 else ()


def _ranks(job: Job, events: list[Event]) -> tuple[int, ...]:
    return ranks_of([job.process_of(event) for event in events])
