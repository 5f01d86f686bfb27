"""Trace events for ui.perfetto.dev: ranks as processes, groups as threads, calls as slices, waiting as arrows."""

from __future__ import annotations

import json
from typing import TextIO

from hangscope.model import Report
from hangscope.model.history import SOURCE_WORDS
from hangscope.report.options import RenderOptions
from hangscope.report.printable import printable
from hangscope.report.times import iso_time
from hangscope.report.trace.arrows import draw_story, draw_waits
from hangscope.report.trace.axis import Axis, find_axis
from hangscope.report.trace.slices import draw_calls, draw_states, draw_transfers
from hangscope.report.trace.tracks import Event, Tracks

FILE = "trace.json"
HISTORY = 200

_PLACES = {"M": 0, "X": 1, "s": 2, "f": 3, "i": 4}
"""Order of events of one time: a slice stands before what is bound to it."""


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the trace, an event a line; `quiet`, `verbose` and the width do not change what a program reads."""

    def plain(value: object) -> str:
        return json.dumps(value, ensure_ascii=not options.takes_all, separators=(",", ":"), allow_nan=False)

    tracks, axis = Tracks(report), find_axis(report)
    stream.write(f'{{"displayTimeUnit":"ms","otherData":{plain(_about(report, axis))},"traceEvents":[\n')
    stream.write(",\n".join(plain(event) for event in _events(report, tracks, axis)))
    stream.write("\n]}\n")


def _events(report: Report, tracks: Tracks, axis: Axis) -> list[Event]:
    groups = report.history.groups if report.history is not None else ()
    slices = [event for group in groups for event in draw_calls(group, tracks, axis)]
    slices += draw_transfers(report, tracks, axis)
    drawn = [
        *draw_states(report, tracks, axis),
        *slices,
        *draw_waits(report, slices, tracks),
        *draw_story(report, tracks, axis),
    ]
    # of slices that begin together the longer one holds the other
    drawn.sort(key=lambda event: (event["ts"], _PLACES[event["ph"]], -event.get("dur", 0.0)))
    return [*tracks.describe(), *drawn]


def _about(report: Report, axis: Axis) -> Event:
    """What somebody has to know who reads the trace."""
    about: Event = {
        "hangscope": report.hangscope_version,
        "verdict": printable(report.verdict.title),
        "cause": report.verdict.cause,
    }
    if report.history is None or not (report.history.groups or report.history.transfers):
        return {**about, "calls": "nothing tells of single calls: neither NCCL's call lines nor flight recorders"}
    about["calls"] = SOURCE_WORDS.get(report.history.source, report.history.source)
    if axis.by_time:
        about["time 0 is"] = iso_time(axis.begin)
        about["slices"] = (
            "A call is drawn from when the rank made it to when the last rank of its group had made it, and to the end "
            "when it did not complete."
        )
    else:
        about["slices"] = (
            "Nothing tells the times of the calls: they stand in their order, a millisecond each, the last of every "
            "group at the end; only calls of one group can be compared."
        )
    if report.history.left_out:
        about["groups left out"] = report.history.left_out
    return about
