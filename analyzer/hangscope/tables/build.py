"""Builds the tables from events, each on first use."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from hangscope.tables.schema import SCHEMA, frame

if TYPE_CHECKING:
    import pandas as pd

    from hangscope.model import Event

_ENVIRONMENT = ("nccl_setting", "environment_print", "environment_setting")
_HOST_SOURCES = ("kernel", "scheduler")


class CallRows(Protocol):
    """The calls, which become a DataFrame only when somebody asks for it."""

    def __len__(self) -> int: ...

    @property
    def frame(self) -> pd.DataFrame: ...


class Tables:
    """The DataFrames of one job. Columns: `hangscope.tables.SCHEMA`.

    Attributes (built on first use): events, exceptions, environment, host_messages; calls, communicators,
    memberships and stacks are filled by alignment.
    """

    def __init__(
        self,
        events: Sequence[Event],
        calls: CallRows | None = None,
        communicators: Iterable[dict[str, object]] = (),
        memberships: Iterable[dict[str, object]] = (),
        stacks: Iterable[dict[str, object]] = (),
    ) -> None:
        self._events = events
        self._communicators = list(communicators)
        self._memberships = list(memberships)
        # kept as it comes: the frames of a thousand ranks become rows only when somebody asks for them
        self._stacks = stacks
        self._calls = calls

    @functools.cached_property
    def calls(self) -> pd.DataFrame:
        """Every collective or point-to-point call that NCCL printed."""
        if self._calls is None or not len(self._calls):
            return frame("calls", [])
        return self._calls.frame[[column.name for column in SCHEMA["calls"]]]

    @functools.cached_property
    def events(self) -> pd.DataFrame:
        """Every recognized line."""
        return frame(
            "events",
            [
                {
                    **_where(event),
                    "source": event.source,
                    "kind": event.kind,
                    "level": event.line.level,
                    "count": event.count,
                    "text": event.line.raw,
                    "fields": event.fields,
                }
                for event in self._events
            ],
        )

    @functools.cached_property
    def exceptions(self) -> pd.DataFrame:
        """Every Python exception that was printed."""
        return frame("exceptions", [{**_where(e), **e.fields} for e in self._events if e.kind == "exception"])

    @functools.cached_property
    def environment(self) -> pd.DataFrame:
        """Every setting that a process printed, one row a variable."""
        rows = []
        for event in self._events:
            if event.kind not in _ENVIRONMENT:
                continue
            if "name" in event.fields:
                rows.append({**_where(event), "name": event.fields["name"], "value": event.fields.get("value")})
            else:
                rows += [{**_where(event), "name": name, "value": str(value)} for name, value in event.fields.items()]
        return frame("environment", rows)

    @functools.cached_property
    def host_messages(self) -> pd.DataFrame:
        """What kernels and schedulers say."""
        found = [e for e in self._events if e.source.startswith(_HOST_SOURCES)]
        return frame("host_messages", [{**_where(e), "kind": e.kind, "text": e.line.raw} for e in found])

    @functools.cached_property
    def communicators(self) -> pd.DataFrame:
        """One row a group of communicator objects."""
        return frame("communicators", self._communicators)

    @functools.cached_property
    def memberships(self) -> pd.DataFrame:
        """One row a communicator object of a process."""
        return frame("memberships", self._memberships)

    @functools.cached_property
    def stacks(self) -> pd.DataFrame:
        """One row a frame of every thread of every stack dump."""
        return frame("stacks", list(self._stacks))


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
