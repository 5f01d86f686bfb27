"""What attach saw of a host that a job can hang of: full shared memory, used-up descriptors, a frozen cgroup."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "attached_shm_full": FactKind(("size_bytes", "used_bytes"), "The shared memory of a live job has no space left."),
    "attached_files_used_up": FactKind(
        ("open_files", "open_files_limit"), "A live process has as many files open as it may."
    ),
    "attached_log_grows": FactKind(
        ("log_bytes", "over_s"),
        "All ranks of a live job went on between two looks: their logs grew, their main threads ran.",
    ),
    "attached_cgroup_frozen": FactKind((), "The cgroup freezer holds a live job's processes."),
    "attached_memory_kills": FactKind(
        ("oom_kills", "limit_bytes", "used_bytes"),
        "The kernel killed processes in a live job's cgroup for want of memory.",
    ),
}

_FULL = 0.99
_LONG_S, _IDLE_S = 3.0, 0.3
_USED_UP = 0.98
"""A process at its limit closes and opens again; between two looks a few may be free."""


def find(job: Job) -> Iterator[Fact]:
    """Facts about live hosts, each place once."""
    if not job.events.has("attach_process"):
        return
    ranks = _Ranks(job)
    for event in job.events.of("attach_shm"):
        size, used = event.number("size_bytes") or 0, event.number("used_bytes") or 0
        if size and used >= _FULL * size:
            yield ranks.fact("attached_shm_full", {"size_bytes": size, "used_bytes": used}, event, "used to the end")
    for event in job.events.of("attach_use"):
        limit, used = event.number("open_files_limit") or 0, event.number("open_files") or 0
        if event.number("round") == 2 and limit and used >= _USED_UP * limit:
            fields: dict[str, Value] = {"open_files": used, "open_files_limit": limit}
            yield ranks.fact("attached_files_used_up", fields, event, f"{used} of {limit} files are open")
    yield from _growing_logs(job)
    for event in job.events.of("attach_memory"):
        if event.number("frozen"):
            yield ranks.fact("attached_cgroup_frozen", {}, event, "frozen")
        if event.number("oom_kills"):
            counts = {name: event.fields.get(name) for name in KINDS["attached_memory_kills"].fields}
            yield ranks.fact("attached_memory_kills", counts, event, "counted by the cgroup since it was made")


def going_on(job: Job) -> tuple[Event, ...]:
    """What attach measured of ranks, if all of them went on between its two looks; else nothing.

    A rank went on when its log grew and its main thread came out of a wait. In a job that is stuck the one that repeats
    a complaint may do so, but not those that wait for it; and ranks may share one log.
    """
    ranks = [event for event in job.events.of("attach_process") if event.fields.get("role") == "rank"]
    went_on = {
        (event.host, event.number("process")): event
        for event in job.events.of("attach_progress")
        if event.number("log_bytes") and event.number("switches")
    }
    found = [went_on[key] for event in ranks if (key := (event.host, event.number("process"))) in went_on]
    return tuple(found) if len(found) == len(ranks) else ()


def stood_still(job: Job) -> frozenset[tuple[str | None, int | None]]:
    """Host and pid of the processes whose main threads did not once come out of their wait between attach's looks."""
    return frozenset(
        (event.host, event.number("process"))
        for event in job.events.of("attach_progress")
        if event.number("switches") == 0 and _seconds(event, "over_s") >= _LONG_S and _seconds(event, "cpu_s") < _IDLE_S
    )


def _seconds(event: Event, name: str) -> float:
    value = event.fields.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _growing_logs(job: Job) -> Iterator[Fact]:
    measured = going_on(job)
    if not measured:
        return
    most = max(measured, key=lambda event: event.number("log_bytes") or 0)
    ranks = {event.number("rank") for event in job.events.of("attach_process") if event.fields.get("role") == "rank"}
    yield Fact(
        "attached_log_grows",
        {name: most.fields.get(name) for name in KINDS["attached_log_grows"].fields},
        tuple(sorted(rank for rank in ranks if rank is not None)),
        tuple(sorted({event.host for event in measured if event.host})),
        evidence=(evidence_of(most, "written between the two looks"),),
    )


class _Ranks:
    """The ranks of the processes that attach names."""

    def __init__(self, job: Job) -> None:
        self._by_pid: dict[tuple[str | None, int | None], int] = {}
        for event in job.events.of("attach_process"):
            rank = event.number("rank")
            if rank is not None:
                self._by_pid[event.host, event.number("process")] = rank

    def fact(self, kind: str, fields: dict[str, Value], event: Event, why: str) -> Fact:
        rank = self._by_pid.get((event.host, event.number("process")))
        hosts = (event.host,) if event.host else ()
        ranks = () if rank is None else (rank,)
        return Fact(kind, fields, ranks, hosts, time=event.time, evidence=(evidence_of(event, why),))
