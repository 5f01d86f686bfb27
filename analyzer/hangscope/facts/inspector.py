"""Facts from NCCL's Inspector: whose last completed operation lies behind those of its peers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Fact, Value

_FIELDS = ("call", "sn", "others", "stopped_s")
KINDS = {
    "inspector_last": FactKind(
        ("comm_hash", "comm_name", "group_rank", "nranks", "call", "sn", "size_bytes", "took_us"),
        "The last operation of one kind that a rank completed, by NCCL's Inspector.",
    ),
    "inspector_behind": FactKind(
        _FIELDS, "A rank completed fewer operations than all its peers, and wrote as late as they did."
    ),
    "inspector_stopped": FactKind(
        _FIELDS, "A rank completed fewer operations than its peers, and its file ends `stopped_s` before theirs."
    ),
}
_LATE_S = 5.0
"""Ranks write at intervals of their own, of some hundred microseconds to seconds."""


def find(job: Job) -> Iterator[Fact]:
    """Ranks that lie behind in a communicator all of whose ranks have a file."""
    comms: dict[tuple[Value, Value], dict[int, Event]] = defaultdict(dict)
    latest: dict[tuple[Value, int], float] = {}
    for event in job.events.of("inspector_last"):
        rank = event.number("group_rank")
        if rank is None:
            continue
        comm = event.fields.get("comm_hash")
        known = comms[comm, event.fields.get("call")].get(rank)
        if known is None or (event.number("sn") or 0) >= (known.number("sn") or 0):
            comms[comm, event.fields.get("call")][rank] = event
        if event.time is not None:
            latest[comm, rank] = max(event.time, latest.get((comm, rank), 0.0))
    for (comm, call), ranks in sorted(comms.items(), key=lambda item: str(item[0])):
        yield from _behind(job, str(call), ranks, {r: latest[comm, r] for r in ranks if (comm, r) in latest})


def _behind(job: Job, call: str, ranks: dict[int, Event], ends: dict[int, float]) -> Iterator[Fact]:
    size = next(iter(ranks.values())).number("nranks")
    done = {rank: event.number("sn") or 0 for rank, event in ranks.items()}
    most, least = max(done.values()), min(done.values())
    odd = [rank for rank, number in done.items() if number == least]
    if size is None or len(ranks) < size or most == least or len(odd) * 2 > size:
        return
    peers = sorted(ends[rank] for rank in ranks if rank not in odd and rank in ends)
    for rank in sorted(odd):
        event = ranks[rank]
        late = peers[0] - ends[rank] if peers and rank in ends else 0.0
        owner = event.rank if event.rank is not None else rank if size == job.world_size else None
        fields: dict[str, Value] = {"call": call, "sn": least, "others": most, "stopped_s": late if late > 0 else None}
        ahead = next(other for other, number in done.items() if number == most)
        shown = (evidence_of(event, "its last one"), evidence_of(ranks[ahead], "a peer has completed more"))
        kind = "inspector_stopped" if late >= _LATE_S else "inspector_behind"
        who = () if owner is None else (owner,)
        hosts = (event.host,) if event.host else ()
        affected = tuple(sorted(set(job.ranks) - set(who)))
        yield Fact(kind, fields, who, hosts, affected=affected, time=event.time, evidence=shown)
