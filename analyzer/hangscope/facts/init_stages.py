"""Tells how far each rank came in the init of a communicator, and what NCCL waits for there.

The order of the lines, by release, is that of NCCL 2.12 to 2.32: up to 2.22 Init START is printed after the bootstrap,
from 2.23 on before it. Channel lines and "Connected" before Init COMPLETE are those of releases (or settings) that
connect at init; others connect at the first call.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hangscope.align.groups import Communicator, Group
from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts.nccl_releases import releases_of
from hangscope.model import Event
from hangscope.records import dataclass


class Stage(enum.IntEnum):
    """How far an init came, in order."""

    LOADED = 0
    NETWORK = 1
    BEGUN = 2
    BOOTSTRAPPED = 3
    TOPOLOGY = 4
    LAYOUT = 5
    CONNECTING = 6
    CONNECTED = 7
    COMPLETE = 8


NAMES = {
    Stage.LOADED: "NCCL loaded",
    Stage.NETWORK: "network chosen",
    Stage.BEGUN: "Init START",
    Stage.BOOTSTRAPPED: "bootstrap done",
    Stage.TOPOLOGY: "topology search",
    Stage.LAYOUT: "rings and trees laid out",
    Stage.CONNECTING: "connecting to neighbours",
    Stage.CONNECTED: "connected",
    Stage.COMPLETE: "Init COMPLETE",
}
WAITING_FOR = {
    Stage.LOADED: "the choice of its network, or a local step before it",
    Stage.NETWORK: "all ranks to reach the root of the bootstrap",
    Stage.BEGUN: "all ranks to reach the root of the bootstrap",
    Stage.BOOTSTRAPPED: "the first all-gather, or a local step (driver, NVML, plugin)",
    Stage.TOPOLOGY: "the slowest topology search, in the second all-gather",
    Stage.LAYOUT: "the set-up of transports with its neighbours",
    Stage.CONNECTING: "a neighbour to accept its connection",
    Stage.CONNECTED: "the barrier with the ranks of its host",
    Stage.COMPLETE: "nothing: its init is complete",
}
_OF_KIND = {
    "bootstrap_interface": Stage.LOADED,
    "net_interface": Stage.LOADED,
    "nccl_version": Stage.LOADED,
    "cuda_driver_version": Stage.LOADED,
    "network_chosen": Stage.NETWORK,
    "bootstrap_timings": Stage.BOOTSTRAPPED,
    "topology_search": Stage.TOPOLOGY,
    "mnnvl_fabric": Stage.TOPOLOGY,
    "comm_layout": Stage.LAYOUT,
    "ring_order": Stage.LAYOUT,
    "trees": Stage.LAYOUT,
    "channel_edge": Stage.CONNECTING,
    "connected": Stage.CONNECTED,
    "channel_counts": Stage.CONNECTED,
}
_START_IS_FIRST = (2, 23)


@dataclass(frozen=True, slots=True)
class Stand:
    """How far one process came in one init.

    Attributes:
        process: whose.
        rank: its rank in the job, else in the communicator; None when nobody knows.
        stage: the last that its lines show.
        shown_by: the line that shows it, None for the end of an init that was told by another line.
        cut: the end of its log is lost: it may have come further.
    """

    process: Process
    rank: int | None
    stage: Stage
    shown_by: Event | None
    cut: bool


@dataclass(frozen=True, slots=True)
class Init:
    """An init that not all have completed, with all who began it; `group` is None before any rank says its rank."""

    group: Group | None
    name: str
    stands: tuple[Stand, ...]


def unfinished_inits(job: Job) -> list[Init]:
    """The inits that some have begun and not completed, the largest first.

    Processes that have not begun any communicator count as in the init of the world, when that is unfinished.
    """
    inside = {id(comm.process) for comm in job.communicators}
    waiting = [stand for p in job.processes if id(p) not in inside and (stand := _early(job, p)) is not None]
    found = []
    for group in job.groups:
        begun = [m for m in group.members if m.start is not None]
        if not begun or all(m.complete is not None for m in begun):
            continue
        stands = [stand for m in begun if (stand := _in_group(job, m)) is not None]
        if group.size == job.world_size or job.world_size is None:
            stands += _named(waiting, group)
        found.append(Init(group, group.name, _ordered(stands)))
    if not job.communicators and waiting:
        found.append(Init(None, "the first communicator", _ordered(waiting)))
    return sorted(found, key=lambda init: -len(init.stands))


def start_precedes_bootstrap(job: Job, processes: Iterable[Process]) -> bool:
    """Whether these processes print Init START before the bootstrap (2.23 and later); False when nothing tells.

    Where it stands behind the bootstrap (2.18.3 to 2.22), every rank has come when one prints it.
    """
    told = {_starts_first(job, process) for process in processes}
    return True in told and False not in told


def _named(early: list[Stand], group: Group) -> list[Stand]:
    """Those who began no init; the only one of unknown rank has the only rank that is missing."""
    missing = group.missing_group_ranks
    nameless = [stand for stand in early if stand.rank is None]
    if len(missing) != 1 or len(nameless) != 1:
        return early
    return [replace(stand, rank=missing[0]) if stand.rank is None else stand for stand in early]


def _ordered(stands: list[Stand]) -> tuple[Stand, ...]:
    return tuple(sorted(stands, key=lambda s: (s.rank is None, s.rank or 0, s.process.host or "", s.process.files)))


def _early(job: Job, process: Process) -> Stand | None:
    """How far a process came that began no communicator; None for one of which NCCL printed nothing."""
    # the bare version line of up to 2.21 has no header, and so no process of its own
    reached = [(_OF_KIND[e.kind], e) for e in process.events if e.kind in _OF_KIND and e.line.header]
    if not reached:
        return None
    # whatever comes later than the network comes after a START, which is lost then
    stage, event = max(reached, key=lambda one: one[0])
    return _stand(job, process, process.rank, stage, event)


def _in_group(job: Job, member: Communicator) -> Stand | None:
    """How far a member came: by its lines between this Init START and the next one, or Init COMPLETE."""
    process = member.process
    rank = process.rank if process.rank is not None else member.group_rank
    if member.complete is not None:
        event = next((e for e in process.events if e.line is member.complete), None)
        return _stand(job, process, rank, Stage.COMPLETE, event)
    events = iter(process.events)
    start = next((e for e in events if e.line is member.start), None)
    if start is None:
        return None
    stage, shown = (Stage.BOOTSTRAPPED if _starts_first(job, process) is False else Stage.BEGUN), start
    for event in _until_next(events):
        if _OF_KIND.get(event.kind, Stage.LOADED) > stage:
            stage, shown = _OF_KIND[event.kind], event
    return _stand(job, process, rank, stage, shown)


def _until_next(events: Iterator[Event]) -> Iterator[Event]:
    """Events up to the next Init START of the process."""
    for event in events:
        if event.kind == "comm_init_start":
            return
        yield event


def _starts_first(job: Job, process: Process) -> bool | None:
    """Whether Init START comes before the bootstrap in the release of this process; None when nothing tells."""
    if job.events.has("bootstrap_timings"):
        return True
    releases = releases_of(process)
    return None if releases is None else releases.high >= _START_IS_FIRST


def _stand(job: Job, process: Process, rank: int | None, stage: Stage, event: Event | None) -> Stand:
    cut = bool(process.files) and all(file in job.lost_tails for file in process.files)
    return Stand(process, rank, stage, event, cut and stage is not Stage.COMPLETE)
