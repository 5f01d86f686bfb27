"""Finds the communicators, and which communicator objects of different processes are one group.

A communicator object is (process, pointer, n-th use of that pointer). Objects are one group by commId
(2.16 and later), children by their parent's group with splitCount or childCount and color (2.23 to 2.31.0
print no commId for them), and without either by size and order of creation (2.15 and earlier).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field

from hangscope.align.process import Process
from hangscope.align.world import size_in
from hangscope.model import Event, Line
from hangscope.parse.columns import pointer
from hangscope.records import dataclass

GroupKey = tuple[object, ...]


@dataclass(slots=True)
class Communicator:
    """One process's object of a communicator.

    Attributes:
        process: who holds it.
        comm: its pointer in that process.
        group_rank: rank inside it, or None when no init line tells.
        size: number of its ranks.
        comm_id: NCCL's hash, equal on all its ranks, or None.
        parent: pointer of the communicator it was split from, or None.
        split_count, color: which split of the parent, and which part of it.
        start, complete, ended: the lines Init START, Init COMPLETE and Destroy/Abort COMPLETE, as far as printed.
        end_action: "Destroy", "Abort", ... of `ended`.
    """

    process: Process
    comm: int
    group_rank: int | None
    size: int
    comm_id: int | None = None
    parent: int | None = None
    split_count: int | None = None
    color: int | None = None
    start: Line | None = None
    complete: Line | None = None
    ended: Line | None = None
    end_action: str = ""
    group: Group | None = None


@dataclass(slots=True, eq=False)
class Group:
    """The objects of one communicator over all processes.

    Attributes:
        name: how the report calls it.
        key: what identifies it.
        size: its number of ranks.
        members: its known objects, by group rank where known.
    """

    name: str
    key: GroupKey
    size: int
    members: list[Communicator] = field(default_factory=list)

    @property
    def missing_group_ranks(self) -> tuple[int, ...]:
        """Group ranks that no known process holds; empty when some member's group rank is unknown."""
        known = {m.group_rank for m in self.members}
        if None in known:
            return ()
        return tuple(sorted(set(range(self.size)) - {k for k in known if k is not None}))

    def ranks(self) -> tuple[int, ...]:
        """Global ranks of the members that have one."""
        return tuple(sorted({m.process.rank for m in self.members if m.process.rank is not None}))


def find_communicators(processes: Iterable[Process]) -> list[Communicator]:
    """Every communicator object that init or teardown lines tell of, by process and order of creation."""
    return [comm for process in processes for comm in _Lifecycle(process).run()]


class _Lifecycle:
    """Follows the communicators of one process through its lines."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._open: dict[int, Communicator] = {}
        self._found: list[Communicator] = []

    def run(self) -> list[Communicator]:
        for event in self._process.by_kind.of("comm_init_start", "comm_init_complete", "comm_teardown"):
            if event.kind == "comm_init_start":
                self._start(event)
            elif event.kind == "comm_init_complete":
                self._complete(event)
            elif event.fields.get("stage") != "START":
                self._end(event)
        return self._found

    def _start(self, event: Event) -> None:
        comm = _communicator(self._process, event)
        comm.start = event.line
        self._open[comm.comm] = comm
        self._found.append(comm)

    def _complete(self, event: Event) -> None:
        new = _communicator(self._process, event)
        comm = self._open.get(new.comm)
        if comm is None or comm.complete is not None:
            comm = self._open[new.comm] = new
            self._found.append(comm)
        comm.complete = event.line
        if comm.comm_id is None:
            comm.comm_id = new.comm_id
        if comm.split_count is None:
            # only the COMPLETE line of a split has it
            comm.split_count = new.split_count

    def _end(self, event: Event) -> None:
        new = _communicator(self._process, event)
        comm = self._open.get(new.comm)
        if comm is None or comm.ended is not None:
            comm = self._open[new.comm] = new
            self._found.append(comm)
        comm.ended = event.line
        comm.end_action = str(event.fields.get("action", ""))


def _communicator(process: Process, event: Event) -> Communicator:
    def number(name: str) -> int | None:
        value = event.fields.get(name)
        return value if isinstance(value, int) else None

    parent = event.fields.get("parent")
    comm_id = number("comm_id")
    return Communicator(
        process=process,
        comm=pointer(str(event.fields.get("comm", ""))),
        group_rank=number("group_rank"),
        size=size_in(event.fields.get("nranks")),
        comm_id=comm_id if comm_id is not None else number("child_comm_id"),
        parent=pointer(str(parent)) if parent is not None else None,
        split_count=number("split_count"),
        color=number("color"),
    )


def find_groups(communicators: list[Communicator], world_size: int | None) -> list[Group]:
    """Joins communicator objects to groups, in order of first appearance; sets each object's `group`."""
    groups: dict[GroupKey, Group] = {}
    taken: set[str] = set()
    by_pointer: dict[tuple[int, int], Communicator] = {}
    sizes: dict[tuple[int, int], int] = defaultdict(int)
    children: dict[tuple[int, int], int] = defaultdict(int)
    for comm in communicators:
        process = id(comm.process)
        if comm.parent is not None:
            children[process, comm.parent] += 1
        ordinal = children[process, comm.parent] if comm.parent is not None else 0
        parent = by_pointer.get((process, comm.parent)) if comm.parent is not None else None
        sizes[process, comm.size] += 1
        key = _key(comm, parent, ordinal, sizes[process, comm.size])
        group = groups.get(key)
        if group is None:
            is_world = comm.size == world_size and "world" not in taken
            name = "world" if is_world and comm.parent is None else _name(comm, parent, ordinal, key)
            group = groups[key] = Group(_free(name, taken), key, comm.size)
            taken.add(group.name)
        comm.group = group
        group.members.append(comm)
        by_pointer[process, comm.comm] = comm
    for group in groups.values():
        group.members.sort(key=lambda m: (m.group_rank is None, m.group_rank or 0))
    return list(groups.values())


def _key(comm: Communicator, parent: Communicator | None, child: int, of_size: int) -> GroupKey:
    if comm.comm_id is not None:
        return ("id", comm.comm_id)
    if comm.parent is not None:
        above = parent.group.key if parent is not None and parent.group is not None else ("unknown",)
        count = comm.split_count if comm.split_count is not None else child
        return ("child", above, count, comm.color, comm.size)
    return ("size", comm.size, of_size)


def _name(comm: Communicator, parent: Communicator | None, child: int, key: GroupKey) -> str:
    if comm.parent is not None:
        above = parent.group.name if parent is not None and parent.group is not None else "communicator"
        number = comm.split_count if comm.split_count is not None else child
        color = f", color {comm.color}" if comm.color is not None else ""
        return f"split {number}{color} of {above}"
    if comm.comm_id is not None:
        return f"communicator 0x{comm.comm_id:x}"
    return f"communicator {key[2]} of size {comm.size}"


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number when another group has it."""
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
