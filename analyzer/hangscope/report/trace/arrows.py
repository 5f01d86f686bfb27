"""Draws who waits for whom as arrows between slices, and the story as marks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from hangscope.model import Report
from hangscope.report.printable import printable
from hangscope.report.proof import place_words
from hangscope.report.trace.axis import Axis, order_place, seconds
from hangscope.report.trace.tracks import CALLS, STATE, TRANSFERS, Event, Tracks, short

_MOST_ARROWS = 4000
_MOST_MISSED = 4
"""To so many ranks at most does one rank draw arrows."""
_MOST_MARKED = 64
"""On so many ranks at most does a step of the story stand; the others are in its list."""


def draw_waits(report: Report, slices: Iterable[Event], tracks: Tracks) -> Iterator[Event]:
    """An arrow from each rank that waits in a stuck call, or for a transfer, to those that it waits for."""
    pairs = itertools.chain(_waits_in_calls(report, slices, tracks), _waits_in_transfers(report, slices, tracks))
    for number, (one, other) in enumerate(itertools.islice(pairs, _MOST_ARROWS), start=1):
        yield from _arrow(number, one, other)


def _waits_in_calls(report: Report, slices: Iterable[Event], tracks: Tracks) -> Iterator[tuple[Event, Event]]:
    by_call: dict[tuple[int, int], Event] = {}
    for event in slices:
        if event["cat"] in ("call", "missing"):
            by_call.setdefault((event["tid"], event["args"]["number"]), event)
    for group in report.history.groups if report.history is not None else ():
        if group.stuck is None:
            continue
        threads = (tracks.place(rank, CALLS, group.group)["tid"] for rank in group.ranks)
        found = (by_call.get((thread, group.stuck)) for thread in threads)
        there = [event for event in found if event is not None]
        waiting = [event for event in there if event["args"]["state"] in ("waiting", "started")]
        missed = [event for event in there if event["args"]["state"] in ("missing", "differs")]
        yield from itertools.product(waiting, missed[:_MOST_MISSED])


def _waits_in_transfers(report: Report, slices: Iterable[Event], tracks: Tracks) -> Iterator[tuple[Event, Event]]:
    """From the first open transfer of each rank to where its peer is."""
    first: dict[int, Event] = {}
    for event in slices:
        if event["cat"] == "transfer" and event["args"]["state"] in ("waiting", "started"):
            first.setdefault(event["tid"], event)
    for one in report.history.transfers if report.history is not None else ():
        if one.peer is not None and tracks.has(one.peer, STATE):
            waits = first.get(tracks.place(one.rank, TRANSFERS, one.group)["tid"])
            if waits is not None and (waits["args"]["number"], waits["args"]["peer"]) == (one.seq, one.peer):
                yield waits, {**tracks.place(one.peer, STATE), "ts": 0.0}


def _arrow(number: int, one: Event, other: Event) -> Iterator[Event]:
    common = {"name": "waits for", "cat": "wait", "id": number}
    yield {"ph": "s", **common, "pid": one["pid"], "tid": one["tid"], "ts": one["ts"]}
    # an arrow ends no earlier than it begins, and inside of a slice
    yield {
        "ph": "f",
        "bp": "e",
        **common,
        "pid": other["pid"],
        "tid": other["tid"],
        "ts": max(one["ts"], other["ts"]),
    }


def draw_story(report: Report, tracks: Tracks, axis: Axis) -> Iterator[Event]:
    """A mark for each step of the story: on the ranks it is about, or on the whole trace."""
    steps = report.story
    for number, step in enumerate(steps):
        when = seconds(step.time)
        if axis.by_time:
            if when is None or not 0 <= axis.at(when) <= axis.end:
                continue  # of an unknown time, or of another time zone
            place = axis.at(when)
        else:
            place = order_place(axis, number, len(steps))
        args: dict[str, object] = {"step": number + 1, "text": printable(step.text)}
        if step.time is not None:
            args["time as printed"] = step.time
        if step.evidence:
            args["shown by"] = place_words(step.evidence[0].at)
        mark = {"ph": "i", "name": short(step.text), "cat": "story", "ts": place, "args": args}
        ranks = [rank for rank in step.ranks if tracks.has(rank, STATE)]
        for rank in ranks[:_MOST_MARKED]:
            yield {**mark, "s": "t", **tracks.place(rank, STATE)}
        if not ranks:
            yield {**mark, "s": "g", "pid": 1, "tid": 1}
