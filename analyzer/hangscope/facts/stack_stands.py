"""Where every training process of the job stands: one entry for each, whatever dumps, views and rounds there are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from hangscope.align.job import Job
from hangscope.align.stack_tree import frames_of
from hangscope.align.stacks import Position, place_of
from hangscope.expressions import expression
from hangscope.facts.stack_lines import caller_of, where_of
from hangscope.grammar.frames import last_component, load_frames
from hangscope.model import Frame, Value
from hangscope.ranges import count_off
from hangscope.records import dataclass

WAITING = frozenset({"in-collective", "in-object-collective", "in-barrier", "in-p2p", "group-setup"})
"""In a call that ends only when others make theirs."""

STARTING = frozenset({"rendezvous", "store-wait"})
ON_GPU = frozenset({"gpu-sync", "backward", "optimizer"})
"""The host waits for the GPU, or may do so; what the GPU waits for was launched earlier."""

_TOOLS = ("py-spy", "pystack", "py-bt", "gdb", "lldb", "faulthandler")
_SAYS_NOTHING = frozenset({"running", "native", "unknown", "noise"})
_CRASH = expression(r"^Fatal Python error")
_REFUSED = expression(r"Failed to suspend process|unexpected waitpid result", re.IGNORECASE)
_WRAPPERS = ("c10d_logger.py", "contextlib.py", "nn/modules/module.py", "torch/utils/_contextlib.py")
Step = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class Stand:
    """Where one training process stands.

    Attributes:
        position: its last dump; of several views of one moment the one that tells most.
        views: all dumps of that moment.
        before: its dump before that, None when there is one round only.
        children: the last dumps of its loader, checkpoint and other children.
        path: the calls that led there, innermost first; lines of torch are left out, so that versions may differ.
    """

    position: Position
    views: tuple[Position, ...]
    before: Position | None
    children: tuple[Position, ...]
    path: tuple[Step, ...]

    @property
    def rank(self) -> int | None:
        return self.position.rank

    @property
    def host(self) -> str | None:
        return self.position.host

    @property
    def pid(self) -> int | None:
        return self.position.dump.pid

    @property
    def state(self) -> str:
        return self.position.state

    @property
    def waits(self) -> bool:
        """Whether it is in a call that others have to make as well."""
        return self.state in WAITING and not self.in_init

    @property
    def in_init(self) -> bool:
        """Whether it is still in init_process_group, or looks for the store."""
        if self.state == "rendezvous":
            return True
        return self.state in ("group-setup", "store-wait") and self.calls("init_process_group", "init_distributed")

    @property
    def in_store(self) -> bool:
        """Whether it waits, later on, for a key of the store that somebody has to set."""
        return self.state == "store-wait" and not self.in_init

    @property
    def refused(self) -> bool:
        """Whether the tool could not stop the process to look at it: it is stopped, or sleeps in the kernel."""
        return not any(p.thread is not None for p in self.views) and any(
            _REFUSED.search(p.dump.error) for p in self.views
        )

    @property
    def at_exit(self) -> bool:
        """Whether the main thread runs a function outside of the main program: one that was registered with atexit."""
        thread = self.position.thread
        python = [frame for frame in thread.frames if not frame.native] if thread is not None else []
        if thread is None or thread.name != "MainThread" or not python or self.state in WAITING:
            return False
        return not python[-1].function.startswith(("<module>", "_run_", "_bootstrap")) and self.position.own

    @property
    def active(self) -> bool:
        """Whether it was running when the dump was taken, not blocked in a system call."""
        thread = self.position.thread
        return thread is not None and (thread.activity == "active" or bool(thread.gil))

    @property
    def moved(self) -> bool:
        """Whether it stands elsewhere than in the dump before."""
        return self.before is not None and (path_of(self.before) != self.path or self.before.state != self.state)

    @property
    def works(self) -> bool:
        """Whether it ran in this dump and elsewhere in the one before, be it in the same call."""
        return self.before is not None and self.active and _frames(self.before) != _frames(self.position)

    @property
    def still(self) -> bool:
        """Whether it is in the same function as in the dump before."""
        before = self.before
        return before is not None and before.state == self.state and _function(before) == _function(self.position)

    def calls(self, *functions: str) -> bool:
        """Whether one of these functions is on its stack."""
        frames = self.position.thread.frames if self.position.thread is not None else ()
        return any(last_component(frame.function) in functions for frame in frames)

    @property
    def own_path(self) -> tuple[Step, ...]:
        """The calls of the job's own code that led there; where there is none, all."""
        thread = self.position.thread
        own = load_frames().own
        frames = frames_of(self.position) if thread is not None else ()
        script = own.script(frames)
        found = tuple(_step(frame, with_line=True) for frame in frames if own.is_own(frame, script))
        return found or self.path

    @property
    def name(self) -> str:
        """``rank 3``, or ``process 18967 on node01`` when nobody knows its rank."""
        if self.rank is not None:
            return f"rank {self.rank}"
        where = f" on {self.host}" if self.host else ""
        return f"process {self.pid}{where}" if self.pid is not None else f"a process{where}"

    @property
    def where(self) -> str:
        """``save_checkpoint (train.py:8)``: the innermost line of the job's own code, else the frame that tells."""
        return where_of(self.position)

    @property
    def call(self) -> str:
        """``all_reduce at train.py:35 main``, ``a barrier``, ...: what it waits in."""
        words = {"in-barrier": "a barrier", "in-p2p": "a send or recv", "group-setup": "the set-up of a process group"}
        what = self.position.operation or words.get(self.state, "a collective")
        if self.state in STARTING:
            what = "a wait for a key of the store" if self.in_store else "the rendezvous"
        elif self.state in ON_GPU:
            what = {"gpu-sync": "a wait for the GPU", "backward": "the backward pass"}.get(self.state, "the optimizer")
        user = caller_of(self.position)
        return f"{what} at {place_of(user)}" if user is not None and user.file else what


def find_stands(job: Job) -> tuple[Stand, ...]:
    """One for each training process of which there is a dump, by rank; those that only show a crash are left out."""
    dumps: dict[object, list[Position]] = defaultdict(list)
    children = _Children(job.stacks.positions)
    for position in job.stacks.positions:
        if position.role == "rank" and not _CRASH.match(position.dump.reason):
            known = ("rank", position.rank) if position.rank is not None else id(position.process or position.dump)
            dumps[known].append(position)
    return tuple(_stand(positions, children) for positions in dumps.values())


def _stand(positions: Sequence[Position], children: _Children) -> Stand:
    rounds: dict[tuple[str, bool], list[Position]] = defaultdict(list)
    for position in positions:
        rounds[position.dump.tool, position.native].append(position)
    views = sorted((found[-1] for found in rounds.values()), key=_telling)
    best = views[0]
    # a rank that was started again, or two that one name fits, did not move from one to the other
    earlier = [p for p in rounds[best.dump.tool, best.native][:-1] if _same_process(p, best)]
    return Stand(best, tuple(views), earlier[-1] if earlier else None, children.of(best), path_of(best))


def _same_process(one: Position, other: Position) -> bool:
    pids = {one.dump.pid, other.dump.pid}
    return None in pids or len(pids) == 1


class _Children:
    """The loader, checkpoint and other children, by what names their parent."""

    def __init__(self, positions: Sequence[Position]) -> None:
        self._by_parent: dict[object, list[Position]] = defaultdict(list)
        before = _dumps_before(positions)
        for position in positions:
            dump = position.dump
            if position.role not in ("loader", "checkpoint", "child"):
                continue
            if position.rank is not None:
                self._by_parent["rank", position.rank].append(position)
            elif dump.parent_pid is not None:
                self._by_parent["pid", dump.parent_pid].append(position)
            elif id(dump) in before:
                self._by_parent["dump", before[id(dump)]].append(position)

    def of(self, parent: Position) -> tuple[Position, ...]:
        """The last dump of each child."""
        named = [child for child in self._by_parent["pid", parent.dump.pid] if child.host in (parent.host, None)]
        found = [*self._by_parent["rank", parent.rank], *named, *self._by_parent["dump", id(parent.dump)]]
        return tuple({child.dump.pid: child for child in found}.values())


def _dumps_before(positions: Iterable[Position]) -> dict[int, int]:
    """py-spy dump --subprocesses prints the children behind their parent; where nothing names it, that is all."""
    found: dict[int, int] = {}
    parents: dict[str, int] = {}
    for position in sorted(positions, key=lambda p: (p.dump.line.file, p.dump.line.number)):
        dump = position.dump
        if position.role == "rank":
            parents[dump.line.file] = id(dump)
        elif dump.line.file in parents:
            found[id(dump)] = parents[dump.line.file]
    return found


def _telling(position: Position) -> tuple[object, ...]:
    """Sorts the view that tells most in front."""
    tool = position.dump.tool
    order = _TOOLS.index(tool) if tool in _TOOLS else len(_TOOLS)
    return (position.thread is None, position.state in _SAYS_NOTHING, not position.own, not position.user, order)


def path_of(position: Position) -> tuple[Step, ...]:
    """The frames of Python from the one that tells outward: function, file, and the line outside of torch."""
    frames = [frame for frame in frames_of(position) if not frame.native]
    start = next((at for at, frame in enumerate(frames) if frame is position.frame), 0)
    steps = []
    for frame in frames[start:]:
        file = (frame.file or "").replace("\\", "/")
        if file.endswith(_WRAPPERS):
            continue
        inside = "torch/" in file and ("site-packages/torch/" in file or file.startswith("torch/"))
        steps.append(_step(frame, with_line=not inside))
    return tuple(steps)


def _step(frame: Frame, *, with_line: bool) -> Step:
    file = (frame.file or "").replace("\\", "/").rpartition("/")[2]
    return (last_component(frame.function), file, frame.line if with_line else None)


def _frames(position: Position) -> list[tuple[str, int | None]]:
    return [(last_component(frame.function), frame.line) for frame in frames_of(position)]


def _function(position: Position) -> tuple[str, str] | None:
    frame = position.user or position.frame
    return None if frame is None else (last_component(frame.function), (frame.file or "").rpartition("/")[2])


def names_of(stands: Sequence[Stand]) -> str:
    """``rank 1``, ``ranks 2 and 3``, ``ranks 0-7,9``, ``process 18967 on node01``, ``3 processes on node01``."""
    ranks = sorted({stand.rank for stand in stands if stand.rank is not None})
    if ranks and len(ranks) == len(stands):
        if len(ranks) == 1:
            return f"rank {ranks[0]}"
        if len(ranks) <= _MOST_NAMED:
            return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
        told = count_off(ranks)
        return (
            f"ranks {told}" if len(told) <= _LONGEST else f"{len(ranks)} ranks ({', '.join(map(str, ranks[:4]))}, ...)"
        )
    if len(stands) == 1:
        return stands[0].name
    hosts = sorted({stand.host for stand in stands if stand.host})
    return f"{len(stands)} processes" + (f" on {', '.join(hosts[:4])}" if hosts else "")


_MOST_NAMED, _LONGEST = 6, 40
NAMED = ("who", "who_is", "who_waits", "peers", "peers_wait")
"""Fields that name processes, with a verb that fits one or many."""


def named(stands: Sequence[Stand], peers: Sequence[Stand]) -> dict[str, Value]:
    """The fields of `NAMED`: who is meant, and how many others wait."""
    who, one = names_of(stands), len(stands) == 1
    return {
        "who": who,
        "who_is": f"{who} {'is' if one else 'are'}",
        "who_waits": f"{who} {'waits' if one else 'wait'}",
        "peers": len(peers),
        "peers_wait": "1 other process waits" if len(peers) == 1 else f"{len(peers) or 'no'} other processes wait",
    }


def ranks_of(stands: Iterable[Stand]) -> tuple[int, ...]:
    """Their ranks, ascending, as far as they are known."""
    return tuple(sorted({stand.rank for stand in stands if stand.rank is not None}))


def hosts_of(stands: Iterable[Stand]) -> tuple[str, ...]:
    """Their hosts, as far as they are known."""
    return tuple(sorted({stand.host for stand in stands if stand.host}))
