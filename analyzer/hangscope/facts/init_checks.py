"""Facts about NCCL's own checks of ranks and devices at init, told with the ranks that are at fault.

The root of the bootstrap prints most of them, and names ranks by number: the rank at fault is seldom the one that
prints.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.model import Event, Evidence, Fact, Value

_Start = tuple[Process, Event]
"""A process, and a line of it that says Init START."""

KINDS = {
    "gpu_shared": FactKind(("bus_id",), "NCCL found two ranks of one communicator on one GPU."),
    "root_saw_rank_twice": FactKind(
        ("rank_number", "size"), "Two processes came to the bootstrap root with one rank number."
    ),
    "root_saw_other_size": FactKind(
        ("size", "peer_size"), "A process came to the bootstrap root with another communicator size than the root has."
    ),
    "bootstrap_garbled": FactKind(
        ("size",),
        "A process came to the bootstrap root with fields that make no sense: another layout, so another version.",
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """Facts about duplicate GPUs, ranks taken twice and sizes that differ."""
    for event in job.events.of("duplicate_gpu"):
        pair = tuple(sorted(v for key in ("group_rank", "other_rank") if isinstance(v := event.fields.get(key), int)))
        ranks = pair if _is_world(job, event) else ()
        yield Fact(
            "gpu_shared",
            {"bus_id": event.fields.get("bus_id")},
            ranks=ranks,
            hosts=_hosts(event),
            time=event.time,
            evidence=(evidence_of(event),),
        )
    yield from _unnamed_sharing(job)
    twice, sizes = job.events.of("rank_checked_in_twice"), job.events.of("root_nranks_mismatch", "root_info_mismatch")
    if twice or sizes:
        starts = [(p, e) for p in job.processes for e in p.events if e.kind == "comm_init_start"]
        yield from (_twice(event, claims) for event, claims in _with_their_starts(twice, starts))
        yield from _sizes(sizes, starts)


def _unnamed_sharing(job: Job) -> Iterator[Fact]:
    """From 2.30 on the warning names neither ranks nor GPU, and every rank prints it: Init START has both."""
    warnings = job.events.of("duplicate_gpu_unnamed")
    if not warnings:
        return
    users: dict[tuple[object, object, object], dict[int, Event]] = defaultdict(dict)
    for start in job.events.of("comm_init_start"):
        rank = start.fields.get("group_rank")
        if isinstance(rank, int) and start.host:
            users[start.host, start.fields.get("bus_id"), start.fields.get("comm_id")][rank] = start
    shared = {key: starts for key, starts in users.items() if len(starts) > 1}
    first = evidence_of(warnings[0], "NCCL found it")
    for (host, bus_id, _), starts in shared.items():
        ranks = tuple(sorted(starts)) if _is_world(job, next(iter(starts.values()))) else ()
        lines = (first, *(evidence_of(e, f"rank {rank} is on bus {bus_id}") for rank, e in sorted(starts.items())[:6]))
        yield Fact(
            "gpu_shared",
            {"bus_id": str(bus_id)},
            ranks=ranks,
            hosts=(str(host),),
            time=warnings[0].time,
            evidence=lines,
        )
    if not shared:
        hosts = tuple(sorted({event.host for event in warnings if event.host})) if len(job.hosts) == 1 else ()
        yield Fact("gpu_shared", {}, hosts=hosts, time=warnings[0].time, evidence=(first,))


def _is_world(job: Job, event: Event) -> bool:
    """Whether the ranks in the event are global: its process began no communicator that is smaller than the world."""
    sizes = {e.fields.get("nranks") for e in job.process_of(event).events if e.kind == "comm_init_start"}
    return job.world_size is None or not sizes or job.world_size in sizes


def _with_their_starts(warnings: Iterable[Event], starts: Iterable[_Start]) -> Iterator[tuple[Event, list[_Start]]]:
    """Each warning, with the Init START lines of the rank that it names."""
    of_rank: dict[Value, list[_Start]] = defaultdict(list)
    for process, start in starts:
        of_rank[start.fields.get("group_rank")].append((process, start))
    return ((event, of_rank[event.fields.get("group_rank")]) for event in warnings)


def _twice(event: Event, claims: list[_Start]) -> Fact:
    rank = event.fields.get("group_rank")
    number = rank if isinstance(rank, int) else -1
    first: dict[int, Event] = {}
    for process, start in claims:
        first.setdefault(id(process), start)
    lines = [evidence_of(event, "the root of the bootstrap saw this rank a second time")]
    lines += [evidence_of(first[id(process)], f"this process says it is rank {rank}") for process, _ in claims[:4]]
    fields = {"rank_number": number, "size": event.fields.get("nranks")}
    hosts = hosts_of([process for process, _ in claims])
    return Fact("root_saw_rank_twice", fields, ranks=(number,), hosts=hosts, time=event.time, evidence=tuple(lines))


def _sizes(warnings: Iterable[Event], starts: list[_Start]) -> Iterator[Fact]:
    odd: dict[tuple[Value, Value], list[_Start]] = {}
    for event in warnings:
        size, peer_size = event.fields.get("nranks"), event.fields.get("peer_nranks")
        compared = evidence_of(event, "the root of the bootstrap compares what processes bring")
        if size == peer_size:
            yield Fact("bootstrap_garbled", {"size": size}, time=event.time, evidence=(compared,))
            continue
        # every peer of another size gives a warning
        if (size, peer_size) not in odd:
            odd[size, peer_size] = _of_odd_size(size, peer_size, starts)
        yield _other_size(event, odd[size, peer_size], compared)


def _of_odd_size(size: Value, peer_size: Value, starts: Iterable[_Start]) -> list[_Start]:
    """The last Init START with one of two sizes of each process in which that is the less usual one."""
    last = {id(process): (process, e) for process, e in starts if e.fields.get("nranks") in (size, peer_size)}
    counts = Counter(e.fields.get("nranks") for _, e in last.values())
    usual = max(counts, key=lambda value: (counts[value], value == size), default=size)
    return [(process, e) for process, e in last.values() if e.fields.get("nranks") != usual]


def _other_size(event: Event, odd: list[_Start], compared: Evidence) -> Fact:
    size, peer_size = event.fields.get("nranks"), event.fields.get("peer_nranks")
    lines = [compared, *(evidence_of(e, "this process has another size") for _, e in odd)]
    # A process whose size nobody else has gets no global rank from it; then its own word counts.
    named = tuple(sorted(r for _, e in odd if isinstance(r := e.fields.get("group_rank"), int)))
    members = [p for p, _ in odd]
    fields: dict[str, Value] = {"size": size, "peer_size": peer_size}
    ranks = ranks_of(members) or named
    return Fact(
        "root_saw_other_size", fields, ranks=ranks, hosts=hosts_of(members), time=event.time, evidence=tuple(lines)
    )


def _hosts(event: Event) -> tuple[str, ...]:
    return () if event.host is None else (event.host,)
