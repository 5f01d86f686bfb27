"""Tells which rank a process id of a table of processes belongs to, itself or as a child of a rank."""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable

from hangscope.align import commands
from hangscope.align.process import Process
from hangscope.expressions import expression
from hangscope.model import Event
from hangscope.records import dataclass

PYTHON = expression(r"(?:^|/)(?:python|pypy)[\d.]*\b|^pt_|^ray::|^VLLM::|^sglang::|torch", re.IGNORECASE)
_MOST_PARENTS = 8
TASK_KINDS = ("srun_task_exited", "srun_task_signalled", "srun_task_out_of_memory")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a process is.

    Attributes:
        rank: the rank.
        host: where it runs, if known.
        child: the process is a child of the rank's process.
        guessed: by the order of process ids only.
    """

    rank: int
    host: str | None
    child: bool = False
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One process of one table."""

    event: Event
    pid: int
    parent: int | None
    state: str
    command: str

    @property
    def place(self) -> tuple[str, str | None]:
        return self.event.line.file, self.event.host


class ProcessRanks:
    """The owners of processes, as far as the evidence tells."""

    def __init__(self, events: Iterable[Event], processes: Iterable[Process], world_size: int | None) -> None:
        seen = list(events)
        self.rows = [row for event in seen if (row := _row(event)) is not None]
        self._world_size = world_size
        self._nodes = _node_numbers(seen)
        self._known: dict[int, list[Process]] = defaultdict(list)
        self._on_host: dict[str | None, list[tuple[int, int, int]]] = defaultdict(list)
        self._at: dict[tuple[int, str | None], list[Process]] = defaultdict(list)
        for number, process in enumerate(processes):
            if process.pid is not None and process.rank is not None:
                self._known[process.pid].append(process)
                self._at[process.pid, process.host].append(process)
                self._on_host[process.host].append((number, process.pid, process.rank))
        self._hosts = {p.host for known in self._known.values() for p in known if p.host}
        self._parents: dict[tuple[str | None, int], int] = {}
        for row in self.rows:
            if row.parent is not None:
                self._parents[row.event.host, row.pid] = row.parent
        self._guesses = self._by_order()

    def owner(self, pid: int, host: str | None) -> Owner | None:
        """Whose the process with that id is; `host` is where it was seen, if that is known."""
        at: int | None = pid
        for step in range(_MOST_PARENTS):
            if at is None:
                return None
            if (own := self._own(at, host)) is not None:
                return Owner(own.rank, own.host, child=step > 0, guessed=own.guessed)
            at = self._parents.get((host, at))
        return None

    def known_on(self, host: str | None) -> dict[int, int]:
        """Process id -> rank, of the ranks of one host (of all, when the job has one host or none is known)."""
        hosts = self._on_host if host is None else (host, None)
        known = heapq.merge(*(self._on_host.get(name, ()) for name in hosts))
        return {pid: rank for _, pid, rank in known}

    @property
    def one_host(self) -> bool:
        """Whether all ranks with a process id are on one host, as far as is known."""
        return len(self._hosts) <= 1

    def _own(self, pid: int, host: str | None) -> Owner | None:
        claimants = self._known.get(pid, [])
        # in pods every host has the same process ids
        fitting = claimants if host is None else [*self._at.get((pid, host), ()), *self._at.get((pid, None), ())]
        ranks = {p.rank for p in fitting}
        if len(ranks) == 1:
            process = fitting[0]
            return Owner(process.rank or 0, process.host or host)
        return self._guesses.get((host, pid)) if not claimants else None

    def _by_order(self) -> dict[tuple[str | None, int], Owner]:
        """Where the table alone names processes: by option or order, if it holds as many siblings as the job ranks."""
        found: dict[tuple[str | None, int], Owner] = {}
        by_host: dict[str | None, list[Row]] = defaultdict(list)
        for row in self.rows:
            by_host[row.event.host].append(row)
        for host, rows in by_host.items():
            workers = {row.pid: row for row in rows if _is_worker(row)}
            parents = {row.parent for row in workers.values()} - {None}
            workers = {pid: row for pid, row in workers.items() if row.parent not in workers}
            if len(parents - workers.keys()) > 1 or self._known.keys() & workers:
                continue
            if len(workers) == self._world_size:
                first = 0
            elif host in self._nodes and self._world_size in (None, len(workers) * len(self._nodes)):
                first = self._nodes[host] * len(workers)
            else:
                continue
            for order, pid in enumerate(sorted(workers)):
                told = commands.LOCAL_RANK.search(workers[pid].command)
                found[host, pid] = Owner(first + (int(told[1]) if told else order), host, guessed=told is None)
        return found


def _node_numbers(events: Iterable[Event]) -> dict[str | None, int]:
    """Host -> its number, where srun started one task a host (``srun: error: node03: task 2: Terminated``)."""
    tasks: dict[str | None, int] = {}
    for event in events:
        if event.kind in TASK_KINDS:
            node, task = str(event.fields.get("nodes", "")), str(event.fields.get("tasks", ""))
            if not task.isdecimal() or len(task) > 6 or "[" in node or tasks.get(node, int(task)) != int(task):
                return {}
            tasks[node] = int(task)
    return tasks if sorted(tasks.values()) == list(range(len(tasks))) else {}


def _is_worker(row: Row) -> bool:
    return PYTHON.search(row.command) is not None and commands.LAUNCHER.search(row.command) is None


def _row(event: Event) -> Row | None:
    pid = event.number("process")
    if pid is None or event.kind != "process_state":
        return None
    state, command = event.fields.get("process_state"), event.fields.get("command")
    return Row(event, pid, event.number("parent"), str(state or ""), str(command or ""))
