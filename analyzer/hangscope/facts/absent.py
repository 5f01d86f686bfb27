"""Facts about participants that stores, barriers and frameworks count, too few of them or too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.world import size_in
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.told import Told, what_ranks_were_told
from hangscope.model import Event, Fact, Value

KINDS = {
    "ranks_absent": FactKind(
        ("joined", "expected", "absent", "unit"), "Fewer participants joined than expected, and these left no line."
    ),
    "clients_absent": FactKind(
        ("joined", "expected", "unit"), "Fewer participants joined than expected; nothing tells which."
    ),
    "too_many_joined": FactKind(("joined", "expected"), "More processes joined the store than the world holds."),
    "rank_outside_world": FactKind(
        ("outside_rank", "world_size"), "A process has a rank that the world does not hold."
    ),
    "members_absent": FactKind(
        ("joined", "expected", "absent"), "Members announced themselves, some never did, and nothing followed."
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    yield from _absent(what_ranks_were_told(job), job)
    yield from _too_many(job)
    yield from _members(job)


def _absent(told: list[Told], job: Job) -> Iterator[Fact]:
    """A store or barrier that counted too few; named are those of whom there is no line."""
    short = [
        e
        for e in (*job.events.of("clients_missing", "store_barrier_timeout"), *_still_waiting(job))
        if 0 <= (e.number("joined") or 0) < size_in(_expected(e))
    ]
    if not short:
        return
    event = max(short, key=lambda e: e.number("joined") or 0)
    joined = event.number("joined") or 0
    expected = size_in(_expected(event))
    unit = "agents" if event.kind == "clients_missing" and _by_agents(job, told) else "ranks"
    fields: dict[str, Value] = {"joined": joined, "expected": expected, "unit": unit}
    evidence = tuple(evidence_of(e) for e in short[:4])
    absent: tuple[int, ...] = ()
    if unit == "ranks":
        present = {t.rank for t in told if t.rank is not None} | set(job.ranks) | _at_the_barrier(job, event)
        absent = tuple(sorted(set(range(expected)) - present)) if present else ()
        if not absent and not present and joined == 1:
            # rank 0 keeps the store and counts itself first
            absent = tuple(range(1, expected))
    if absent and len(absent) <= expected - joined:
        hosts = tuple(
            sorted(
                {
                    str(e.fields["launched_on"])
                    for e in job.events.of("worker_launched")
                    if e.fields.get("launched_rank") in absent
                }
            )
        )
        yield Fact(
            "ranks_absent", fields | {"absent": absent}, ranks=absent, hosts=hosts, time=event.time, evidence=evidence
        )
    else:
        yield Fact("clients_absent", fields, time=event.time, evidence=evidence)


def _still_waiting(job: Job) -> list[Event]:
    """Waits at the store's barrier that nothing ended: a rank says so every ten seconds (1.9 on), so more than once."""
    done = {event.fields.get("key") for event in job.events.of("store_barrier_done")}
    said = job.events.of("store_barrier_waiting")
    done |= {e.fields.get("key") for e in said if (e.number("joined") or 0) >= (e.number("world_size") or 0)}
    waits = [e for e in said if e.fields.get("key") not in done]
    times = Counter(
        (e.fields.get("key"), e.fields.get("reporting_rank")) for e in waits for _ in range(min(e.count, 2))
    )
    return waits if times and max(times.values()) > 1 else []


def _at_the_barrier(job: Job, event: Event) -> set[int]:
    """The ranks that speak of the barrier that counts too few."""
    key = event.fields.get("key")
    kinds = ("store_barrier_waiting", "store_barrier_joined", "store_barrier_timeout")
    said = [e.number("reporting_rank") for e in job.events.of(*kinds) if key and e.fields.get("key") == key]
    return {rank for rank in said if rank is not None}


def _expected(event: Event) -> int | None:
    return event.number("expected" if "expected" in event.fields else "world_size")


def _by_agents(job: Job, told: list[Told]) -> bool:
    """torchrun's agents, not ranks, are the clients of the store that its rendezvous opens."""
    return not told and job.events.has("launch_started", "launch_setting", "rendezvous_started")


def _too_many(job: Job) -> Iterator[Fact]:
    for event in job.events.of("store_barrier_timeout", "store_barrier_waiting"):
        joined, world = event.number("joined"), event.number("world_size")
        rank = event.number("reporting_rank")
        evidence = (evidence_of(event),)
        if rank is not None and world is not None and rank >= world and _of_the_world(event):
            yield Fact(
                "rank_outside_world", {"outside_rank": rank, "world_size": world}, time=event.time, evidence=evidence
            )
        elif joined is not None and world is not None and joined > world:
            yield Fact("too_many_joined", {"joined": joined, "expected": world}, time=event.time, evidence=evidence)


def _of_the_world(event: Event) -> bool:
    """Whether the barrier is the first one, the default group's; ranks of later ones may be global, sizes their own."""
    return str(event.fields.get("key", "")).endswith(":1")


def _members(job: Job) -> Iterator[Fact]:
    joined = job.events.of("member_joined")
    if not joined or job.events.has("members_registered"):
        return
    expected = max(size_in(e.number("expected")) for e in joined)
    ranks = {e.number("member_rank") for e in joined}
    absent = tuple(sorted(set(range(expected)) - ranks))
    if absent and all(event.count == 1 for event in joined) and len(joined) == len(ranks):
        fields: dict[str, Value] = {"joined": len(ranks), "expected": expected, "absent": absent}
        yield Fact(
            "members_absent",
            fields,
            ranks=absent,
            time=joined[-1].time,
            evidence=tuple(evidence_of(e) for e in joined[-3:]),
        )
