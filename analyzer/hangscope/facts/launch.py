"""Facts about the launch: where ranks were told different worlds, and addresses that name no machine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from hangscope.align.job import Job
from hangscope.align.world import size_in
from hangscope.facts import FactKind
from hangscope.facts.addresses import is_loopback, is_malformed
from hangscope.facts.collect import evidence_of
from hangscope.facts.told import Told, digits, text, what_ranks_were_told
from hangscope.model import Event, Fact, Value

KINDS = {
    "rank_taken_twice": FactKind(
        ("taken_rank", "processes", "free_ranks", "world_size"), "Two processes took one rank."
    ),
    "world_sizes_differ": FactKind(
        ("world_size", "others", "processes"), "A rank was told another WORLD_SIZE than its peers."
    ),
    "master_port_differs": FactKind(("master_port", "others"), "A rank was told another MASTER_PORT than rank 0."),
    "master_addr_loopback": FactKind(
        ("master_addr",), "A rank beside rank 0's host has a loopback address as MASTER_ADDR."
    ),
    "master_addr_malformed": FactKind(
        ("master_addr",), "MASTER_ADDR is empty, a path or a netmask: no address at all."
    ),
    "master_addr_differs": FactKind(
        ("master_addr", "others"), "A rank that cannot connect was told another MASTER_ADDR than rank 0."
    ),
    "argument_unknown": FactKind(("argument",), "The script refuses the local rank that its launcher passes."),
    "worlds_of_their_own": FactKind(
        ("processes", "shared_rank"), "Processes that one launcher started each take rank 0 of a world of their own."
    ),
    "rank_unset": FactKind(("world_size",), "A process prints its environment, and it has no rank."),
}


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    told = what_ranks_were_told(job)
    yield from _taken_twice(told, job)
    yield from _world_sizes(told)
    yield from _ports(told)
    yield from _addresses(told, job)
    yield from _other_address(told, job)
    yield from _unset(told)
    yield from _arguments(job)
    yield from _own_worlds(job)


def _fact(
    kind: str, told: Iterable[Told], fields: dict[str, Value], *, others: Iterable[Told] = (), why: str = ""
) -> Fact:
    own = list(told)
    return Fact(
        kind,
        fields,
        ranks=tuple(sorted({t.rank for t in own if t.rank is not None})),
        hosts=tuple(sorted({t.host for t in own if t.host})),
        time=next((t.event.time for t in own if t.event.time is not None), None),
        evidence=tuple(
            [*(evidence_of(t.event, why) for t in own), *(evidence_of(t.event, "for comparison") for t in others)][:8]
        ),
    )


def _taken_twice(told: list[Told], job: Job) -> Iterator[Fact]:
    """One rank in two writers; in a stream that several processes share, one rank printed twice while others lack."""
    by_rank: dict[int, list[Told]] = defaultdict(list)
    for entry in told:
        if entry.rank is not None:
            by_rank[entry.rank].append(entry)
    world = max((size_in(t.world_size) for t in told), default=0)
    free = tuple(sorted(set(range(world)) - set(by_rank)))
    for rank, entries in sorted(by_rank.items()):
        writers = {entry.writer for entry in entries}
        printed = sum(entry.event.count for entry in entries)
        if len(writers) > 1 or (printed > 1 and free and _is_shared(entries, told)):
            fields: dict[str, Value] = {
                "taken_rank": rank,
                "processes": max(len(writers), printed),
                "free_ranks": free,
                "world_size": world,
            }
            yield _fact("rank_taken_twice", entries, fields, why=f"takes rank {rank}")
    yield from _members_twice(job)


def _is_shared(entries: list[Told], told: list[Told]) -> bool:
    """The writer of these lines also announces other ranks, so it is several processes in one stream."""
    writer = entries[0].writer
    return len({t.rank for t in told if t.writer == writer and t.rank is not None}) > 1


def _members_twice(job: Job) -> Iterator[Fact]:
    """Lightning's ``GLOBAL_RANK: 1, MEMBER: 2/8``: some members come twice and the last ones never."""
    joined = job.events.of("member_joined")
    by_rank: dict[int, list[Event]] = defaultdict(list)
    for event in joined:
        rank = event.number("member_rank")
        if rank is not None:
            by_rank[rank].append(event)
    expected = max((size_in(e.number("expected")) for e in joined), default=0)
    free = tuple(sorted(set(range(expected)) - set(by_rank)))
    if not free:
        return
    for rank, events in sorted(by_rank.items()):
        printed = sum(event.count for event in events)
        if printed > 1:
            fields: dict[str, Value] = {
                "taken_rank": rank,
                "processes": printed,
                "free_ranks": free,
                "world_size": expected,
            }
            evidence = tuple(evidence_of(e, f"takes rank {rank}") for e in events[:4])
            yield Fact("rank_taken_twice", fields, ranks=(rank,), evidence=evidence, time=events[0].time)


def _world_sizes(told: list[Told]) -> Iterator[Fact]:
    """Whose WORLD_SIZE is against the majority; without one, against the number of processes, then against rank 0."""
    sized = [t for t in told if t.world_size is not None]
    counts = Counter(t.world_size for t in sized)
    if len(counts) < 2:
        return
    (common, most), *rest = counts.most_common()
    if most <= sum(count for _, count in rest):
        common = _reference(sized, counts)
    for size in sorted(s for s in counts if s is not None and s != common):
        odd = [t for t in sized if t.world_size == size]
        fields: dict[str, Value] = {"world_size": size, "others": common, "processes": len({t.writer for t in told})}
        yield _fact("world_sizes_differ", odd, fields, others=[t for t in sized if t.world_size == common][:2])


def _reference(sized: list[Told], counts: Counter[int | None]) -> int | None:
    processes = len({t.writer for t in sized})
    if processes in counts:
        return processes
    first = min(sized, key=lambda t: (t.rank is None, t.rank or 0))
    return first.world_size


def _ports(told: list[Told]) -> Iterator[Fact]:
    """Who was told another port than rank 0, which opens the store."""
    known = [t for t in told if t.master_port is not None]
    first = next((t for t in known if t.rank == 0), None)
    if first is None:
        return
    odd = [t for t in known if t.master_port != first.master_port]
    if odd and len({t.master_addr for t in [first, *odd]}) == 1:
        ports = ", ".join(sorted({str(t.master_port) for t in odd}))
        yield _fact("master_port_differs", odd, {"master_port": ports, "others": first.master_port}, others=[first])


def _addresses(told: list[Told], job: Job) -> Iterator[Fact]:
    malformed = [t for t in told if t.master_addr is not None and is_malformed(t.master_addr)]
    for entry in malformed:
        yield _fact("master_addr_malformed", [entry], {"master_addr": entry.master_addr})
    for event in job.events.of(
        "launch_command", "deepspeed_address", "name_unresolved", "client_no_address", "client_connect_timeout"
    ):
        address = text(event.fields.get("master_addr", event.fields.get("store_host")))
        if address is not None and is_malformed(address):
            host = (event.host,) if event.host else ()
            yield Fact(
                "master_addr_malformed",
                {"master_addr": address},
                hosts=host,
                time=event.time,
                evidence=(evidence_of(event),),
            )
    hosts = {t.host for t in told if t.host} | set(job.hosts)
    if len(hosts) < 2:
        return
    home = next((t.host for t in told if t.rank == 0), None)
    loopback = [t for t in told if t.master_addr and is_loopback(t.master_addr) and t.host != home]
    if loopback:
        names = ", ".join(sorted({str(t.master_addr) for t in loopback}))
        yield _fact("master_addr_loopback", loopback, {"master_addr": names})


def _other_address(told: list[Told], job: Job) -> Iterator[Fact]:
    """Another name may be the same machine; it matters for a rank that cannot connect though the name resolves."""
    first = next((t for t in told if t.rank == 0 and t.master_addr), None)
    if first is None:
        return
    stranded = {
        id(job.process_of(e))
        for e in job.events.of("client_connect_timeout", "client_no_address", "client_connect_retry")
    }
    stranded -= {id(job.process_of(e)) for e in job.events.of("name_unresolved", "client_connected")}
    odd = [
        t
        for t in told
        if t.master_addr
        and t.master_addr != first.master_addr
        and not is_loopback(t.master_addr)
        and not is_malformed(t.master_addr)
        and id(job.process_of(t.event)) in stranded
    ]
    if odd:
        names = ", ".join(sorted({str(t.master_addr) for t in odd}))
        yield _fact("master_addr_differs", odd, {"master_addr": names, "others": first.master_addr}, others=[first])


def _unset(told: list[Told]) -> Iterator[Fact]:
    for entry in told:
        if entry.rank is None and entry.event.kind == "environment_print":
            yield _fact("rank_unset", [entry], {"world_size": entry.world_size})


def _arguments(job: Job) -> Iterator[Fact]:
    """``--local-rank=1``: on a job of one host that is the rank that says so."""
    for event in job.events.of("local_rank_argument"):
        argument = str(event.fields.get("argument"))
        local = digits(argument.partition("=")[2])
        ranks = (local,) if local is not None and len(job.hosts) < 2 else ()
        hosts = (event.host,) if event.host else ()
        yield Fact(
            "argument_unknown",
            {"argument": argument},
            ranks=ranks,
            hosts=hosts,
            time=event.time,
            evidence=(evidence_of(event),),
        )


def _own_worlds(job: Job) -> Iterator[Fact]:
    """nccl-tests that several processes print into one stream, each of them as rank 0."""
    by_file: dict[str, dict[tuple[Value, Value], Event]] = defaultdict(dict)
    for event in job.events.of("bench_rank"):
        if event.number("listed_rank") == 0:
            process = (event.fields.get("listed_host"), event.fields.get("worker_pid"))
            by_file[event.line.file].setdefault(process, event)
    for holders in by_file.values():
        if len(holders) > 1:
            events = list(holders.values())
            yield Fact(
                "worlds_of_their_own",
                {"processes": len(holders), "shared_rank": 0},
                hosts=tuple(sorted({str(host) for host, _ in holders})),
                time=events[0].time,
                evidence=tuple(evidence_of(event, "takes rank 0") for event in events[:6]),
            )
