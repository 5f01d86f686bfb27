"""Compares how the ranks were joined: numbers of channels, and the transports of neighbours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts.collect import evidence_of
from hangscope.facts.comparisons.said import Holders, compared
from hangscope.model import ComparedValue, Comparison, Event

TOPIC = "channels"
ORDER = 4

_COUNTS = {
    "collective channels": "coll_channels",
    "NVLS channels": "nvls_channels",
    "p2p channels": "p2p_channels",
    "p2p channels per peer": "p2p_channels_per_peer",
}
_INSIDE, _OUTSIDE = "transport inside a host", "transport between hosts"
_PAIRS = 8


def compare(job: Job) -> Iterator[Comparison]:
    """Channel counts, which have to be equal; transports of neighbours, of which the two ends have to agree."""
    holders = Holders(job)
    counts = _first_counts(job)
    for aspect, field in _COUNTS.items():
        found = _compared_counts(holders, counts, aspect, field)
        if found is not None:
            yield found
    yield from _transports(holders)
    yield from _pairs(job)


def compare_counts(job: Job, aspect: str = "collective channels", field: str = "coll_channels") -> Comparison | None:
    """The channel counts of the communicator that most processes began with."""
    return _compared_counts(Holders(job), _first_counts(job), aspect, field)


def _compared_counts(
    holders: Holders, counts: list[tuple[Process, Event]], aspect: str, field: str
) -> Comparison | None:
    known = [(process, event) for process, event in counts if event.fields.get(field) is not None]
    said = [holders.of_process(process, str(event.fields[field]), event) for process, event in known]
    return compared(TOPIC, aspect, said, must_agree=True)


def _first_counts(job: Job) -> list[tuple[Process, Event]]:
    """Each process's first line of channel counts, of those whose first communicator is the one that most have first.

    The line names no communicator: only the first one after the first Init START is sure to be of that (from 2.18.3
    on; before there was no START, and the first line of all counts).
    """
    first: dict[int, object] = {}
    for comm in job.communicators:
        first.setdefault(id(comm.process), comm.group.key if comm.group is not None else None)
    usual = Counter(first.values()).most_common(1)
    found = []
    for process in job.processes:
        if first and (id(process) not in first or first[id(process)] != usual[0][0]):
            continue
        event = process.by_kind.first("channel_counts")
        if event is not None:
            found.append((process, event))
    return found


def _transports(holders: Holders) -> Iterator[Comparison]:
    """What each rank sends over: to ranks of its own host, and to those of others."""
    seen: dict[str, dict[int, dict[str, Event]]] = defaultdict(lambda: defaultdict(dict))
    known: set[tuple[object, ...]] = set()
    for event in holders.job.events.of("channel_edge"):
        fields = event.fields
        process = holders.job.process_of(event)
        # the channels of a pair are alike, and there are dozens
        edge = id(process), fields.get("source"), fields.get("target"), fields.get("transport")
        if edge in known:
            continue
        known.add(edge)
        source, target = event.number("source"), event.number("target")
        if source is None or target is None or process.rank != source or target not in holders.job.ranks:
            continue
        there = holders.job.ranks[target].host
        if process.host is None or there is None:
            continue
        aspect = _INSIDE if there == process.host else _OUTSIDE
        seen[aspect][source].setdefault(_transport(event), event)
    for aspect in (_INSIDE, _OUTSIDE):
        said = [
            holders.of_process(holders.job.ranks[rank], " and ".join(sorted(kinds)), kinds[min(kinds)])
            for rank, kinds in sorted(seen[aspect].items())
        ]
        found = compared(TOPIC, aspect, said, must_agree=False)
        if found is not None:
            yield found


def _transport(event: Event) -> str:
    """``P2P/CUMEM``, ``SHM``, ``NET/IB``, ``NET/IB with GPU Direct``: without device numbers and ways of reading."""
    parts = str(event.fields.get("transport", "")).split("/")
    if parts[0].startswith("direct shared memory"):
        return "SHM"
    if parts[0] == "SHM":
        return "SHM"
    if parts[0] != "NET":
        return "/".join(parts[:2])
    direct = " with GPU Direct" if any(part.startswith("GDRDMA") for part in parts) else ""
    return "/".join(parts[:2]) + direct


def _pairs(job: Job) -> Iterator[Comparison]:
    """Neighbours whose two ends name different transports."""
    for sender, receiver in unlike_ends(job)[:_PAIRS]:
        source, target = sender.number("source"), sender.number("target")
        values = tuple(
            ComparedValue(
                transport_kind(event),
                () if event.rank is None else (event.rank,),
                (event.host,) if event.host else (),
                (),
                1,
                evidence_of(event, why),
            )
            for event, why in ((sender, "the sender's end"), (receiver, "the receiver's end"))
        )
        yield Comparison(TOPIC, f"transport from {source} to {target}", must_agree=True, values=values)


def unlike_ends(job: Job) -> list[tuple[Event, Event]]:
    """Connections whose sender names P2P or shared memory while the receiver waits on the network, or the reverse.

    Only the sender prints P2P and SHM lines; both ends print NET lines, with [send] and [receive].
    """
    sent: dict[tuple[str, int, int], Event] = {}
    received: dict[tuple[str, int, int], Event] = {}
    groups = _group_keys(job)
    for event in job.events.of("channel_edge") if groups else ():
        group = groups.get(id(job.process_of(event)), "")
        if not group:
            continue
        source, target = event.number("source"), event.number("target")
        if source is not None and target is not None:
            ends = received if event.fields.get("direction") == "receive" else sent
            ends.setdefault((group, source, target), event)
    found = []
    for key, receiver in sorted(received.items()):
        sender = sent.get(key)
        if (
            sender is not None
            and transport_kind(sender) != transport_kind(receiver)
            and job.process_of(sender) is not job.process_of(receiver)
        ):
            found.append((sender, receiver))
    return found


def transport_kind(event: Event) -> str:
    """``P2P``, ``SHM`` or ``NET``."""
    return str(event.fields.get("transport", "")).split("/", 1)[0]


def _group_keys(job: Job) -> dict[int, str]:
    """Process -> its only communicator; edges name ranks inside one, so a process with several is left out."""
    return {
        id(process): str(starts[0].fields.get("comm_id") or starts[0].fields.get("nranks"))
        for process in job.processes
        if len(starts := process.by_kind.of("comm_init_start")) == 1
    }
