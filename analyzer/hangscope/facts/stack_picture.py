"""All stands of a job side by side: who waits, who is busy, who leaves, and whether anything moves."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Sequence

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts.attached import going_on
from hangscope.facts.deaths import find_deaths
from hangscope.facts.stack_stands import ON_GPU, Stand, find_stands
from hangscope.facts.stack_strangers import of_the_job
from hangscope.records import dataclass

LEAVING = frozenset({"teardown", "exit-wait"})
_NEUTRAL = frozenset({"unknown", "native", "noise", "launcher", "loader-idle", "server-idle"})
_TIMEOUTS = (
    *("watchdog_timeout", "blocking_wait_timeout", "gloo_wait_timeout", "monitored_barrier_missed"),
    *("monitored_barrier_timeout", "store_barrier_timeout", "watchdog_stuck", "desync_not_joined"),
)
_PARENTS = frozenset({"vllm-engine-waits-for-workers", "ray-wait", "torch-old-launcher-join", "other-launcher"})
"""Patterns of processes that wait for the ranks that they started."""

_DEADLY = frozenset({"SIGKILL", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"})
_PROGRESS = expression(
    r"\b(?:step|iter(?:ation)?|epoch|batch|global_step|it/s|samples?/s|tokens?/s)\b.{0,24}\d|\d.{0,8}\b(?:it/s|s/it)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Picture:
    """The stands of a job, by what they mean for each other.

    Attributes:
        stands: all training processes.
        waiting: those in a call that ends only when others make theirs.
        starting: those that have not got past init_process_group.
        on_gpu: those that wait for the GPU, or may do so.
        leaving: those that tear down or exit.
        idle: servers without requests.
        busy: those that do something of their own.
        peers: those for whom somebody busy is missing: the waiting ones, else what comes next to it.
        moves: the job goes on: a process that waited stands elsewhere in its next dump, or its log goes on,
            or attach saw all of them go on.
    """

    stands: tuple[Stand, ...]
    waiting: tuple[Stand, ...]
    starting: tuple[Stand, ...]
    on_gpu: tuple[Stand, ...]
    leaving: tuple[Stand, ...]
    idle: tuple[Stand, ...]
    busy: tuple[Stand, ...]
    peers: tuple[Stand, ...]
    moves: bool


def picture_of(job: Job) -> Picture:
    """The picture of a job; made once for each."""
    return _picture(_ById(job))


@dataclass(frozen=True, slots=True, eq=False)
class _ById:
    job: Job

    def __hash__(self) -> int:
        return id(self.job)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.job is self.job


@functools.lru_cache(maxsize=1)
def _picture(key: _ById) -> Picture:
    job = key.job
    stands = _alive(of_the_job(find_stands(job)), job)
    waiting = tuple(stand for stand in stands if stand.waits)
    starting = tuple(stand for stand in stands if stand.in_init)
    sleeping = bool(waiting) and not any(stand.active for stand in waiting)
    # where waiting is sleeping (gloo), a backward pass that runs is at work
    on_gpu = tuple(stand for stand in stands if stand.state in ON_GPU and not (sleeping and stand.active))
    ended = job.events.has("run_ended") or any(stand.state in LEAVING for stand in stands)
    leaving = tuple(stand for stand in stands if stand.state in LEAVING or (ended and stand.at_exit))
    apart = {id(stand) for stand in (*waiting, *starting, *on_gpu, *leaving)}
    rest = [stand for stand in stands if id(stand) not in apart]
    busy = tuple(s for s in rest if s.state not in _NEUTRAL and s.position.pattern not in _PARENTS)
    peers = (*waiting, *on_gpu) if waiting else on_gpu or starting or tuple(s for s in leaving if s.state == "teardown")
    in_store = tuple(stand for stand in busy if stand.in_store)
    if in_store and (len(in_store) < len(busy) or not peers):
        # somebody else is busy, or nobody waits elsewhere: these wait for that one to set the key
        peers = (*peers, *in_store)
        busy = tuple(stand for stand in busy if not stand.in_store)
    if not peers:
        peers = _at_one_line(busy)
        busy = tuple(stand for stand in busy if not any(stand is peer for peer in peers))
    return Picture(
        stands=stands,
        waiting=waiting,
        starting=starting,
        on_gpu=on_gpu,
        leaving=leaving,
        idle=tuple(stand for stand in rest if stand.state == "server-idle"),
        busy=busy,
        peers=peers,
        moves=_moves(stands) or _followed(stands, job) or bool(going_on(job)),
    )


def _alive(stands: tuple[Stand, ...], job: Job) -> tuple[Stand, ...]:
    """Without those whose process was killed or crashed by itself: their last dump is of the time before."""
    # a watchdog whose wait ran out aborts its process: that is a consequence
    deadly = _DEADLY - {"SIGABRT"} if has_signs_of_hang(job) else _DEADLY
    deaths = [death for death in find_deaths(job) if not death.victim and death.signal in deadly]
    if not 0 < len(deaths) < len(stands):
        return stands
    ranks = {death.rank for death in deaths if death.rank is not None}
    pids = {(death.pid, death.host) for death in deaths if death.rank is None and death.pid is not None}
    return tuple(s for s in stands if s.rank not in ranks and (s.pid, s.host) not in pids and (s.pid, None) not in pids)


def _at_one_line(busy: Sequence[Stand]) -> tuple[Stand, ...]:
    """Most of the processes, blocked at one line of the job's own code: they wait in C++ there (``work.wait()``)."""
    places: dict[object, list[Stand]] = defaultdict(list)
    for stand in busy:
        if stand.state == "running" and not stand.active and stand.position.own:
            places[stand.path].append(stand)
    most = max(places.values(), key=len, default=[])
    return tuple(most) if len(most) > 1 and len(busy) / 2 < len(most) < len(busy) else ()


def _moves(stands: Sequence[Stand]) -> bool:
    """One that waited in the dump before waits elsewhere or no more; where none waited, most stand elsewhere."""
    twice = [stand for stand in stands if stand.before is not None]
    waited = [s for s in twice if s.before is not None and s.before.state in ("in-collective", "in-barrier", "in-p2p")]
    if waited:
        return any(stand.moved for stand in waited)
    return len(twice) > 1 and sum(stand.moved and not stand.still for stand in twice) > len(twice) / 2


def _followed(stands: Sequence[Stand], job: Job) -> bool:
    """The logs of most processes tell of further steps behind their last dump."""
    followed = 0
    for stand in stands:
        process, thread = stand.position.process, stand.position.thread
        last = process.last_line if process is not None else None
        if last is None or thread is None or last.file != stand.position.dump.line.file:
            continue
        end = max((frame.at or 0 for one in stand.position.dump.threads for frame in one.frames), default=0)
        followed += last.number > end > 0 and _PROGRESS.search(last.text) is not None
    return followed > len(stands) / 2 and not has_signs_of_hang(job)


def has_signs_of_hang(job: Job) -> bool:
    """Whether anything else says that the job hangs or hung."""
    return job.events.has(*_TIMEOUTS) or bool(job.stuck) or bool(job.recordings.troubles)
