"""Facts about the launch: what ranks were told of the world, where their stories differ, and who is not there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.addresses import is_loopback, is_malformed
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "rank_taken_twice": FactKind(("taken_rank", "processes", "free_ranks", "world_size"), "Two processes took one rank."),
    "world_sizes_differ": FactKind(("world_size", "others", "processes"), "A rank was told another WORLD_SIZE than its peers."),
    "master_port_differs": FactKind(("master_port", "others"), "A rank was told another MASTER_PORT than rank 0."),
    "master_addr_loopback": FactKind(("master_addr",), "A rank beside rank 0's host has a loopback address as MASTER_ADDR."),
    "master_addr_malformed": FactKind(("master_addr",), "MASTER_ADDR is empty, a path or a netmask: no address at all."),
    "ranks_absent": FactKind(
        ("joined", "expected", "absent", "unit"), "Fewer participants joined than expected, and these left no line."
    ),
    "clients_absent": FactKind(("joined", "expected", "unit"), "Fewer participants joined than expected; nothing tells which."),
    "too_many_joined": FactKind(("joined", "expected"), "More processes joined the store than the world holds."),
    "rank_outside_world": FactKind(("outside_rank", "world_size"), "A process has a rank that the world does not hold."),
    "members_absent": FactKind(("joined", "expected", "absent"), "Members announced themselves, some never did, and nothing followed."),
    "node_absent": FactKind(("nodes", "expected", "absent"), "Fewer torchrun agents than min_nodes wait for a rendezvous."),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What one process was told of the world, by its environment or arguments."""

    rank: int | None
    world_size: int | None
    master_addr: str | None
    master_port: int | None
    host: str | None
    writer: tuple[str, ...]
    event: Event


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    told = what_ranks_were_told(job)
    yield from _taken_twice(told, job)
    yield from _world_sizes(told)
    yield from _ports(told)
    yield from _addresses(told, job)
    yield from _absent(told, job)
    yield from _too_many(job)
    yield from _members(job)
    yield from _nodes(job)


def what_ranks_were_told(job: Job) -> list[Told]:
    """One entry a process: from one-line prints, else from prints of single variables."""
    told: list[Told] = []
    for event in job.events.of("environment_print"):
        fields = event.fields
        host = fields.get("host")
        told.append(
            Told(
                _number(fields.get("rank")),
                _number(fields.get("world_size")),
                _text(fields.get("master_addr")),
                _number(fields.get("master_port")),
                str(host) if host else event.host,
                _writer(event, host),
                event,
            )
        )
    variables: dict[int, dict[str, Event]] = defaultdict(dict)
    for event in job.events.of("environment_variable"):
        variables[id(job.process_of(event))].setdefault(str(event.fields.get("variable_name")), event)
    for named in variables.values():
        values = {name: str(event.fields.get("value", "")) for name, event in named.items()}
        best = named.get("RANK") or named.get("WORLD_SIZE") or next(iter(named.values()))
        told.append(
            Told(
                _digits(values.get("RANK")),
                _digits(values.get("WORLD_SIZE")),
                values.get("MASTER_ADDR"),
                _digits(values.get("MASTER_PORT")),
                best.host,
                _writer(best, None),
                best,
            )
        )
    return told


def _number(value: Value) -> int | None:
    return value if isinstance(value, int) else None


def _digits(value: str | None) -> int | None:
    return int(value) if value and value.isdigit() else None


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _writer(event: Event, host: Value) -> tuple[str, ...]:
    line = event.line
    return (line.file, line.stream, str(host or line.host or ""), str(line.pid or ""))


def _fact(kind: str, told: Iterable[Told], fields: dict[str, Value], *, others: Iterable[Told] = (), why: str = "") -> Fact:
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
    world = max((t.world_size or 0 for t in told), default=0)
    free = tuple(sorted(set(range(world)) - set(by_rank)))
    for rank, entries in sorted(by_rank.items()):
        writers = {entry.writer for entry in entries}
        printed = sum(entry.event.count for entry in entries)
        if len(writers) > 1 or (printed > 1 and free and _is_shared(entries, told)):
            fields: dict[str, Value] = {"taken_rank": rank, "processes": max(len(writers), printed), "free_ranks": free, "world_size": world}
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
        rank = _number(event.fields.get("member_rank"))
        if rank is not None:
            by_rank[rank].append(event)
    expected = max((_number(e.fields.get("expected")) or 0 for e in joined), default=0)
    free = tuple(sorted(set(range(expected)) - set(by_rank)))
    if not free:
        return
    for rank, events in sorted(by_rank.items()):
        printed = sum(event.count for event in events)
        if printed > 1:
            fields: dict[str, Value] = {"taken_rank": rank, "processes": printed, "free_ranks": free, "world_size": expected}
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
    for size in sorted((s for s in counts if s is not None and s != common)):
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
    for event in job.events.of("launch_command", "deepspeed_address", "name_unresolved", "client_no_address", "client_connect_timeout"):
        address = _text(event.fields.get("master_addr", event.fields.get("store_host")))
        if address is not None and is_malformed(address):
            hosts = (event.host,) if event.host else ()
            yield Fact("master_addr_malformed", {"master_addr": address}, hosts=hosts, time=event.time, evidence=(evidence_of(event),))
    hosts = {t.host for t in told if t.host} | set(job.hosts)
    if len(hosts) < 2:
        return
    home = next((t.host for t in told if t.rank == 0), None)
    loopback = [t for t in told if t.master_addr and is_loopback(t.master_addr) and t.host != home]
    if loopback:
        names = ", ".join(sorted({str(t.master_addr) for t in loopback}))
        yield _fact("master_addr_loopback", loopback, {"master_addr": names})


def _absent(told: list[Told], job: Job) -> Iterator[Fact]:
    """A store or barrier that counted too few; named are those of whom there is no line."""
    short = [
        e
        for e in job.events.of("clients_missing", "store_barrier_timeout")
        if (_number(e.fields.get("joined")) or 0) < (_number(e.fields.get("expected", e.fields.get("world_size"))) or 0)
    ]
    if not short:
        return
    event = max(short, key=lambda e: _number(e.fields.get("joined")) or 0)
    joined = _number(event.fields.get("joined")) or 0
    expected = _number(event.fields.get("expected", event.fields.get("world_size"))) or 0
    unit = "agents" if event.kind == "clients_missing" and _by_agents(job, told) else "ranks"
    fields: dict[str, Value] = {"joined": joined, "expected": expected, "unit": unit}
    evidence = tuple(evidence_of(e) for e in short[:4])
    absent: tuple[int, ...] = ()
    if unit == "ranks":
        present = {t.rank for t in told if t.rank is not None} | set(job.ranks)
        absent = tuple(sorted(set(range(expected)) - present)) if present else ()
        if not absent and not present and joined == 1:
            # rank 0 keeps the store and counts itself first
            absent = tuple(range(1, expected))
    if absent and len(absent) <= expected - joined:
        hosts = tuple(sorted({str(e.fields["launched_on"]) for e in job.events.of("worker_launched") if e.fields.get("launched_rank") in absent}))
        yield Fact("ranks_absent", fields | {"absent": absent}, ranks=absent, hosts=hosts, time=event.time, evidence=evidence)
    else:
        yield Fact("clients_absent", fields, time=event.time, evidence=evidence)


def _by_agents(job: Job, told: list[Told]) -> bool:
    """torchrun's agents, not ranks, are the clients of the store that its rendezvous opens."""
    return not told and job.events.has("launch_started", "launch_setting", "rendezvous_started")


def _too_many(job: Job) -> Iterator[Fact]:
    for event in job.events.of("store_barrier_timeout", "store_barrier_waiting"):
        joined, world = _number(event.fields.get("joined")), _number(event.fields.get("world_size"))
        rank = _number(event.fields.get("reporting_rank"))
        evidence = (evidence_of(event),)
        if rank is not None and world is not None and rank >= world:
            yield Fact("rank_outside_world", {"outside_rank": rank, "world_size": world}, time=event.time, evidence=evidence)
        elif joined is not None and world is not None and joined > world:
            yield Fact("too_many_joined", {"joined": joined, "expected": world}, time=event.time, evidence=evidence)


def _members(job: Job) -> Iterator[Fact]:
    joined = job.events.of("member_joined")
    if not joined or job.events.has("members_registered"):
        return
    expected = max(_number(e.fields.get("expected")) or 0 for e in joined)
    ranks = {_number(e.fields.get("member_rank")) for e in joined}
    absent = tuple(sorted(set(range(expected)) - ranks))
    if absent and all(event.count == 1 for event in joined) and len(joined) == len(ranks):
        fields: dict[str, Value] = {"joined": len(ranks), "expected": expected, "absent": absent}
        yield Fact("members_absent", fields, ranks=absent, time=joined[-1].time, evidence=tuple(evidence_of(e) for e in joined[-3:]))


def _nodes(job: Job) -> Iterator[Fact]:
    """torchrun agents that announce min_nodes and never complete a rendezvous, fewer of them than it takes."""
    if job.events.has("rendezvous_complete"):
        return
    settings: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in job.events.of("launch_setting"):
        agent = event.line.host or event.line.file
        settings[agent].setdefault(str(event.fields.get("setting_name")), event)
    nodes = {agent: named["min_nodes"] for agent, named in settings.items() if "min_nodes" in named}
    expected = max((_digits(_text(e.fields.get("value"))) or 0 for e in nodes.values()), default=0)
    waiting = [agent for agent in nodes if "rdzv_endpoint" in settings[agent]]
    if not waiting or len(waiting) >= expected or job.events.has("client_connect_timeout", "client_no_address", "name_unresolved"):
        return
    taken = {found for agent in waiting if (found := _node_rank(settings[agent])) is not None}
    absent = ", ".join(str(n) for n in range(expected) if n not in taken) if len(taken) == len(waiting) else ""
    fields: dict[str, Value] = {"nodes": len(waiting), "expected": expected, "absent": absent or None}
    yield Fact("node_absent", fields, time=min((e.time for e in nodes.values() if e.time is not None), default=None), evidence=tuple(evidence_of(e, "so many nodes are expected") for e in nodes.values()))


def _node_rank(named: dict[str, Event]) -> int | None:
    """Static rendezvous: ``rdzv_configs : {'rank': 0, 'timeout': 900}``."""
    text = str(named["rdzv_configs"].fields.get("value", "")) if "rdzv_configs" in named else ""
    _, found, rest = text.partition("'rank': ")
    return _digits(rest.split(",")[0].strip(" }")) if found else None
