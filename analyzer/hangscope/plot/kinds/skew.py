"""How far apart the ranks arrive at each call, and who comes last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from hangscope.errors import MissingEvidenceError
from hangscope.model import CallHistory, CallState, GroupHistory, Report
from hangscope.plot.findings import group_words, headline, main_call
from hangscope.plot.labels import FONT, fitted, width_in
from hangscope.plot.picture import LABEL, MARGIN_IN, SMALL, Entry, Picture, legend_height_in, title_height_in
from hangscope.ranges import rank_words
from hangscope.records import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY = 60

_WIDTH_IN = 11.0
_HEIGHT_IN = 2.5
_LEFT_IN = 0.95
_MOST_PANELS = 3
_FEWEST_CALLS = 2
_MOST_POINTS = 64
"""So many ranks have a point each; of more only the span and the last one are drawn."""
_NOTABLE = 0.5
"""A rank that comes last in more than this share of the calls is named."""
_NOTABLE_S = 0.001
"""Less is what clocks and the recorder's own work make."""
_WIDEST_BAR_IN = 0.5
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "\u00b5s"))


@dataclass(frozen=True, slots=True)
class _Call:
    """One call: rank -> how much later than the first it arrived, seconds; and who never did."""

    seq: int
    op: str
    late_s: dict[int, float]
    missing: tuple[int, ...]

    @property
    def last(self) -> int:
        return max(self.late_s, key=lambda rank: (self.late_s[rank], -rank))

    @property
    def spread_s(self) -> float:
        return max(self.late_s.values())


@dataclass(frozen=True, slots=True)
class _Panel:
    group: GroupHistory
    calls: list[_Call]

    @property
    def usual_last(self) -> tuple[int, int]:
        """The rank that comes last most often, and how often."""
        lasts = Counter(call.last for call in self.calls)
        return min(lasts.items(), key=lambda item: (-item[1], item[0]))


def draw(report: Report, *, dark: bool = False) -> Picture:
    """A panel a group, a column a call: when each rank arrived after the first, and who never did.

    Raises:
        MissingEvidenceError: no times of calls are known of two ranks.
    """
    history = report.history
    panels = _panels(report, history.groups if history is not None else ())
    if not panels:
        raise MissingEvidenceError(
            "nothing tells when the ranks made their calls",
            "Give flight recorders' dumps (TORCH_FR_BUFFER_SIZE=2000), or call lines with times "
            "(NCCL_DEBUG_TIMESTAMP_LEVELS=INFO).",
        )
    title, subtitle = _title(report, panels[0])
    palette_words = ["first to last rank", "last to arrive", "never came"]
    top = title_height_in(title, subtitle, _WIDTH_IN)
    legend_in = legend_height_in(palette_words, _WIDTH_IN)
    height = top + len(panels) * (_HEIGHT_IN + 1.0) + legend_in + 0.4
    picture = Picture((_WIDTH_IN, height), title, subtitle, dark=dark)
    for panel in panels:
        words = f"{group_words(panel.group.group, panel.group.description)}: {_found(panel)}"
        picture.write(
            MARGIN_IN,
            top + 0.15,
            fitted(words, LABEL, _WIDTH_IN - 2 * MARGIN_IN, bold=True),
            weight="bold",
            gid="panel",
        )
        axes = picture.panel(_LEFT_IN, top + 0.45, _WIDTH_IN - _LEFT_IN - MARGIN_IN, _HEIGHT_IN)
        _draw_panel(picture, axes, panel)
        top += _HEIGHT_IN + 1.0
    palette = picture.palette
    entries = [Entry(palette_words[0], palette.ramp[1]), Entry(palette_words[1], palette.wait, mark="o")]
    if any(call.missing for panel in panels for call in panel.calls):
        entries.append(Entry(palette_words[2], palette.accent, mark="X"))
    picture.add_legend(top, entries)
    note = "Clocks of different hosts may be off by more than the spread; hangscope corrects what it can tell."
    picture.write(MARGIN_IN, top + legend_in + 0.2, note, size=SMALL, color=palette.faint, gid="note")
    return picture


def _panels(report: Report, groups: Sequence[GroupHistory]) -> list[_Panel]:
    found = [_Panel(group, calls) for group in groups if len(calls := _calls(group)) >= _FEWEST_CALLS]
    main = main_call(report)
    found.sort(key=lambda panel: (main is None or panel.group.group != main.group, panel.group.stuck is None))
    stuck = [panel for panel in found if panel.group.stuck is not None and any(call.missing for call in panel.calls)]
    return (stuck or found[:1])[:_MOST_PANELS]


def _calls(group: GroupHistory) -> list[_Call]:
    return [call for one in group.calls if (call := _call(group, one)) is not None]


def _call(group: GroupHistory, call: CallHistory) -> _Call | None:
    known = {rank: at for rank, at in zip(group.ranks, call.started, strict=False) if at is not None}
    if len(known) < 2:
        return None
    first = min(known.values())
    missing = tuple(r for r, state in zip(group.ranks, call.states, strict=True) if state is CallState.MISSING)
    return _Call(call.seq, call.op, {rank: at - first for rank, at in known.items()}, missing)


def _title(report: Report, panel: _Panel) -> tuple[str, str]:
    rank, times = panel.usual_last
    count = len(panel.calls)
    spread_s = median(call.spread_s for call in panel.calls)
    words = f"The ranks arrive within {_time(spread_s)} of each other."
    if times > _NOTABLE * count and len(panel.group.ranks) > 2 and spread_s >= _NOTABLE_S:
        late_s = median(call.spread_s for call in panel.calls if call.last == rank)
        words = f"Rank {rank} arrives last in {times} of {count} calls, {_time(late_s)} after the first."
    if any(call.missing for call in panel.calls):
        return headline(report)[0], f"Before: {words[:1].lower()}{words[1:]}"
    return words.removesuffix("."), report.verdict.title


def _found(panel: _Panel) -> str:
    words = f"median spread {_time(median(call.spread_s for call in panel.calls))}"
    gone = next((call for call in panel.calls if call.missing), None)
    if gone is not None:
        words += f"; {rank_words(gone.missing, most=30)} never came to {gone.op} {gone.seq}"
    return words


def _draw_panel(picture: Picture, axes: Axes, panel: _Panel) -> None:
    palette, calls = picture.palette, panel.calls
    longest = max((call.spread_s for call in calls), default=0.0)
    scale, unit = next(((s, u) for s, u in _UNITS if longest >= s), _UNITS[-1])
    places = np.arange(len(calls), dtype=np.float64)
    spreads = np.array([call.spread_s / scale for call in calls])
    room = (_WIDTH_IN - _LEFT_IN - MARGIN_IN) / len(calls)
    axes.bar(places, spreads, width=min(0.7, _WIDEST_BAR_IN / room), color=palette.ramp[1], gid="spread", zorder=1)
    few = len(panel.group.ranks) <= _MOST_POINTS
    if few:
        points = [(at, late / scale) for at, call in zip(places, calls, strict=True) for late in call.late_s.values()]
        x, y = zip(*points, strict=True)
        axes.scatter(x, y, s=9, color=palette.ramp[3], linewidths=0, zorder=2, gid="arrivals")
    axes.scatter(
        places,
        spreads,
        s=30,
        marker="o",
        color=palette.wait,
        edgecolors=palette.ink,
        linewidths=0.5,
        zorder=3,
        gid="last",
    )
    if room > width_in("0000", SMALL - 1):
        for at, call in zip(places, calls, strict=True):
            axes.annotate(
                str(call.last), (at, call.spread_s / scale), xytext=(0, 5), textcoords="offset points", ha="center",
                family=FONT, size=SMALL - 1, color=palette.ink, gid="last rank",
            )  # fmt: skip
    top = max(float(spreads.max()), 1e-9) * 1.25
    gone = [(at, call) for at, call in zip(places, calls, strict=True) if call.missing]
    if gone:
        axes.scatter(
            [at for at, _ in gone], [top * 0.97] * len(gone), s=60, marker="X", color=palette.accent, zorder=4,
            linewidths=0, gid="missing",
        )  # fmt: skip
        at, call = gone[0]
        side = -1 if at > len(calls) / 2 else 1
        axes.annotate(
            rank_words(call.missing, most=24), (at, top * 0.97), xytext=(8 * side, 0), textcoords="offset points",
            ha="right" if side < 0 else "left", va="center", family=FONT, size=SMALL, weight="bold",
            color=palette.ink, gid="missing",
        )  # fmt: skip
        axes.axvline(at, color=palette.accent, linewidth=1.0, linestyle=(0, (3, 2)), zorder=0)
    axes.set_ylim(0, top * 1.05)
    axes.set_xlim(-0.7, len(calls) - 0.3)
    axes.set_ylabel(f"{unit} after the first rank", family=FONT, size=SMALL, color=palette.faint)
    axes.grid(visible=True, axis="y", color=palette.line, linewidth=0.5)
    axes.set_axisbelow(True)
    _label_calls(picture, axes, calls, room)


def _label_calls(picture: Picture, axes: Axes, calls: Sequence[_Call], room: float) -> None:
    every = max(int(np.ceil(max(width_in(str(call.seq), SMALL) for call in calls) * 1.3 / room)), 1)
    shown = range(len(calls) - 1, -1, -every)
    axes.set_xticks(list(shown), [str(calls[at].seq) for at in shown])
    axes.set_xlabel("number of the call", family=FONT, size=SMALL, color=picture.palette.faint, labelpad=2, loc="left")
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        picture.set_tick(tick)


def _time(seconds: float) -> str:
    scale, unit = next(((s, u) for s, u in _UNITS if seconds >= s), _UNITS[-1])
    return f"{seconds / scale:.3g} {unit}"
