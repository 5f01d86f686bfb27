"""Packs what the page's program draws (ranks, calls, inputs) into one compact piece of JSON inside the page.

Rows are arrays, and texts that come again and again stand once in a table of strings: a job of 1,024 ranks has to stay
far below the 10 MB that a mail or a chat lets through.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from hangscope.model import CallHistory, CallState, CollectiveState, GroupHistory, Report, Transfer
from hangscope.model.grid import AlikeRows, lay_out, put_alike_together
from hangscope.model.states import STATES
from hangscope.report.printable import one_line
from hangscope.report.spans import fold_numbers, hosts_words, rank_words

Json = dict[str, object]

MOST_CELLS = 4_096
"""Of more ranks, hosts that look alike are one row of the grid."""

CALL_STATES = {
    CallState.MISSING: ("M", "the rank did not make the call"),
    CallState.DIFFERS: ("\u2260", "the rank called something else"),
    CallState.WAITING: ("w", "the rank made the call and waits in it"),
    CallState.STARTED: (">", "it runs on the GPU and is not known to have ended"),
    CallState.NOT_REACHED: ("-", "the rank stopped before it came to this call"),
    CallState.DONE: ("\u00b7", "it completed, or all made it alike"),
    CallState.UNKNOWN: (" ", "there is no evidence of the rank, or none that reaches back so far"),
}
"""The character that stands for the state of one rank's call, on the page and in the JSON; worst first."""

# What would end the script element or open a comment in it.
_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


class _Strings:
    """Texts by number, each once, made harmless."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str | None) -> int:
        """Its number; that of "" for None."""
        return self._numbers.setdefault(one_line(text or ""), len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


def build_island(report: Report) -> str:
    """The JSON, in characters that cannot leave a script element."""
    strings = _Strings()
    content: Json = {
        "ranks": _ranks(report, strings),
        "grid": _grid(report, strings),
        "states": {word: [STATES[word].glyph, STATES[word].meaning] for word in STATES},
        "callStates": [[glyph, state.value or "unknown", meaning] for state, (glyph, meaning) in CALL_STATES.items()],
        "stuck": [_stuck(state, strings) for state in report.collectives],
        "groups": [_group(group, strings) for group in report.history.groups] if report.history else [],
        "groupsLeftOut": report.history.left_out if report.history else 0,
        "transfers": [_transfer(one, strings) for one in report.history.transfers] if report.history else [],
        "sources": [
            [one_line(s.file), s.kind, s.lines, s.bytes, s.unrecognized, one_line(s.error or "")]
            for s in report.sources
        ],
    }
    content["strings"] = strings.all()
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


def _ranks(report: Report, strings: _Strings) -> list[list[object]]:
    """Rank, host, GPU, pid, state, where, last seen, whether the verdict blames it."""
    blamed = frozenset(report.verdict.ranks)
    return [
        [
            state.rank,
            strings.number(state.host),
            strings.number(state.gpu),
            state.pid,
            state.state,
            strings.number(state.where),
            state.last_seen or "",
            int(state.rank in blamed),
        ]
        for state in report.ranks
    ]


def _grid(report: Report, strings: _Strings) -> Json:
    """The rows of the grid: label, a rank a cell, how many rows look like it and are not there."""
    grid = lay_out(report.ranks, report.verdict.ranks)
    if len(report.ranks) <= MOST_CELLS:
        rows = [(row.host or "", row, 0) for row in grid.rows]
    else:
        rows = [(_alike_words(alike), alike.rows[0], len(alike.rows) - 1) for alike in put_alike_together(grid)]
    return {
        "columns": grid.columns,
        "rows": [
            [strings.number(label), [None if cell is None else cell.state.rank for cell in row.cells], more]
            for label, row, more in rows[:MOST_CELLS]
        ],
    }


def _alike_words(alike: AlikeRows) -> str:
    """``node[001-512] (512 hosts)``."""
    if not alike.hosts:
        return rank_words(alike.ranks, most=40)
    return hosts_words(alike.hosts)


def _stuck(state: CollectiveState, strings: _Strings) -> list[object]:
    """Group, its description, its size, seq, op, where, arrived, missing, differing."""
    return [
        strings.number(state.group),
        strings.number(state.description),
        state.group_size,
        state.seq,
        strings.number(state.op),
        strings.number(state.where),
        _span(state.arrived),
        _span(state.missing),
        _differing(state.differing.items(), strings),
    ]


def _group(group: GroupHistory, strings: _Strings) -> Json:
    return {
        "name": strings.number(group.group),
        "about": strings.number(group.description),
        "size": group.size,
        "ranks": _span(group.ranks),
        "leftOut": group.left_out,
        "beyond": group.beyond,
        "stuck": group.stuck,
        "calls": [_call(call, strings) for call in group.calls],
    }


def _call(call: CallHistory, strings: _Strings) -> list[object]:
    """Seq, op, size, where, a character a rank, differing, the first start, each start as milliseconds after it."""
    started = [_finite(start) for start in call.started]
    first = min((start for start in started if start is not None), default=None)
    starts = [] if first is None else [None if one is None else round((one - first) * 1000, 1) for one in started]
    return [
        call.seq,
        strings.number(call.op),
        strings.number(call.size),
        strings.number(call.where),
        "".join(CALL_STATES[state][0] for state in call.states),
        _differing(call.differing.items(), strings),
        first,
        starts,
    ]


def _transfer(one: Transfer, strings: _Strings) -> list[object]:
    """Group, seq, op, rank, peer, size, where, state, start."""
    return [
        strings.number(one.group),
        one.seq,
        strings.number(one.op),
        one.rank,
        one.peer,
        strings.number(one.size),
        strings.number(one.where),
        CALL_STATES[one.state][0],
        _finite(one.started),
    ]


def _finite(seconds: float | None) -> float | None:
    """A time that JSON can hold: a broken dump may say anything."""
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _differing(items: Iterable[tuple[int, str]], strings: _Strings) -> list[list[int]]:
    return [[rank, strings.number(call)] for rank, call in sorted(items)]


def _span(ranks: Sequence[int]) -> str:
    return fold_numbers(ranks, strides=False)
