"""Facts about the dumps as a whole: all alike, some not there, all still at the start, all at the end, or moving on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangscope.align.job import Job
from hangscope.align.stacks import Position
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.stack_lines import frame_line, lines_of
from hangscope.facts.stack_picture import Picture, has_signs_of_hang, picture_of
from hangscope.facts.stack_stands import NAMED, ON_GPU, Stand, hosts_of, named, ranks_of
from hangscope.model import Evidence, Fact, Value

_FIELDS = (*NAMED, "where", "in_call", "count", "absent", "on_gpu", "again", "detail", "pid")
KINDS = {
    "stacks_read": FactKind(_FIELDS, "There are stack dumps of the job's processes."),
    "stacks_move": FactKind(_FIELDS, "Processes that waited in one dump stand elsewhere in the next: the job goes on."),
    "stacks_alike": FactKind(
        _FIELDS, "All dumped processes stand in the same call, and nobody is known to be missing."
    ),
    "stacks_partial": FactKind(_FIELDS, "All dumped processes wait in the same call, and some ranks have no dump."),
    "stacks_starting": FactKind(_FIELDS, "All dumped processes are still in init_process_group."),
    "stacks_still_starting": FactKind(_FIELDS, "Some processes are still in init_process_group, others past it."),
    "stack_agents_wait": FactKind(("count", "expected", "fewer"), "Launchers wait in the rendezvous for other hosts."),
    "stack_exit_waits": FactKind(_FIELDS, "An interpreter waits at its exit for a thread that does not end."),
    "stacks_tear_down": FactKind(_FIELDS, "All dumped processes destroy their process groups."),
}
_NODES = expression(r"--nnodes[=\s](?:\d+:)?(\d{1,6})(?=\s|$)")


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    picture = picture_of(job)
    yield from _agents(job)
    stands = picture.stands
    if not stands:
        return
    yield _fact("stacks_read", stands, job)
    if picture.moves and not has_signs_of_hang(job):
        yield _fact("stacks_move", [s for s in stands if s.moved] or stands, job)
        return
    yield from _at_the_end(picture, job)
    if len(picture.starting) == len(stands):
        yield _fact("stacks_starting", stands, job)
    elif picture.starting and picture.waiting and not picture.busy:
        yield _fact("stacks_still_starting", picture.starting, job)
    if not picture.busy and not picture.leaving and not picture.idle and not picture.starting:
        yield from _alike(picture, job)


def _alike(picture: Picture, job: Job) -> Iterator[Fact]:
    together = picture.waiting or picture.on_gpu
    if len({(s.state, s.position.operation, s.path) for s in together if s.path}) > 1:
        return
    if not together or len(together) + (0 if not picture.waiting else len(picture.on_gpu)) < len(picture.stands):
        return
    absent = _absent(picture, job)
    alone = len(picture.stands) == 1 and not job.world_size
    yield _fact("stacks_partial" if absent or alone else "stacks_alike", together, job, absent)


def _absent(picture: Picture, job: Job) -> tuple[int, ...]:
    """The ranks of the job of which there is no dump, as far as the dumps' own ranks are known."""
    dumped = ranks_of(picture.stands)
    if len(dumped) < len(picture.stands):
        missing = (job.world_size or len(job.ranks)) - len(picture.stands)
        return tuple(rank for rank in job.ranks if rank not in dumped) if missing > 0 else ()
    world = max(job.world_size or 0, max((*job.ranks, *dumped), default=-1) + 1)
    return tuple(rank for rank in range(world) if rank not in dumped)


def _at_the_end(picture: Picture, job: Job) -> Iterator[Fact]:
    exiting = [stand for stand in picture.leaving if stand.state != "teardown"]
    if exiting and not picture.waiting:
        yield _fact("stack_exit_waits", exiting, job, detail=_thread_waited_for(exiting[0]))
    elif len(picture.leaving) == len(picture.stands):
        yield _fact("stacks_tear_down", picture.leaving, job)


def _thread_waited_for(stand: Stand) -> str | None:
    for thread, state in zip(stand.position.dump.threads, stand.position.states, strict=False):
        if thread is not stand.position.thread and state not in ("noise", "unknown", "native"):
            return thread.name or thread.thread
    return None


def _agents(job: Job) -> Iterator[Fact]:
    agents = [p for p in job.stacks.positions if p.role == "launcher" and p.state == "rendezvous"]
    if not agents:
        return
    hosts = tuple(sorted({p.host for p in agents if p.host}))
    expected = max((int(found[1]) for p in agents if (found := _NODES.search(p.dump.command))), default=0)
    evidence = tuple(line for p in _by_host(agents) for line in lines_of(p, "this launcher waits for others")[:2])
    count = len(_by_host(agents))
    fields: dict[str, Value] = {"count": count, "expected": expected or None, "fewer": count < expected}
    yield Fact("stack_agents_wait", fields, hosts=hosts, evidence=evidence)


def _by_host(agents: Sequence[Position]) -> list[Position]:
    return list({(p.host, p.dump.pid): p for p in agents}.values())


def _fact(
    kind: str, stands: Sequence[Stand], job: Job, absent: tuple[int, ...] = (), detail: str | None = None
) -> Fact:
    first = stands[0]
    blamed = kind in ("stack_exit_waits", "stacks_still_starting")
    fields: dict[str, Value] = {
        **named(stands, ()),
        "where": first.where or None,
        "in_call": first.call,
        "count": len(stands),
        "absent": absent or None,
        "on_gpu": any(_on_gpu(stand) for stand in stands) or job.versions.nccl is not None,
        "again": all(stand.before is not None and not stand.moved for stand in stands),
        "detail": detail,
        "pid": first.pid,
    }
    ranks = ranks_of(stands)
    return Fact(
        kind,
        fields,
        ranks if blamed else (),
        hosts_of(stands) if blamed else (),
        affected=() if blamed else ranks,
        time=first.position.dump.time,
        evidence=tuple(_evidence(stands)),
    )


def _on_gpu(stand: Stand) -> bool:
    """Whether what it waits for runs on a GPU: NCCL spins, gloo's threads sleep."""
    if stand.state in ON_GPU:
        return True
    frames = stand.position.thread.frames if stand.position.thread is not None else ()
    return stand.active or any(frame.native and "cuda" in (frame.file or "") for frame in frames)


def _evidence(stands: Sequence[Stand]) -> Iterator[Evidence]:
    """One or two lines of some processes, those at different places first."""
    places: dict[object, Stand] = {}
    for stand in stands:
        places.setdefault((stand.state, stand.path), stand)
    chosen = [*places.values(), *(stand for stand in stands if stand not in places.values())]
    for stand in chosen[:5]:
        for view in stand.views[:2]:
            yield from lines_of(view, f"{stand.name} stands here")[:2]
            others = [t for t in view.dump.threads if t is not view.thread and t.frames and t.frames[0].at is not None]
            if stand.state == "exit-wait":
                why = "the thread for which it waits"
                yield from (line for t in others[:2] for line in frame_line(view, t.frames[0], why))
