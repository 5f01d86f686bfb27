"""Connections that nobody answers, as tables of sockets show them."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process_ranks import ProcessRanks
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "socket_connecting": FactKind(
        ("process", "peer", "port_number"), "A process has asked for a connection and got no answer yet (SYN-SENT)."
    ),
    "connection_unanswered": FactKind(
        ("process", "peer", "port_number"), "A process of the job asks for a connection that nobody answers."
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """One fact for each process of the job and each peer; connections of other processes are nobody's business."""
    if not job.events.has("socket_connecting"):
        return
    ranks = ProcessRanks(job.events.of("process_state"), job.processes, job.world_size)
    seen: dict[tuple[Value, ...], Event] = {}
    for event in job.events.of("socket_connecting"):
        pid = event.number("process")
        owner = ranks.owner(pid, event.host) if pid is not None else None
        key = (event.host, pid, event.fields.get("peer"), event.fields.get("port_number"))
        if owner is None or key in seen:
            continue
        seen[key] = event
        hosts = (owner.host,) if owner.host else ()
        shown = (evidence_of(event, "asked, and not answered"),)
        yield Fact("connection_unanswered", event.fields, (owner.rank,), hosts, time=event.time, evidence=shown)
