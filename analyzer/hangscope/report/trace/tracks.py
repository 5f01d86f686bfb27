"""Names the tracks of a trace: a process a rank, and in it a thread a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hangscope.model import RankState, Report
from hangscope.model.names import group_title
from hangscope.report.printable import one_line, shorten_middle

Event = dict[str, Any]
"""A trace event, as `json.dumps` takes it."""

STATE, CALLS, TRANSFERS = "state", "calls", "transfers"
_LONGEST_NAME = 80


class Tracks:
    """Numbers of processes and threads.

    Numbers of threads are unique in the whole trace, and none is 0, which viewers keep for the idle process.

    Attributes:
        states: rank -> where it is; of every rank.
    """

    def __init__(self, report: Report) -> None:
        history = report.history
        called = {rank for group in history.groups for rank in group.ranks} if history is not None else set()
        called |= {one.rank for one in history.transfers} if history is not None else set()
        unknown = {rank: RankState(rank, None, None, None, "unknown", None, None) for rank in called}
        self.states = {**unknown, **{state.rank: state for state in report.ranks}}
        self._names: dict[tuple[str, str], str] = {}
        self._threads: dict[tuple[int, str, str], int] = {}
        for rank in sorted(self.states):
            self._add(rank, STATE, "", "where it is")
        for group in history.groups if history is not None else ():
            about = group_title(group.group, group.description)
            for rank in group.ranks:
                self._add(rank, CALLS, group.group, about)
        for one in history.transfers if history is not None else ():
            self._add(one.rank, TRANSFERS, one.group, f"{one.group}: sends and receives")

    def _add(self, rank: int, kind: str, group: str, name: str) -> None:
        self._names.setdefault((kind, group), name)
        self._threads.setdefault((rank, kind, group), len(self._threads) + 1)

    def has(self, rank: int, kind: str, group: str = "") -> bool:
        """Whether there is such a track."""
        return (rank, kind, group) in self._threads

    def place(self, rank: int, kind: str, group: str = "") -> Event:
        """Process and thread of a track, as an event has them."""
        return {"pid": rank + 1, "tid": self._threads[rank, kind, group]}

    def describe(self) -> Iterator[Event]:
        """The events that name all tracks."""
        for rank, state in sorted(self.states.items()):
            host = f" on {short(state.host)}" if state.host else ""
            yield _meta(rank + 1, "process_name", name=f"rank {rank}{host}")
            yield _meta(rank + 1, "process_labels", labels=state.state)
            yield _meta(rank + 1, "process_sort_index", sort_index=rank)
        order = {key: place for place, key in enumerate(self._names)}
        for (rank, kind, group), thread in sorted(self._threads.items(), key=lambda item: item[1]):
            yield _meta(rank + 1, "thread_name", tid=thread, name=short(self._names[kind, group]))
            yield _meta(rank + 1, "thread_sort_index", tid=thread, sort_index=order[kind, group])


def short(text: str) -> str:
    """A text that fits into a track's name."""
    return shorten_middle(one_line(text), _LONGEST_NAME)


def _meta(pid: int, what: str, tid: int = 0, **args: object) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
