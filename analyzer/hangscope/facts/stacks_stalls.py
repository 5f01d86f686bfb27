"""Facts about ranks whose stacks show them busy or blocked elsewhere while their peers wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hangscope.align.job import Job
from hangscope.align.stacks import Position
from hangscope.facts import FactKind
from hangscope.facts.attached import stood_still
from hangscope.facts.collect import evidence_of
from hangscope.facts.stack_lines import frame_line, lines_of, where_of
from hangscope.facts.stack_picture import Picture, has_signs_of_hang, picture_of
from hangscope.facts.stack_stands import NAMED, Stand, hosts_of, named, names_of, ranks_of
from hangscope.facts.stack_threads import blocked_pair, busy_helper
from hangscope.model import Evidence, Fact, Value

_FIELDS = (*NAMED, "who_does", "state", "where", "peers_call", "sure", "again", "active", "moving", "detail", "pid")
KINDS = {
    "stack_loads_data": FactKind(_FIELDS, "A rank reads samples, or waits for the workers of its loader."),
    "stack_checkpoints": FactKind(_FIELDS, "A rank writes or reads a checkpoint."),
    "stack_compiles": FactKind(_FIELDS, "A rank compiles."),
    "stack_computes": FactKind(_FIELDS, "A rank runs its own code, or sleeps in it, while the others wait."),
    "stack_suspect": FactKind(
        _FIELDS, "A rank is not in the call of the others, and its stack does not tell whether that is normal."
    ),
    "stack_locked": FactKind(_FIELDS, "Threads of a rank wait for locks, for each other or for the interpreter."),
    "stack_build_lock": FactKind(_FIELDS, "A rank waits for a lock file of a build or a download."),
    "stack_blocked": FactKind(_FIELDS, "A rank waits for a queue, a thread, or a child process of its own."),
    "stack_outlasts_limit": FactKind(
        (*_FIELDS, "timeout_ms"), "A rank was at work, elsewhere in each dump, when its peers' wait ran out."
    ),
    "stack_refused": FactKind(_FIELDS, "A process could not be stopped to look at its stack, while its peers wait."),
}

_STATES = {
    "stack_loads_data": ("loading-data", "waiting-for-loader"),
    "stack_checkpoints": ("saving-checkpoint", "loading-checkpoint"),
    "stack_compiles": ("compiling",),
    "stack_build_lock": ("build-lock",),
    "stack_locked": ("lock-wait",),
    "stack_blocked": ("queue-wait", "thread-join", "child-wait", "store-wait"),
    "stack_computes": ("running", "importing", "backward", "optimizer"),
}
_DOING = {
    "loading-data": "read{s} or prepare{s} samples",
    "waiting-for-loader": "wait{s} for the workers of the data loader",
    "saving-checkpoint": "write{s} a checkpoint",
    "loading-checkpoint": "read{s} a checkpoint",
    "compiling": "compile{s}",
    "lock-wait": "wait{s} for a lock",
    "build-lock": "wait{s} for a lock file",
    "queue-wait": "wait{s} for a queue or a pipe",
    "thread-join": "wait{s} for a thread",
    "child-wait": "wait{s} for a child process",
    "store-wait": "wait{s} for a key of the store that nobody sets",
    "running": "run{s} the job's own code or sleep{s} in it",
    "importing": "import{s} modules",
    "backward": "stand{s} in the backward pass",
    "optimizer": "stand{s} in the optimizer",
    "unknown": "cannot be looked at",
}
_RUNS = "run{s} the job's own code"
_WANTS_GIL = "wait{s} for the interpreter's lock (GIL)"
_LIMITS = ("watchdog_timeout", "gloo_wait_timeout", "monitored_barrier_missed", "blocking_wait_timeout")
_CULPRITS, _PEERS = 3, 2


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    picture = picture_of(job)
    if picture.moves and not has_signs_of_hang(job):
        return
    refused = [stand for stand in picture.stands if stand.refused]
    if refused and picture.peers:
        yield _fact("stack_refused", refused, picture)
    yield from _loaders_alone(job, picture)
    told = False
    for kind, culprits in _by_kind(picture).items():
        if kind == "stack_computes" and (told or not _stands_out(culprits, picture)):
            continue
        if culprits:
            told = True
            fact = _fact(kind, culprits, picture)
            stuck = has_signs_of_hang(job) or _all_stood_still(culprits, picture, job)
            if kind == "stack_computes" and not stuck and _may_be_normal(culprits, picture):
                fact = replace(fact, kind="stack_suspect")
            if kind == "stack_checkpoints" and fact.fields["moving"] and not has_signs_of_hang(job):
                # one that is being written is nothing bad by itself
                fact = replace(fact, fields={**fact.fields, "sure": False})
            yield fact
            yield from _outlasted(fact, job)
    blind = [stand for stand in picture.stands if stand.state == "native"]
    if not told and 0 < len(blind) < len(picture.waiting):
        # frames of C alone: where it is not shows, only that it is not in the others' call
        yield replace(_fact("stack_computes", blind, picture), kind="stack_suspect")


def _stands_out(culprits: Sequence[Stand], picture: Picture) -> bool:
    """Few run while the others wait; where more do, the job may just go on."""
    if all(stand.active or stand.still for stand in culprits):
        return 0 < len(culprits) <= len(picture.peers)
    return len(culprits) == 1 <= len(picture.peers) or 3 * len(culprits) <= len(picture.stands)


def _may_be_normal(culprits: Sequence[Stand], picture: Picture) -> bool:
    """They stand in a function that the others are in as well, as between two steps of a healthy run."""
    shared = {step[:2] for peer in picture.peers for step in peer.own_path}
    return any(
        stand.own_path[:1] and stand.own_path[0][:2] in shared and not (stand.active and stand.still)
        for stand in culprits
    )


def _all_stood_still(culprits: Sequence[Stand], picture: Picture, job: Job) -> bool:
    """No thread that matters woke up between two looks: no slow step of a healthy run looks like that."""
    still = stood_still(job)
    return all(stand.still and (stand.host, stand.pid) in still for stand in (*culprits, *picture.peers))


def _outlasted(fact: Fact, job: Job) -> Iterator[Fact]:
    """The same work as longer than a limit that ran out, when the dumps show it moving."""
    limits = job.events.of(*_LIMITS)
    if limits and fact.fields["moving"] and fact.kind not in ("stack_locked", "stack_build_lock", "stack_blocked"):
        said = tuple(evidence_of(event, "the limit of its peers") for event in limits[:2])
        fields = {
            **fact.fields,
            "timeout_ms": next((e.fields["timeout_ms"] for e in limits if "timeout_ms" in e.fields), None),
        }
        evidence = (*fact.evidence[:6], *said)
        yield replace(fact, kind="stack_outlasts_limit", fields=fields, evidence=evidence)


def _by_kind(picture: Picture) -> dict[str, list[Stand]]:
    """The busy processes by what they do; what tells most first."""
    found: dict[str, list[Stand]] = {kind: [] for kind in _STATES}
    for stand in picture.busy:
        kind = _kind_of(stand)
        if kind is not None:
            found[kind].append(stand)
    if found["stack_compiles"]:
        # who waits for the lock of a build that is going on waits for the rank that builds
        found["stack_build_lock"] = []
    return found


def _kind_of(stand: Stand) -> str | None:
    if _worker_locked(stand) or _wants_the_gil(stand) or (stand.state == "running" and blocked_pair(stand)):
        return "stack_locked"
    if stand.state in ("lock-wait", "thread-join", "queue-wait") and busy_helper(stand):
        return "stack_computes"
    return next((kind for kind, states in _STATES.items() if stand.state in states), None)


def _worker_locked(stand: Stand) -> bool:
    """Its loader's worker waits for a lock: one that was held when the worker was forked stays held in it."""
    return stand.state == "waiting-for-loader" and any(c.state == "lock-wait" for c in stand.children)


def _wants_the_gil(stand: Stand) -> bool:
    thread = stand.position.thread
    return thread is not None and any("Waiting for the GIL" in note for note in thread.notes)


def _loaders_alone(job: Job, picture: Picture) -> Iterator[Fact]:
    """A loader's worker at work, of a rank whose own dump is not there, while others wait."""
    dumped = set(ranks_of(picture.stands))
    alone = [
        p
        for p in job.stacks.positions
        if p.role == "loader" and p.state == "loading-data" and p.rank is not None and p.rank not in dumped
    ]
    if alone and picture.waiting:
        last = {(p.rank, p.dump.pid): p for p in alone}
        yield _fact("stack_loads_data", [Stand(p, (p,), None, (), ()) for p in last.values()], picture)


def _fact(kind: str, culprits: list[Stand], picture: Picture) -> Fact:
    first, peers = culprits[0], picture.peers
    sure = 0 < len(culprits) <= len(peers)
    active = all(stand.active for stand in culprits)
    again = all(stand.still for stand in culprits)
    form = _WANTS_GIL if _wants_the_gil(first) else _DOING.get(first.state, "stand{s} elsewhere")
    if kind == "stack_computes":
        sure = sure and (active or again)
        form = _RUNS if active and first.state == "running" else form
    doing = form.format(s="s")
    evidence = [
        *(line for s in culprits[:_CULPRITS] for v in s.views[:2] for line in lines_of(v, f"{s.name} {doing}")),
        *(line for s in culprits[:_CULPRITS] for line in _further_threads(s)),
        *(line for s in culprits[:_CULPRITS] for line in _children(s)),
        *(line for p in peers[:_PEERS] for line in lines_of(p.position, f"{p.name} waits")[:2]),
    ]
    fields: dict[str, Value] = {
        **named(culprits, peers),
        "who_does": f"{names_of(culprits)} {form.format(s='s' if len(culprits) == 1 else '')}",
        "state": first.state,
        "where": first.where or None,
        "peers_call": _calls_of(peers),
        "sure": sure,
        "again": again,
        "active": active,
        "moving": any(stand.works for stand in culprits),
        "detail": _detail(culprits),
        "pid": first.pid,
    }
    culprit_ranks = ranks_of(culprits)
    return Fact(
        kind,
        fields,
        culprit_ranks,
        hosts_of(culprits),
        affected=tuple(rank for rank in ranks_of(peers) if rank not in culprit_ranks),
        time=first.position.dump.time,
        evidence=tuple(evidence),
    )


def _calls_of(peers: Sequence[Stand]) -> str | None:
    """What the peers wait in: the call of most, and how many others there are; None for no peers."""
    counted = Counter(peer.call for peer in peers).most_common()
    if len(counted) < 2:
        return counted[0][0] if counted else None
    others = len(counted) - 1
    return f"{counted[0][0]} and {others} other call{'s' if others > 1 else ''}"


def _detail(culprits: Sequence[Stand]) -> str | None:
    """What children or other threads add, as a sentence."""
    for stand in culprits:
        for child in _at_work(stand):
            doing = _DOING.get(child.state, "stand{s}").format(s="s")
            return f"One of the workers {doing} in {where_of(child)}."
        pair = blocked_pair(stand)
        if pair is not None:
            return f"Its thread {pair.name} is blocked as well, in {pair.frame.function} (line {pair.frame.line})."
    return None


def _at_work(stand: Stand) -> list[Position]:
    """The children that stand at something."""
    return [child for child in stand.children if child.state not in ("loader-idle", "noise", "unknown", "server-idle")]


def _children(stand: Stand) -> list[Evidence]:
    return [line for c in _at_work(stand)[:2] for line in lines_of(c, f"a worker of {stand.name}")[:2]]


def _further_threads(stand: Stand) -> list[Evidence]:
    """Where the thread stands that is blocked as well, in every view of this moment."""
    pair = blocked_pair(stand)
    if pair is None:
        return []
    found = []
    for view in stand.views[:2]:
        for thread in view.dump.threads:
            if thread.thread == pair.thread.thread and thread is not view.thread:
                frame = next((f for f in thread.frames if f.line == pair.frame.line and not f.native), thread.frames[0])
                found += frame_line(view, frame, f"another thread of {stand.name} is blocked as well")
    return found
