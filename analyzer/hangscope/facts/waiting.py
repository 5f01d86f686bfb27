"""Facts about waits for long work, waits after the work is done, and what other frameworks say of absentees."""

from __future__ import annotations

import bisect
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.progress import numbers
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "work_outlasts_limit": FactKind(
        ("activity", "done", "total", "remaining", "timeout_ms"),
        "A rank still did announced work when its peers' wait timed out.",
    ),
    "stuck_after_timeout": FactKind(
        ("stuck_s",), "A watchdog stands still since a collective of the job timed out: it hangs in aborting."
    ),
    "stuck_after_end": FactKind(
        ("stuck_s",), "A watchdog got stuck after its job had said that it is done, or while the process exits."
    ),
    "submitters_missing": FactKind(
        ("tensor",), "Horovod or Ray names ranks that did not submit what their peers wait for."
    ),
    "tasks_absent": FactKind(("barrier",), "JAX's coordination service names tasks that did not come to a barrier."),
    "tasks_silent": FactKind(("tasks",), "JAX's coordination service misses the heartbeats of tasks."),
    "coordinator_left": FactKind((), "JAX's coordination service ended before its tasks, without any failure shown."),
}

_SINGLE_RANK_WORK = expression(
    r"tokeni|map|filter|pack|group|process|index|convert|consolidat|sav|load|generat|download|build|pars", re.IGNORECASE
)
_AROUND_S = 90.0
"""The monitor looks at the watchdog once in a while, and rounds the length of its silence."""
_LIMITS = (
    "watchdog_timeout",
    "blocking_wait_timeout",
    "gloo_wait_timeout",
    "key_wait_timeout",
    "monitored_barrier_missed",
    "store_barrier_timeout",
)


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    yield from _long_work(job)
    yield from _after_end(job)
    yield from _after_timeout(job)
    yield from _submitters(job)
    yield from _tasks(job)
    yield from _silent_tasks(job)


def _long_work(job: Job) -> Iterator[Fact]:
    limits = [*job.events.of(*_LIMITS), *_store_limits(job)]
    work = job.events.of("work_progress", "work_counted")
    if not limits or not work:
        return
    waiting = {rank for event in limits if (rank := _rank(event)) is not None}
    per_writer: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in work:
        per_writer[(event.line.file, event.line.stream)].append(event)
    for events in per_writer.values():
        events.sort(key=lambda event: event.line.number)
        started = [e for e in events if 0 < _done(e) < _total(e)]
        last = started[-1] if started else None
        if last is None or any(_done(e) >= _total(e) and e.line.number > last.line.number for e in events):
            continue
        if not _moved_meanwhile(last, limits):
            continue
        named = last.fields.get("working_rank", last.rank)
        rank = named if isinstance(named, int) and named not in waiting else _only_absent(waiting, job)
        moving = [e for e in started if e.line.number >= last.line.number - 200]
        yield Fact(
            "work_outlasts_limit",
            {
                "activity": last.fields.get("activity"),
                "done": _done(last),
                "total": _total(last),
                "remaining": last.fields.get("remaining"),
                "timeout_ms": next((e.fields["timeout_ms"] for e in limits if "timeout_ms" in e.fields), None),
            },
            ranks=() if rank is None else (rank,),
            hosts=() if last.host is None else (last.host,),
            affected=tuple(sorted(waiting - {rank})),
            time=moving[0].time,
            evidence=tuple(_work_evidence(moving, limits)),
        )


def _store_limits(job: Job) -> list[Event]:
    """Waits for rank 0's unique id that ran out of time: the others come to their first collective, rank 0 does not."""
    events = job.events.of("unique_id_missing")
    return [event for event in events if "timeout" in str(event.fields.get("error", "")).lower()]


def _done(event: Event) -> int:
    return event.number("done") or 0


def _total(event: Event) -> int:
    return event.number("total") or 0


def _moved_meanwhile(last: Event, limits: list[Event]) -> bool:
    """The work still moved in the second half of a wait; without times, only what one rank does alone counts."""
    ends = [(event.time, event.fields.get("timeout_ms")) for event in limits]
    timed = [(end, limit / 1000) for end, limit in ends if end is not None and isinstance(limit, int)]
    if last.time is not None and timed:
        return any(last.time >= end - limit / 2 for end, limit in timed)
    return bool(_SINGLE_RANK_WORK.search(str(last.fields.get("activity", ""))))


def _work_evidence(moving: list[Event], limits: list[Event]) -> Iterator[Evidence]:
    yield from (evidence_of(e, "still at work") for e in [moving[-1], *moving[:5]])
    yield from (evidence_of(e, "the limit of its peers") for e in limits[:4])


def _only_absent(waiting: set[int], job: Job) -> int | None:
    """The one rank that does not wait; rank 0 when it does not (the main process prepares data by custom)."""
    if not waiting:
        return None
    world = job.world_size or max(waiting) + 1
    absent = set(range(world)) - waiting
    return 0 if 0 in absent else next(iter(absent)) if len(absent) == 1 else None


def _rank(event: Event) -> int | None:
    if event.line.rank is not None:
        return event.line.rank
    inside = event.number("group_rank")
    return event.rank if inside is None else inside


def _after_end(job: Job) -> Iterator[Fact]:
    """A stuck watchdog says nothing of training when training is over."""
    ended = job.events.of("run_ended", "process_group_not_destroyed", "abort_timed_out")
    for stuck in job.events.of("watchdog_stuck", "watchdog_heartbeat_lost"):
        before = list(itertools.islice((e for e in ended if _precedes(e, stuck)), 4))
        if before:
            evidence = tuple(evidence_of(e) for e in [stuck, *before])
            hosts = (stuck.host,) if stuck.host else ()
            yield Fact(
                "stuck_after_end",
                {"stuck_s": stuck.fields.get("stuck_s")},
                hosts=hosts,
                time=before[0].time,
                evidence=evidence,
            )


def _after_timeout(job: Job) -> Iterator[Fact]:
    """Whether the watchdogs stand still since a timeout: ending the communicators then waits for the same peers."""
    timeouts = sorted((e for e in job.events.of("watchdog_timeout") if e.time is not None), key=_time)
    times = [_time(event) for event in timeouts]
    for stuck in job.events.of("watchdog_stuck"):
        length = stuck.number("stuck_s")
        if stuck.time is None or length is None:
            continue
        since = stuck.time - length
        at = bisect.bisect_left(times, since - _AROUND_S)
        if at < len(times) and times[at] <= since + _AROUND_S:
            evidence = (evidence_of(timeouts[at], "the timeout"), evidence_of(stuck, "stands still since then"))
            yield Fact("stuck_after_timeout", {"stuck_s": length}, time=times[at], evidence=evidence)


def _time(event: Event) -> float:
    return event.time or 0.0


def _precedes(one: Event, other: Event) -> bool:
    if one.line.file == other.line.file:
        return one.line.number < other.line.number
    return one.time is not None and other.time is not None and one.time <= other.time


def _submitters(job: Job) -> Iterator[Fact]:
    """Ray's list of ranks that did not join."""
    for event in job.events.of("ray_ranks_missing"):
        for rank in numbers(event.fields.get("missing_ranks")):
            fields: dict[str, Value] = {"tensor": None}
            yield Fact("submitters_missing", fields, ranks=(rank,), time=event.time, evidence=(evidence_of(event),))


def _silent_tasks(job: Job) -> Iterator[Fact]:
    """Tasks whose heartbeats JAX's coordination service misses, by one line or by the list below a heading."""
    headings = job.events.of("jax_tasks_unhealthy")
    events = list(job.events.of("jax_heartbeat_lost"))
    for heading in headings:
        file, number = heading.line.file, heading.line.number
        events += [e for e in job.events.of("jax_task") if e.line.file == file and 0 <= e.line.number - number <= 64]
    tasks = tuple(sorted({task for e in events if (task := e.number("task")) is not None}))
    said = [*headings[:2], *events[:6]]
    if said:
        yield Fact(
            "tasks_silent",
            {"tasks": tasks},
            ranks=tasks,
            time=said[0].time,
            evidence=tuple(evidence_of(e) for e in said),
        )


def _tasks(job: Job) -> Iterator[Fact]:
    barriers = job.events.of("jax_barrier_timeout")
    for barrier in barriers:
        named = [
            e
            for e in job.events.of("jax_task")
            if e.line.file == barrier.line.file and 0 <= e.line.number - barrier.line.number <= 600
        ]
        ranks = tuple(sorted({e.number("task") or 0 for e in named}))
        if ranks:
            evidence = tuple(evidence_of(e) for e in [barrier, *named[:8]])
            yield Fact(
                "tasks_absent",
                {"barrier": barrier.fields.get("barrier")},
                ranks=ranks,
                time=barrier.time,
                evidence=evidence,
            )
    lost = job.events.of("jax_service_lost")
    if lost and not barriers and not job.events.has("exception", "jax_tasks_unhealthy", "jax_heartbeat_lost"):
        evidence = tuple(evidence_of(e, "the service is gone") for e in lost[:4])
        last = [p for p in job.processes if p.last_line is not None and p.rank == 0]
        evidence += tuple(
            Evidence(p.last_line.location, p.last_line.raw, "the last words of process 0") for p in last if p.last_line
        )
        yield Fact("coordinator_left", {}, ranks=(0,), time=lost[0].time, evidence=evidence)
