"""Builds the tables from events, each on first use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hangscope.tables.pieces import LargeTable, Piece
from hangscope.tables.schema import frame

if TYPE_CHECKING:
    import pandas as pd

    from hangscope.model import Event

_ENVIRONMENT = ("nccl_setting", "environment_print", "environment_setting")
_HOST_SOURCES = ("kernel", "scheduler")
LARGE = frozenset({"calls", "recorded_calls"})
"""Tables that come in pieces; the others have few enough rows to make them one by one."""


class Tables:
    """The DataFrames of one job. Columns: `hangscope.tables.SCHEMA`.

    Attributes (built on first use): events, exceptions, environment, host_messages; calls, recorded_calls,
    processes, communicators, memberships and stacks are filled by alignment.
    """

    def __init__(
        self,
        events: Sequence[Event],
        calls: LargeTable | None = None,
        *,
        communicators: Iterable[dict[str, object]] = (),
        memberships: Iterable[dict[str, object]] = (),
        stacks: Iterable[dict[str, object]] = (),
        processes: Iterable[dict[str, object]] = (),
        recorded: LargeTable | None = None,
    ) -> None:
        self._events = events
        self._communicators = list(communicators)
        self._memberships = list(memberships)
        # kept as it comes: the frames of a thousand ranks become rows only when somebody asks for them
        self._stacks = stacks
        self._processes = list(processes)
        self._large = {"calls": calls, "recorded_calls": recorded}

    def rows(self, table: str) -> Iterator[dict[str, object]]:
        """The rows of a table other than the `LARGE` ones, one after the other.

        Raises:
            KeyError: no such table.
        """
        made: dict[str, Callable[[], Iterable[dict[str, object]]]] = {
            "events": self._event_rows,
            "exceptions": self._exception_rows,
            "environment": self._environment_rows,
            "host_messages": self._host_rows,
            "communicators": lambda: self._communicators,
            "memberships": lambda: self._memberships,
            "stacks": lambda: self._stacks,
            "processes": lambda: self._processes,
        }
        return iter(made[table]())

    def pieces(self, table: str) -> Iterator[Piece]:
        """One of the `LARGE` tables in pieces, for jobs of which it would not fit into memory.

        Raises:
            KeyError: no such table.
        """
        rows = self._large[table]
        return iter(()) if rows is None or not len(rows) else rows.pieces()

    def _whole(self, table: str) -> pd.DataFrame:
        rows = self._large[table]
        return frame(table, []) if rows is None or not len(rows) else rows.frame

    @functools.cached_property
    def calls(self) -> pd.DataFrame:
        """Every collective or point-to-point call that NCCL printed."""
        return self._whole("calls")

    @functools.cached_property
    def recorded_calls(self) -> pd.DataFrame:
        """Every call that a flight recorder holds."""
        return self._whole("recorded_calls")

    @functools.cached_property
    def events(self) -> pd.DataFrame:
        """Every recognized line."""
        return frame("events", list(self.rows("events")))

    @functools.cached_property
    def exceptions(self) -> pd.DataFrame:
        """Every Python exception that was printed."""
        return frame("exceptions", list(self.rows("exceptions")))

    @functools.cached_property
    def environment(self) -> pd.DataFrame:
        """Every setting that a process printed, one row a variable."""
        return frame("environment", list(self.rows("environment")))

    @functools.cached_property
    def host_messages(self) -> pd.DataFrame:
        """What kernels and schedulers say."""
        return frame("host_messages", list(self.rows("host_messages")))

    @functools.cached_property
    def processes(self) -> pd.DataFrame:
        """One row a process."""
        return frame("processes", list(self.rows("processes")))

    @functools.cached_property
    def communicators(self) -> pd.DataFrame:
        """One row a group of communicator objects."""
        return frame("communicators", list(self.rows("communicators")))

    @functools.cached_property
    def memberships(self) -> pd.DataFrame:
        """One row a communicator object of a process."""
        return frame("memberships", list(self.rows("memberships")))

    @functools.cached_property
    def stacks(self) -> pd.DataFrame:
        """One row a frame of every thread of every stack dump."""
        return frame("stacks", list(self.rows("stacks")))

    def _event_rows(self) -> Iterator[dict[str, object]]:
        for event in self._events:
            yield {
                **_where(event),
                "source": event.source,
                "kind": event.kind,
                "level": event.line.level,
                "count": event.count,
                "text": event.line.raw,
                "fields": event.fields,
            }

    def _exception_rows(self) -> Iterator[dict[str, object]]:
        return ({**_where(event), **event.fields} for event in self._events if event.kind == "exception")

    def _environment_rows(self) -> Iterator[dict[str, object]]:
        for event in self._events:
            if event.kind not in _ENVIRONMENT:
                continue
            if "name" in event.fields:
                yield {**_where(event), "name": event.fields["name"], "value": event.fields.get("value")}
            else:
                for name, value in event.fields.items():
                    yield {**_where(event), "name": name, "value": str(value)}

    def _host_rows(self) -> Iterator[dict[str, object]]:
        for event in self._events:
            if event.source.startswith(_HOST_SOURCES):
                yield {**_where(event), "kind": event.kind, "text": event.line.raw}


def _where(event: Event) -> dict[str, object]:
    line = event.line
    return {
        "file": line.file,
        "line": line.number,
        "time": float("nan") if line.time is None else line.time,
        "host": event.host,
        "pid": line.pid,
        "rank": event.rank,
    }
