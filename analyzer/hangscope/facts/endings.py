"""Facts about a job that ended well, or runs as far as one can see."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.groups import Communicator
from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Evidence, Fact, Line
from hangscope.parse.complaints import KIND as COMPLAINT

KINDS = {
    "job_ended_well": FactKind(("ended", "size"), "Every rank that left lines destroyed its communicators in order."),
    "job_said_done": FactKind(
        ("ranks_done",), "The program itself says that its run ended, on every rank that says anything."
    ),
    "job_runs_well": FactKind(
        ("ranks_ready", "size"),
        "Every rank of the world completed its init, and all made the same calls as far as the logs go.",
    ),
    "teardown_incomplete": FactKind(
        ("ended", "size"), "Some ranks destroyed the world's communicator, others made the same calls and did not."
    ),
    "nothing_recognized": FactKind(("lines",), "No line of the inputs is of a kind that is known."),
    "ranks_without_evidence": FactKind(("known", "size"), "Of a good part of the ranks there is no line at all."),
}
_FEW = 0.75


def find(job: Job) -> Iterator[Fact]:
    """Signs that all is well, and how much of the job they cover."""
    world = [m for m in job.communicators if m.size == job.world_size and m.parent is None]
    size = job.world_size or len(world)
    silent = job.silent_ranks()
    if job.ranks and silent and len(job.ranks) < _FEW * size:
        seen = tuple(sorted(job.ranks))
        yield Fact("ranks_without_evidence", {"known": seen, "size": size}, affected=silent)
    lines = sum(record.lines for record in job.sources)
    known = any(event.kind != COMPLAINT for event in job.events) or job.recordings.ranks or job.stacks.positions
    if lines and not known and not job.stuck:
        yield Fact("nothing_recognized", {"lines": lines})
    yield from _said_done(job)
    if not world or job.stuck or silent:
        return
    ended = [m for m in world if m.ended is not None and m.end_action != "Abort"]
    if len(ended) == len(world):
        evidence = tuple(_evidence(line, "the communicator ended in order") for m in ended[:4] if (line := m.ended))
        yield _fact("job_ended_well", {"ended": _processes(ended), "size": size}, world, evidence)
    elif ended and (left := _left(world, ended, job.lost_tails)):
        yield _teardown(job, ended, left)
    elif all(m.complete is not None for m in world) and not (job.turned and len(job.calls)):
        evidence = tuple(_evidence(line, "init complete") for m in world[:4] if (line := m.complete))
        yield _fact("job_runs_well", {"ranks_ready": _processes(world), "size": size}, world, evidence)


def _processes(members: list[Communicator]) -> int:
    """How many processes they are of: one may be in several communicators of all ranks."""
    return len({id(member.process) for member in members})


def _left(world: list[Communicator], ended: list[Communicator], cut: frozenset[str]) -> list[Communicator]:
    """Objects without an end where it would show; none where each process has one of either, as out of order."""
    left = [m for m in world if m.ended is None and not set(m.process.files) & cut]
    return left if any(all(m.process is not other.process for other in ended) for m in left) else []


def _said_done(job: Job) -> Iterator[Fact]:
    """The program's own last words ("training complete"): by rank when they have one, else for the whole job."""
    said = job.events.of("run_ended")
    done = {event.rank for event in said if event.rank is not None}
    if not said or job.stuck or (done and done != set(job.ranks)):
        return
    evidence = tuple(evidence_of(event, "the program says it is done") for event in said[-4:])
    yield Fact("job_said_done", {"ranks_done": tuple(sorted(done))}, evidence=evidence)


def _teardown(job: Job, ended: list[Communicator], left: list[Communicator]) -> Fact:
    ranks = tuple(sorted({m.process.rank for m in left if m.process.rank is not None}))
    hosts = tuple(sorted({m.process.host for m in left if m.process.host}))
    evidence = tuple(
        _evidence(line, "the last line of a rank that did not end") for m in left[:4] if (line := m.process.last_line)
    )
    done = tuple(_evidence(line, "this rank ended in order") for m in ended[:4] if (line := m.ended))
    affected = tuple(sorted({m.process.rank for m in ended if m.process.rank is not None}))
    size = job.world_size or len(ended) + len(left)
    return Fact(
        "teardown_incomplete",
        {"ended": len(ended), "size": size},
        ranks=ranks,
        hosts=hosts,
        affected=affected,
        evidence=(*done, *evidence),
    )


def _fact(kind: str, fields: dict[str, int], world: list[Communicator], evidence: tuple[Evidence, ...]) -> Fact:
    complete = tuple(_evidence(line, "init complete") for m in world if (line := m.complete))
    return Fact(kind, dict(fields), evidence=(*evidence, *complete))


def _evidence(line: Line, why: str) -> Evidence:
    return Evidence(line.location, line.raw, why)
