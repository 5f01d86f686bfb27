"""Draws the calls of a report's history as slices of a trace, those that wait up to the end, and who is missing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hangscope.model import CallHistory, CallState, GroupHistory, Report, Transfer
from hangscope.model.history import OPEN
from hangscope.report.printable import printable
from hangscope.report.trace.axis import Axis, order_place
from hangscope.report.trace.tracks import CALLS, STATE, TRANSFERS, Event, Tracks, short

_SHORTEST_US = 1.0
_COLORS = {
    CallState.DONE: "good",
    CallState.STARTED: "yellow",
    CallState.WAITING: "yellow",
    CallState.DIFFERS: "terrible",
    CallState.MISSING: "terrible",
}
"""Names of chrome://tracing; other viewers choose their own."""


def draw_states(report: Report, tracks: Tracks, axis: Axis) -> Iterator[Event]:
    """A slice a rank over the whole trace: where it is at the end."""
    blamed = set(report.verdict.ranks)
    for rank, state in sorted(tracks.states.items()):
        args = {
            "state": state.state,
            "where": state.where,
            "gpu": state.gpu,
            "os pid": state.pid,
            "last line": state.last_seen,
            "verdict": report.verdict.title if rank in blamed else None,
        }
        known = {name: printable(v) if isinstance(v, str) else v for name, v in args.items() if v is not None}
        yield {
            "ph": "X",
            "name": f"{state.state} (the verdict names it)" if rank in blamed else state.state,
            "cat": "state",
            **tracks.place(rank, STATE),
            "ts": 0.0,
            "dur": axis.end,
            "args": known,
        }


def draw_calls(group: GroupHistory, tracks: Tracks, axis: Axis) -> Iterator[Event]:
    """The slices of one group, rank by rank."""
    starts = [axis.starts(group, row) for row in range(len(group.calls))]
    last_arrival = [max((place for place in row if place is not None), default=0.0) for row in starts]
    first_arrival = [min((place for place in row if place is not None), default=0.0) for row in starts]
    for column, rank in enumerate(group.ranks):
        mine = [row[column] for row in starts]
        place = tracks.place(rank, CALLS, group.group)
        waits = False
        free_from = 0.0
        for row, call in enumerate(group.calls):
            state, start = call.states[column], mine[row]
            if state is CallState.MISSING:
                begin = max(first_arrival[row], free_from)
                yield _slice(call, rank, state, place, (begin, axis.end))
            if start is None:
                continue
            later = itertools.islice(mine, row + 1, None)
            following = next((other for other in later if other is not None and other > start), axis.end)
            is_open = state in OPEN or call.seq == group.stuck
            if is_open and not waits:
                waits, end = True, axis.end  # what is queued behind it lies inside
            else:
                end = following if is_open or waits else min(following, max(last_arrival[row], start + _SHORTEST_US))
            free_from = max(free_from, end)
            yield _slice(call, rank, state, place, (start, end))


def draw_transfers(report: Report, tracks: Tracks, axis: Axis) -> Iterator[Event]:
    """The slices of all sends and receives, rank by rank and group by group."""
    lanes: dict[tuple[int, str], list[Transfer]] = {}
    for one in report.history.transfers if report.history is not None else ():
        lanes.setdefault((one.rank, one.group), []).append(one)
    for (rank, group), made in lanes.items():
        waits = False
        for at, one in enumerate(made):
            start = _transfer_start(made, at, axis)
            later = (_transfer_start(made, place, axis) for place in range(at + 1, len(made)))
            following = next((place for place in later if place > start), axis.end)
            is_open = one.state in OPEN
            end = axis.end if is_open and not waits else following
            if not is_open and not waits and axis.by_time:
                end = min(following, start + _SHORTEST_US)
            waits = waits or is_open
            peer = "an unknown rank" if one.peer is None else f"rank {one.peer}"
            name = f"{one.op} {'to' if one.op == 'send' else 'from'} {peer}"
            yield {
                "ph": "X",
                "name": name,
                "cat": "transfer",
                "cname": _COLORS[one.state],
                **tracks.place(rank, TRANSFERS, group),
                "ts": start,
                "dur": round(max(end - start, 0.0), 3),
                "args": _known(
                    number=one.seq,
                    peer=-1 if one.peer is None else one.peer,
                    state=one.state.value,
                    size=one.size,
                    where=one.where,
                ),
            }


def _transfer_start(made: list[Transfer], at: int, axis: Axis) -> float:
    time = made[at].started
    return axis.at(time) if axis.by_time and time is not None else order_place(axis, at, len(made))


def _slice(call: CallHistory, rank: int, state: CallState, place: Event, span: tuple[float, float]) -> Event:
    start, end = span
    called = call.differing.get(rank, "")
    name = {
        CallState.MISSING: f"not here: {call.op} {call.seq}",
        CallState.DIFFERS: f"{called} in place of {call.op} {call.seq}",
    }.get(state, f"{call.op} {call.seq}")
    return {
        "ph": "X",
        "name": short(name),
        "cat": "missing" if state is CallState.MISSING else "call",
        "cname": _COLORS[state],
        **place,
        "ts": start,
        "dur": round(max(end - start, 0.0), 3),
        "args": _known(number=call.seq, state=state.value, size="" if called else call.size, where=call.where),
    }


def _known(**args: object) -> dict[str, object]:
    return {name: printable(v) if isinstance(v, str) else v for name, v in args.items() if v != ""}
