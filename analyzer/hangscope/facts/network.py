"""Facts about connections: whose was lost, which never came about.

NCCL names a peer by address: the lines in which a host says which interface it uses tell whose address that is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.comparisons.network import chosen_interfaces, is_virtual
from hangscope.facts.error_chains import is_harmless
from hangscope.facts.init_stages import start_precedes_bootstrap
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "peer_connection_lost": FactKind(
        ("peer", "error", "witnesses"), "A connection to this peer broke; its host is told by the peer's address."
    ),
    "established_connections_cut": FactKind(
        ("error", "sides"), "Established connections broke at both ends with an error that no dying process causes."
    ),
    "local_rank_left": FactKind(
        ("local_rank", "witnesses"), "Several processes of a host lost the same local rank, and no other."
    ),
    "bootstrap_unanswered": FactKind(
        ("came",),
        "All ranks of several hosts began the init, and none of them finished the bootstrap or printed an error.",
    ),
    "peer_not_reached": FactKind(
        ("peer", "error", "tries", "gave_up"),
        "Connections to this address never came about; its host is told by the address.",
    ),
}
# A process that dies gives "reset", "broken pipe" or a closed connection; these come from the network itself.
_CUT = (
    "Software caused connection abort",
    "Connection timed out",
    "No route to host",
    "Network is unreachable",
    "Network is down",
    "Host is down",
)
_FEWEST_WITNESSES = 2
_DONE = frozenset({"comm_init_complete", "connected"})
_DIALLED = ("connect_failed", "connect_retries_used_up", "connect_unanswered")


def find(job: Job) -> Iterator[Fact]:
    """What became of connections."""
    owners = _owners(chosen_interfaces(job), job)
    yield from _lost(job, owners)
    yield from _cut(job)
    yield from _not_reached(job, owners)
    yield from _local_rank_left(job)
    yield from _unanswered(job)


def _owners(chosen: list[Event], job: Job) -> dict[str, list[Process]]:
    """Address or host name -> processes there."""
    owners: dict[str, list[Process]] = defaultdict(list)
    for event in chosen:
        process = job.process_of(event)
        if not is_virtual(event):
            owners[str(event.fields.get("address", ""))].append(process)
    for process in job.processes:
        if process.host:
            owners[process.host].append(process)
    return owners


def _at(peer: str, owners: dict[str, list[Process]]) -> list[Process]:
    return owners.get(peer) or owners.get(peer.split(".", 1)[0].removesuffix("-ib")) or []


def _lost(job: Job, owners: dict[str, list[Process]]) -> Iterator[Fact]:
    """One fact a lost peer address: the first line that tells it, and who saw it."""
    by_peer: dict[str, list[Event]] = defaultdict(list)
    for event in job.events.of("peer_io_failed", "peer_closed"):
        by_peer[str(event.fields.get("peer", ""))].append(event)
    for peer, events in sorted(by_peer.items(), key=lambda item: (item[1][0].time or 0.0, item[0])):
        there = _at(peer, owners)
        witnesses = ranks_of([job.process_of(event) for event in events])
        # Whoever complains is alive; the lost one is among the others of that host.
        silent = [p for p in there if p.rank is not None and p.rank not in witnesses]
        ranks = ranks_of(silent) if len(silent) == 1 else ()
        fields: dict[str, Value] = {
            "peer": peer,
            "error": str(events[0].fields.get("error", "connection closed")),
            "witnesses": witnesses,
        }
        lines = tuple(evidence_of(event, f"it lost {peer or 'a peer'}") for event in events[:6])
        yield Fact(
            "peer_connection_lost",
            fields,
            ranks=ranks,
            hosts=hosts_of(there),
            affected=witnesses,
            time=events[0].time,
            evidence=lines,
        )


def _cut(job: Job) -> Iterator[Fact]:
    """Errors of the network on connections that were up; one side is enough for a time-out."""
    cut = [event for event in job.events.of("peer_io_failed") if str(event.fields.get("error", "")).startswith(_CUT)]
    sides = {(event.host, event.pid) for event in cut}
    timed_out = [e for e in cut if not str(e.fields.get("error", "")).startswith(_CUT[0])]
    if not timed_out and len(sides) < 2:
        return
    first = timed_out[0] if timed_out else cut[0]
    affected = ranks_of([job.process_of(event) for event in cut])
    fields: dict[str, Value] = {"error": str(first.fields.get("error", "")), "sides": len(sides)}
    lines = tuple(evidence_of(event, "an established connection broke") for event in cut[:8])
    yield Fact("established_connections_cut", fields, affected=affected, time=cut[0].time, evidence=lines)


def _not_reached(job: Job, owners: dict[str, list[Process]]) -> Iterator[Fact]:
    """Addresses that processes went on dialling until they gave up or their log ends."""
    by_peer: dict[str, list[Event]] = defaultdict(list)
    for process in job.processes if job.events.has(*_DIALLED, "connect_retry") else ():
        said = process.by_kind
        failed = said.of(*_DIALLED)
        retried = said.of("connect_retry")
        done = max(said.places(*_DONE), default=-1) if retried else -1
        pending = [said.at(place) for place in said.places("connect_retry") if place > done]
        if not failed and not pending:
            continue
        for event in (*pending, *failed):
            peer = str(event.fields.get("peer") or event.fields.get("address") or "")
            if not peer and retried:
                peer = next((str(e.fields["address"]) for e in retried if "address" in e.fields), "")
            by_peer[peer].append(event)
    for peer, events in sorted(by_peer.items()):
        error = next((str(e.fields["error"]) for e in events if "error" in e.fields), "no answer")
        affected = ranks_of([job.process_of(event) for event in events])
        gave_up = any(event.kind != "connect_retry" for event in events)
        fields: dict[str, Value] = {"peer": peer, "error": error, "tries": len(events), "gave_up": gave_up}
        # What ended it first, then the last try of each process, then the first ones.
        last = {id(job.process_of(event)): event for event in events}
        ends = [e for e in events if e.kind != "connect_retry" or last[id(job.process_of(e))] is e]
        is_end = {id(e) for e in ends}
        shown = [*sorted(ends, key=lambda e: e.kind == "connect_retry"), *(e for e in events if id(e) not in is_end)]
        lines = tuple(evidence_of(event, f"it cannot connect to {peer or 'its peer'}") for event in shown[:8])
        times = [event.time for event in events if event.time is not None]
        yield Fact(
            "peer_not_reached",
            fields,
            hosts=hosts_of(_at(peer, owners)),
            affected=affected,
            time=min(times, default=None),
            evidence=lines,
        )


def _local_rank_left(job: Job) -> Iterator[Fact]:
    """One local rank that the others of a host name alike; at an orderly end they name each other in turn."""
    by_host: dict[str, list[Event]] = defaultdict(list)
    for event in job.events.of("local_rank_closed"):
        by_host[event.host or ""].append(event)
    torn = {event.host or "" for event in job.events.of("comm_teardown")}
    for host, events in sorted(by_host.items()):
        named = {event.fields.get("local_rank") for event in events}
        witnesses = {(event.host, event.pid) for event in events}
        if len(named) != 1 or len(witnesses) < _FEWEST_WITNESSES or host in torn:
            continue
        local_rank = events[0].fields.get("local_rank")
        # On a job of one host the local rank is the rank.
        known = [p for p in job.processes if p.host == host and p.local_rank == local_rank]
        ranks = ranks_of(known) or ((local_rank,) if isinstance(local_rank, int) and len(job.hosts) == 1 else ())
        lines = tuple(evidence_of(event, f"it lost local rank {local_rank}") for event in events[:8])
        fields: dict[str, Value] = {"local_rank": local_rank, "witnesses": len(witnesses)}
        affected = ranks_of([job.process_of(event) for event in events])
        yield Fact(
            "local_rank_left",
            fields,
            ranks=ranks,
            hosts=(host,) if host else (),
            affected=affected,
            time=events[0].time,
            evidence=lines,
        )


def _unanswered(job: Job) -> Iterator[Fact]:
    """From 2.23 on Init START comes before the bootstrap, and timings after it: silence between them on all ranks."""
    starts = [event for event in job.events.of("comm_init_start") if "api" in event.fields]
    sizes = {event.fields.get("nranks") for event in starts}
    came = {event.fields.get("group_rank") for event in starts}
    members = [job.process_of(event) for event in starts]
    hosts = hosts_of(members)
    if len(sizes) != 1 or len(came) not in sizes or len(hosts) < _FEWEST_WITNESSES:
        return
    if job.events.has("bootstrap_timings", "comm_init_complete", "comm_layout", "connect_retry", "connect_failed"):
        return
    if not all(is_harmless(event) for event in job.events.of("error_arrow")):
        return
    is_world = any("ncclCommInitRank" in str(event.fields.get("api", "")) for event in starts)
    if not is_world or not start_precedes_bootstrap(job, members):
        return
    lines = [evidence_of(e, "it waits in the bootstrap") for e in job.events.of("network_chosen")[:8]]
    lines += [evidence_of(event, "this rank came") for event in starts[:8]]
    yield Fact(
        "bootstrap_unanswered",
        {"came": len(came)},
        hosts=hosts,
        affected=ranks_of(list(job.processes)),
        evidence=tuple(lines),
    )
