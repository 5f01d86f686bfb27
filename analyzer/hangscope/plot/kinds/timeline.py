"""What each rank of the stuck groups called last: who came how far, who waits, and who is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from hangscope.errors import MissingEvidenceError
from hangscope.model import CallState, GroupHistory, Report
from hangscope.model.history import PARTED, SOURCE_WORDS
from hangscope.model.states import ink_on
from hangscope.plot.colors import Colors, colors
from hangscope.plot.findings import group_words, headline, main_call
from hangscope.plot.labels import FONT, fitted, width_in
from hangscope.plot.picture import LABEL, MARGIN_IN, SMALL, Entry, Picture, legend_height_in, title_height_in
from hangscope.plot.rows import Row, rows_of
from hangscope.plot.transfer_panel import draw_transfer_panel, find_transfer_panel
from hangscope.ranges import rank_words
from hangscope.records import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY = 30

_WIDTH_IN = 11.0
_ROW_IN = 0.2
_WIDEST_CELL_IN = 0.6
_MOST_PANELS = 4
_FEW_PANELS = 2
_MOST_LABEL_IN = 3.0
_MOST_OP_IN = 1.05
_STATES = tuple(CallState)
_MARKS = {CallState.MISSING: "X", CallState.DIFFERS: "D", CallState.STARTED: ">", CallState.WAITING: "o"}
_MARK_SIZES = {CallState.MISSING: 42, CallState.DIFFERS: 26, CallState.STARTED: 14, CallState.WAITING: 7}
_WORDS = {
    CallState.DONE: "done",
    CallState.STARTED: "runs on the GPU",
    CallState.WAITING: "made, and waits",
    CallState.DIFFERS: "another call",
    CallState.MISSING: "missing",
    CallState.NOT_REACHED: "not reached",
    CallState.UNKNOWN: "no evidence",
}


@dataclass(frozen=True, slots=True)
class _Panel:
    """One group, with the room that it takes."""

    group: GroupHistory
    rows: list[Row]
    heading: str
    op_in: float

    @property
    def height_in(self) -> float:
        return 0.3 + self.op_in + _ROW_IN * len(self.rows) + 0.42


def draw(report: Report, *, dark: bool = False) -> Picture:
    """A panel a group, a row a rank (many that look alike share one), a column a call.

    Raises:
        MissingEvidenceError: neither call lines nor flight recorders tell what was called.
    """
    groups = [group for group in (report.history.groups if report.history is not None else ()) if group.calls]
    moves = find_transfer_panel(report)
    if not groups and moves is None:
        raise MissingEvidenceError(
            "nothing tells which calls the ranks made",
            "Set TORCH_FR_BUFFER_SIZE=2000 and give the flight recorders' dumps, or run with NCCL_DEBUG=INFO and "
            "NCCL_DEBUG_SUBSYS=INIT,COLL.",
        )
    hosts = {state.rank: state.host for state in report.ranks if state.host}
    # beside the transfers a group counts only when ranks part in it
    shown = _chosen(report, groups) if moves is None else [group for group in groups if _is_parted(group)][:_FEW_PANELS]
    panels = [_panel(group, hosts) for group in shown]
    title, subtitle = headline(report)
    present = {state for panel in panels for row in panel.rows for state in row.states}
    present |= {one.state for made in moves.rows.values() for one in made} if moves is not None else set()
    palette = colors(dark=dark)
    legend = [
        Entry(_WORDS[s], palette.calls[s], mark=_MARKS.get(s, "") if panels else "") for s in _STATES if s in present
    ]
    height = title_height_in(title, subtitle, _WIDTH_IN) + sum(panel.height_in for panel in panels)
    legend_in = legend_height_in([entry.words for entry in legend], _WIDTH_IN)
    height += legend_in + 0.35 + (moves.height_in if moves is not None else 0.0)
    picture = Picture((_WIDTH_IN, height), title, subtitle, dark=dark)
    labels = [row.label for panel in panels for row in panel.rows] + (moves.labels if moves is not None else [])
    left = min(max(width_in(fitted(label, SMALL, _MOST_LABEL_IN), SMALL) for label in labels), _MOST_LABEL_IN) + 0.5
    top = picture.top_in
    if moves is not None:
        draw_transfer_panel(picture, moves, left, top)
        top += moves.height_in
    for panel in panels:
        _draw_panel(picture, panel, left, top)
        top += panel.height_in
    picture.add_legend(top, legend)
    picture.write(
        MARGIN_IN,
        top + legend_in + 0.2,
        _note(report, len(panels)),
        size=SMALL,
        color=picture.palette.faint,
        gid="note",
    )
    return picture


def _chosen(report: Report, groups: Sequence[GroupHistory]) -> list[GroupHistory]:
    """The group of the verdict, and those in whose stuck calls ranks are missing; else the first ones."""
    main = main_call(report)
    stuck = [group for group in groups if group.stuck is not None]
    parted = [group for group in stuck if (main is not None and group.group == main.group) or _is_parted(group)]
    found = sorted(parted, key=lambda group: main is None or group.group != main.group)
    return found[:_MOST_PANELS] or (stuck or list(groups))[:_FEW_PANELS]


def _is_parted(group: GroupHistory) -> bool:
    return any(not PARTED.isdisjoint(call.states) for call in group.calls if call.seq == group.stuck)


def _panel(group: GroupHistory, hosts: dict[int, str]) -> _Panel:
    rows = rows_of(group, hosts)
    ops = max(width_in(fitted(call.op, SMALL, _MOST_OP_IN, bold=True), SMALL, bold=True) for call in group.calls)
    size = f"{len(group.ranks):,} rank{'' if len(group.ranks) == 1 else 's'}"
    about = f"{group_words(group.group, group.description)}, {size}"
    return _Panel(group, rows, f"{about}: {_found(group)}", ops + 0.1)


def _found(group: GroupHistory) -> str:
    """What the panel shows, in words."""
    call = next((call for call in group.calls if call.seq == group.stuck), None)
    if call is None:
        return "all ranks made the same calls" if group.stuck is None else "its stuck call is not among those known"
    sides = {
        state: [rank for rank, one in zip(group.ranks, call.states, strict=True) if one is state] for state in _STATES
    }
    waiting = len(sides[CallState.WAITING]) + len(sides[CallState.STARTED])
    words = [f"{waiting:,} {'waits' if waiting == 1 else 'wait'} in {call.op} {call.seq}"]
    for state, verb in ((CallState.MISSING, "missing"), (CallState.DIFFERS, "in another call")):
        if sides[state]:
            are = "is" if len(sides[state]) == 1 else "are"
            words.append(f"{rank_words(sides[state], most=40)} {are} {verb}")
    return "; ".join(words)


def _draw_panel(picture: Picture, panel: _Panel, left: float, top: float) -> None:
    palette, group = picture.palette, panel.group
    room = _WIDTH_IN - left - MARGIN_IN
    cell = min(room / len(group.calls), _WIDEST_CELL_IN)
    width, height = cell * len(group.calls), _ROW_IN * len(panel.rows)
    picture.write(
        MARGIN_IN, top + 0.15, fitted(panel.heading, LABEL, _WIDTH_IN - 2 * MARGIN_IN, bold=True), weight="bold"
    )
    axes = picture.panel(left, top + 0.3 + panel.op_in, width, height)
    codes = np.array([[_STATES.index(state) for state in row.states] for row in panel.rows])
    axes.pcolormesh(
        codes,
        cmap=ListedColormap([palette.calls[state] for state in _STATES]),
        vmin=-0.5,
        vmax=len(_STATES) - 0.5,
        edgecolors=palette.page,
        linewidth=min(cell * 4, 1.2),
        gid=f"calls of {group.group}" if group.group.isalnum() else "calls",
    )
    _draw_marks(axes, panel, palette)
    _label_axes(picture, axes, panel, cell)
    stuck = [at for at, call in enumerate(group.calls) if call.seq == group.stuck]
    for at in stuck:
        frame = Rectangle((at, 0), 1, len(panel.rows), fill=False, edgecolor=palette.ink, linewidth=1.4, gid="frontier")
        axes.add_patch(frame)
        frame.set_clip_on(False)


def _draw_marks(axes: Axes, panel: _Panel, palette: Colors) -> None:
    """Marks in the cells, so that states are told apart without colours."""
    for state, mark in _MARKS.items():
        places = [
            (column + 0.5, line + 0.5)
            for line, row in enumerate(panel.rows)
            for column, one in enumerate(row.states)
            if one is state
        ]
        if places:
            x, y = zip(*places, strict=True)
            color = ink_on(palette.calls[state])
            axes.scatter(x, y, marker=mark, s=_MARK_SIZES[state], color=color, linewidths=0, gid=state.value)


def _label_axes(picture: Picture, axes: Axes, panel: _Panel, cell_in: float) -> None:
    group, palette = panel.group, picture.palette
    axes.set_xlim(0, len(group.calls))
    axes.set_ylim(len(panel.rows), 0)
    axes.set_yticks(
        [line + 0.5 for line in range(len(panel.rows))],
        [fitted(row.label, SMALL, _MOST_LABEL_IN) for row in panel.rows],
    )
    for tick, row in zip(axes.get_yticklabels(), panel.rows, strict=True):
        picture.set_tick(tick, bold=row.is_odd)
    every = max(int(np.ceil(max(width_in(f"{call.seq}", SMALL) for call in group.calls) * 1.3 / cell_in)), 1)
    # counted from the stuck call, which has to have its number
    anchor = next((at for at, call in enumerate(group.calls) if call.seq == group.stuck), len(group.calls) - 1)
    numbered = [at for at in range(len(group.calls)) if (at - anchor) % every == 0]
    axes.set_xticks([at + 0.5 for at in numbered], [str(group.calls[at].seq) for at in numbered])
    for tick, at in zip(axes.get_xticklabels(), numbered, strict=True):
        picture.set_tick(tick, bold=group.calls[at].seq == group.stuck)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if cell_in * 72 >= SMALL:
        for at, call in enumerate(group.calls):
            is_stuck = call.seq == group.stuck
            axes.annotate(
                fitted(call.op, SMALL, _MOST_OP_IN, bold=is_stuck),
                (at + 0.5, 0),
                xytext=(0, 4),
                textcoords="offset points",
                rotation=90,
                ha="center",
                va="bottom",
                annotation_clip=False,
                parse_math=False,
                family=FONT,
                size=SMALL,
                weight="bold" if is_stuck else "normal",
                color=palette.ink if is_stuck else palette.faint,
                gid="op",
            )


def _note(report: Report, panels: int) -> str:
    history = report.history
    if history is None:
        return ""
    known = len(history.groups) + history.left_out
    rest = known - panels
    more = "" if rest < 1 else "1 more group is not shown. " if rest == 1 else f"{rest:,} more groups are not shown. "
    order = "Calls stand in their order, with their numbers below." if panels else "What is framed has not completed."
    return f"{more}{order} By {SOURCE_WORDS.get(history.source, history.source)}."
