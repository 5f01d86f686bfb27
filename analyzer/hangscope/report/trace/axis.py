"""Places calls and steps of the story on the time axis of a trace: by their times, or, without these, in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from hangscope.model import CallHistory, GroupHistory, Report
from hangscope.model.history import MADE
from hangscope.records import dataclass

_STEP_US = 1000.0
"""How long a call is where nothing tells its time."""
_MARGIN = 0.1
"""Share of the whole that waits are drawn beyond the last thing known, so that they can be seen."""
_LONGEST_S = 2 * 3600.0
"""What a log tells so long after the last call is of another time zone, or of another run."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis; every time on it is in microseconds from its begin.

    Attributes:
        by_time: calls stand where their times are; else in their order, those of a group at even distances.
        begin: seconds since 1970 at 0, when it is by time.
        end: where everything that still waits is drawn to.
    """

    by_time: bool
    begin: float
    end: float

    def at(self, seconds: float) -> float:
        """Where a time stands."""
        return round((seconds - self.begin) * 1e6, 3)

    def starts(self, group: GroupHistory, row: int) -> list[float | None]:
        """Where the ranks of a group made one of its calls; None for those that did not, or of which nobody knows."""
        call = group.calls[row]
        made = [state in MADE for state in call.states]
        if self.by_time:
            return [
                self.at(time) if there and time is not None else None
                for there, time in zip(made, call.started or [None] * len(made), strict=True)
            ]
        # the last call of every group stands at the end
        place = self.end - _STEP_US * (len(group.calls) - row + 1)
        return [place if there else None for there in made]


def find_axis(report: Report) -> Axis:
    """The axis that fits to what the report knows."""
    groups = report.history.groups if report.history is not None else ()
    if any(group.calls for group in groups) and all(_is_timed(call) for group in groups for call in group.calls):
        times = [time for group in groups for call in group.calls for time in call.started if time is not None]
        times += [one.started for one in report.history.transfers if one.started is not None] if report.history else []
        begin, last = min(times), max(times)
        told = [when for when in _told(report) if last <= when <= last + _LONGEST_S]
        last = max([last, *told])
        end = (last - begin) * (1 + _MARGIN) * 1e6
        return Axis(by_time=True, begin=begin, end=round(end + _STEP_US, 3))
    longest = max((len(group.calls) for group in groups), default=0)
    transfers = max(_per_rank(report).values(), default=0)
    return Axis(by_time=False, begin=0.0, end=_STEP_US * (max(longest, transfers) + 1))


def seconds(iso: str | None) -> float | None:
    """A time of the report as seconds since 1970."""
    if iso is None:
        return None
    try:
        return datetime.fromisoformat(iso).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def order_place(axis: Axis, row: int, count: int) -> float:
    """Where the row-th of so many things stands that have an order and no time; the last one is at the end."""
    return max(axis.end - _STEP_US * (count - row + 1), 0.0)


def _is_timed(call: CallHistory) -> bool:
    if not call.started:
        return not any(state in MADE for state in call.states)
    return all(time is not None for state, time in zip(call.states, call.started, strict=True) if state in MADE)


def _told(report: Report) -> Iterator[float]:
    for iso in (report.job.last_time, *(step.time for step in report.story)):
        when = seconds(iso)
        if when is not None:
            yield when


def _per_rank(report: Report) -> dict[int, int]:
    found: dict[int, int] = {}
    for one in report.history.transfers if report.history is not None else ():
        found[one.rank] = found.get(one.rank, 0) + 1
    return found
