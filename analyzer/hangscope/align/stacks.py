"""Places stack dumps: which rank each belongs to, and where its process stands in it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hangscope.align.dump_owners import CHECKPOINT, CHILD, HELPER, LAUNCHER, LOADER, RANK
from hangscope.align.dump_threads import Choice, choose_thread
from hangscope.align.identity import Identity
from hangscope.align.process import Process
from hangscope.expressions import expression
from hangscope.grammar.frames import FrameTable, load_frames
from hangscope.model import Frame, ProcessDump, ThreadStack
from hangscope.parse.columns import writer_key
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass
from hangscope.sources.origin import hints

_NUMBERS = expression(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Position:
    """Where one process stands in one dump.

    Attributes:
        rank: global rank; of a loader or checkpoint child, its parent's; None when nobody knows.
        process: the process, None when none could be told apart.
        dump: the dump it is taken from.
        round: 0 for the first dump of this process, 1 for the next, ...
        role: "rank" for the training process itself, else "loader", "checkpoint", "launcher", "child" or "helper".
        thread: the thread that decides (the one that waits, else the main thread).
        state: what it does there, an id of `grammars/frames.toml`.
        frame: the frame that tells so (all_reduce in distributed_c10d.py).
        user: innermost frame of the job's own code; where there is none, of a library above torch (see `own`).
        states: the state of every thread, in the order of `dump.threads`.
        operation: of a collective or transfer, as its function is called ("all_reduce", "recv"); "" when not known.
        pattern: the pattern of `grammars/frames.toml` that tells the state, "" for none.
        own: `user` is the job's own code.
        host: where the process ran, None when not known.
    """

    rank: int | None
    process: Process | None
    dump: ProcessDump
    round: int
    role: str
    thread: ThreadStack | None
    state: str
    frame: Frame | None
    user: Frame | None
    states: tuple[str, ...] = ()
    operation: str = ""
    pattern: str = ""
    own: bool = False
    host: str | None = None

    @property
    def activity(self) -> str:
        """What the tool says about the thread that decides: "idle", "active" or ""."""
        return self.thread.activity if self.thread is not None else ""

    @property
    def native(self) -> bool:
        """Whether the dump shows frames of C and C++ code."""
        return any(frame.native for thread in self.dump.threads for frame in thread.frames)

    @property
    def where(self) -> str | None:
        """``file:line function`` of the innermost user frame."""
        return None if self.user is None else place_of(self.user)


@dataclass(frozen=True, slots=True)
class Stacks:
    """All stack dumps of a job, placed.

    Attributes:
        positions: every process of every dump, by rank, then in the order of the dumps.
    """

    positions: tuple[Position, ...] = ()

    def last(self) -> dict[int, Position]:
        """Rank -> where its training process stands in its last dump."""
        return {p.rank: p for p in self.positions if p.rank is not None and p.role == RANK}

    def by_process(self) -> tuple[tuple[Position, ...], ...]:
        """The dumps of each process, in order of time; processes in the order of the positions."""
        found: dict[int, list[Position]] = defaultdict(list)
        for position in self.positions:
            found[id(position.process or position.dump)].append(position)
        return tuple(tuple(positions) for positions in found.values())


def place_of(frame: Frame) -> str:
    """``train.py:24 train``."""
    place = f"{frame.file}:{frame.line}" if frame.line else str(frame.file)
    return f"{place} {frame.function}"


def place_stacks(sources: Sequence[ParsedSource], identity: Identity) -> Stacks:
    """Places every dump of the inputs."""
    dumps = [dump for source in sources for dump in source.dumps]
    if not dumps:
        return Stacks()
    placer = _Placer(identity, {file: hints(file).rank for file in {dump.line.file for dump in dumps}})
    positions = [placer.place(dump) for dump in sorted(dumps, key=_in_time)]
    return Stacks(tuple(sorted(_completed(_counted(positions)), key=_by_rank)))


class _Placer:
    def __init__(self, identity: Identity, file_ranks: Mapping[str, int | None]) -> None:
        self._identity = identity
        self._owners = identity.owners
        self._file_ranks = file_ranks
        self._table: FrameTable = load_frames()
        self._by_pid: dict[int, list[Process]] = defaultdict(list)
        for process in identity.processes:
            if process.pid is not None:
                self._by_pid[process.pid].append(process)

    def place(self, dump: ProcessDump) -> Position:
        choice = choose_thread(dump, self._table)
        process = self._identity.by_writer.get(writer_key(dump.line))
        host = self._owners.hosts[id(dump)] or (process.host if process is not None else None)
        return Position(
            rank=self._rank(dump, process, host),
            process=process,
            dump=dump,
            round=0,
            role=self._role(dump, choice),
            thread=choice.thread,
            state=choice.state,
            frame=choice.frame,
            user=choice.user,
            states=choice.states,
            operation=choice.operation,
            pattern=choice.pattern,
            own=choice.own,
            host=host,
        )

    def _role(self, dump: ProcessDump, choice: Choice) -> str:
        role = self._owners.roles[id(dump)]
        if role == CHILD and choice.state == "saving-checkpoint":
            return CHECKPOINT
        return role

    def _rank(self, dump: ProcessDump, process: Process | None, host: str | None) -> int | None:
        role = self._owners.roles[id(dump)]
        if role == LAUNCHER:
            return None
        if role == RANK:
            return process.rank if process is not None else dump.line.rank
        parent = self._owners.parents.get(id(dump))
        if parent is not None:
            owner = self._identity.by_writer.get(writer_key(parent.line))
            return owner.rank if owner is not None else parent.line.rank
        pid = self._owners.parent_pids.get(id(dump))
        known = (
            [p for p in self._by_pid.get(pid, ()) if host is None or p.host in (host, None)] if pid is not None else []
        )
        ranks = {p.rank for p in known}
        if len(ranks) == 1:
            return next(iter(ranks))
        return self._file_ranks[dump.line.file] if role in (LOADER, CHECKPOINT, CHILD, HELPER) else None


def _counted(positions: Iterable[Position]) -> list[Position]:
    """The same positions with the number of the dump of their process.

    A dump with native frames and one without, or gdb's and py-bt's, are two views of one moment.
    """
    seen: dict[tuple[int, str, bool], int] = defaultdict(int)
    counted = []
    for position in positions:
        key = (id(position.process or position.dump), position.dump.tool, position.native)
        counted.append(dataclasses.replace(position, round=seen[key]) if seen[key] else position)
        seen[key] += 1
    return counted


def _completed(positions: list[Position]) -> list[Position]:
    """Lets a dump with native frames tell what the same Python frames without them leave open."""
    told: dict[tuple[int, tuple[tuple[str, int | None], ...]], Position] = {}
    for position in positions:
        if position.process is not None and position.pattern.startswith("native-"):
            told[id(position.process), _python_frames(position)] = position
    completed = []
    for position in positions:
        better = None
        if position.state == "running" and not position.pattern and position.process is not None:
            better = told.get((id(position.process), _python_frames(position)))
        if better is not None and len(better.states) == len(position.states):
            position = dataclasses.replace(  # noqa: PLW2901  one position takes the other's place
                position,
                state=better.state,
                frame=better.frame,
                states=better.states,
                operation=better.operation,
                pattern=better.pattern,
            )
        completed.append(position)
    return completed


def _python_frames(position: Position) -> tuple[tuple[str, int | None], ...]:
    frames = position.thread.frames if position.thread is not None else ()
    return tuple((frame.function, frame.line) for frame in frames if not frame.native)


def _in_time(dump: ProcessDump) -> tuple[bool, float, list[tuple[int, str]], int]:
    """By time, then by the names of files as people number them: round2 before round10, before.txt before after.txt."""
    name = dump.line.file.replace("before", "0before").replace("after", "1after")
    parts = [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBERS.split(name)]
    return (dump.time is None, dump.time or 0.0, parts, dump.line.number)


def _by_rank(position: Position) -> tuple[bool, int, bool]:
    return (position.rank is None, position.rank or 0, position.role != RANK)
