"""Facts about ranks that are gone without a word, told by the peers that lost them.

NCCL's sockets close when a process dies, but only peers with a transfer in flight notice, and peers that
then abort close their own sockets in turn. So the rank that is gone is not the one that complains: it is
the one that stopped first and said nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.collectives import Parting
from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Evidence, Fact

KINDS = {
    "rank_vanished": FactKind(
        ("witnesses", "last_words"), "A rank stopped calling, said nothing, and peers saw its connections close."
    ),
    "host_vanished": FactKind(
        ("witnesses", "ranks_there"), "All ranks of one host stopped in that way; ranks of other hosts did not."
    ),
    "rank_aborted": FactKind(
        ("api",),
        "A rank aborted its communicator by itself: no error of its own came before, and its peers still called.",
    ),
}
LOSS_KINDS = (
    "peer_closed",
    "peer_io_failed",
    "proxy_socket_lost",
    "local_peer_lost",
    "local_rank_closed",
    "gloo_peer_closed",
)
"""What a rank prints when a peer's connection is lost."""
_OWN_REASONS = ("exception",)
_ABORTS = ("abort_called",)


def find(job: Job) -> Iterator[Fact]:
    """Ranks that are gone, hosts that are gone, ranks that left by aborting."""
    behind = sorted(
        {r for call in job.stuck if call.parting is Parting.MISSING for r in call.missing if r in job.ranks}
    )
    if not behind:
        return
    losses = [event for event in job.events.of(*LOSS_KINDS) if event.rank is not None]
    aborted = {rank for rank in behind if _aborted_first(job.ranks[rank])}
    for rank in sorted(aborted):
        yield _abort(job, rank)
    if not losses:
        return
    witnesses = {event.rank for event in losses}
    shared = _shared_files(job)
    gone = tuple(
        rank
        for rank in behind
        if rank not in witnesses
        and rank not in aborted
        and not _gave_reason(job.ranks[rank])
        and shared.isdisjoint(job.ranks[rank].files)
    )
    if not gone or not witnesses - set(gone):
        return
    yield from _gone(job, gone, losses)


def _gone(job: Job, gone: tuple[int, ...], losses: list[Event]) -> Iterator[Fact]:
    calls = [c for c in job.stuck if c.parting is Parting.MISSING and set(gone) & set(c.missing)]
    last = tuple(_last_words(job.ranks[rank], rank) for rank in gone if job.ranks[rank].last_line is not None)
    loss = tuple(evidence_of(event, f"rank {event.rank} lost a connection") for event in losses[:6])
    waits = tuple(line for call in calls for line in call.evidence[:4])
    affected = tuple(sorted(set(job.ranks) - set(gone)))
    witnesses = tuple(sorted({e.rank for e in losses if e.rank is not None} - set(gone)))
    hosts = job.hosts_of(gone)
    time = min((e.time for e in losses if e.time is not None), default=None)
    words = last[0].text if last else ""
    yield Fact(
        "rank_vanished",
        {"witnesses": witnesses, "last_words": words},
        ranks=gone,
        hosts=hosts,
        affected=affected,
        time=time,
        evidence=(*loss, *last, *waits),
    )
    by_host: dict[str | None, set[int]] = defaultdict(set)
    for rank, process in job.ranks.items():
        by_host[process.host].add(rank)
    whole = [h for h in hosts if by_host[h] <= set(gone)]
    if len(whole) == 1 and len(gone) > 1 and set(gone) == by_host[whole[0]] and len(job.hosts) > 1:
        yield Fact(
            "host_vanished",
            {"witnesses": witnesses, "ranks_there": gone},
            ranks=gone,
            hosts=hosts,
            affected=affected,
            time=time,
            evidence=(*loss, *last),
        )


def _shared_files(job: Job) -> frozenset[str]:
    """Files of several ranks that lost their last lines: any may have said more (in its own, that is a sign)."""
    writers: dict[str, set[int]] = defaultdict(set)
    for rank, process in job.ranks.items():
        for file in job.lost_tails.intersection(process.files):
            writers[file].add(rank)
    return frozenset(file for file, ranks in writers.items() if len(ranks) > 1)


def _aborted_first(process: Process) -> bool:
    """Whether the process aborted without having lost a peer or failed before."""
    for event in process.events:
        if event.kind in _ABORTS or (event.kind == "comm_teardown" and event.fields.get("action") == "Abort"):
            return True
        if event.kind in LOSS_KINDS or event.kind in _OWN_REASONS:
            return False
    return False


def _abort(job: Job, rank: int) -> Fact:
    process = job.ranks[rank]
    first = next(
        e
        for e in process.events
        if e.kind in _ABORTS or (e.kind == "comm_teardown" and e.fields.get("action") == "Abort")
    )
    affected = tuple(sorted(set(job.ranks) - {rank}))
    hosts = (process.host,) if process.host else ()
    return Fact(
        "rank_aborted",
        {"api": first.kind},
        ranks=(rank,),
        hosts=hosts,
        affected=affected,
        time=first.time,
        evidence=(evidence_of(first, "it aborted by itself"),),
    )


def _gave_reason(process: Process) -> bool:
    return any(event.kind in _OWN_REASONS for event in process.events)


def _last_words(process: Process, rank: int) -> Evidence:
    line = process.last_line
    if line is None:
        raise ValueError("a process with last words has a last line")
    return Evidence(line.location, line.raw, f"the last line of rank {rank}")
