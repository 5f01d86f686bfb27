"""Who waits for whom: the stuck calls as boxes, arrows to what they wait for, and where it begins."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from hangscope.errors import MissingEvidenceError
from hangscope.model import Report
from hangscope.plot.findings import headline
from hangscope.plot.labels import FONT, fitted
from hangscope.plot.picture import LABEL, MARGIN_IN, SMALL, Picture, title_height_in
from hangscope.plot.wait_graph import Node, WaitGraph, find_wait_graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY = 0

_WIDTH_IN = 11.0
_BOX_IN = 0.82
_GAP_IN = 0.34
_WIDEST_IN = 3.0
_BETWEEN_IN = 0.55
Spot = tuple[float, float]


def draw(report: Report, *, dark: bool = False) -> Picture:
    """A box a stuck call (those that wait alike are one), the ranks that they wait for at the right.

    Raises:
        MissingEvidenceError: no call is known to be stuck.
    """
    if not report.collectives:
        raise MissingEvidenceError(
            "no stuck call is known, so nobody is known to wait",
            "Give flight recorders' dumps, or logs with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL, of all ranks.",
        )
    graph = find_wait_graph(report)
    title, subtitle = headline(report)
    columns = sorted({node.column for node in graph.nodes})
    tallest = max(sum(node.column == column for node in graph.nodes) for column in columns)
    top = title_height_in(title, subtitle, _WIDTH_IN) + 0.15
    height = top + tallest * (_BOX_IN + _GAP_IN) + 0.35
    picture = Picture((_WIDTH_IN, height), title, subtitle, dark=dark)
    # one inch is one unit, from the upper left corner
    axes = picture.panel(0, 0, _WIDTH_IN, height)
    axes.set_xlim(0, _WIDTH_IN)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    spots, width = _places(graph, columns, tallest, top)
    for number, node in enumerate(graph.nodes):
        _draw_box(picture, axes, node, spots[number], width, begins=node.is_root or (graph.ring and node.column == 0))
    for one, other in sorted(graph.edges):
        _draw_arrow(picture, axes, spots[one], spots[other], width, to_root=graph.nodes[other].is_root)
    words = "An arrow points to what is waited for."
    if graph.ring:
        words += " Those in thick frames wait for each other."
    if graph.left_out:
        words += f" {graph.left_out:,} more kinds of calls are not shown."
    picture.write(MARGIN_IN, height - 0.14, words, size=SMALL, color=picture.palette.faint, gid="note")
    return picture


def _places(graph: WaitGraph, columns: list[int], tallest: int, top: float) -> tuple[list[Spot], float]:
    """The centre of each box, and how wide boxes are; what begins stands at the right."""
    room = _WIDTH_IN - 2 * MARGIN_IN
    width = min((room - _BETWEEN_IN * (len(columns) - 1)) / len(columns), _WIDEST_IN)
    used = width * len(columns) + _BETWEEN_IN * (len(columns) - 1)
    rows: dict[int, int] = defaultdict(int)
    counts: dict[int, int] = defaultdict(int)
    for node in graph.nodes:
        counts[node.column] += 1
    spots = []
    for node in graph.nodes:
        x = MARGIN_IN + used - width / 2 - columns.index(node.column) * (width + _BETWEEN_IN)
        free = (tallest - counts[node.column]) * (_BOX_IN + _GAP_IN) / 2
        spots.append((x, top + free + _BOX_IN / 2 + rows[node.column] * (_BOX_IN + _GAP_IN)))
        rows[node.column] += 1
    return spots, width


def _draw_box(picture: Picture, axes: Axes, node: Node, spot: Spot, width: float, *, begins: bool) -> None:
    palette = picture.palette
    x, y = spot
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - _BOX_IN / 2),
            width,
            _BOX_IN,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=palette.page,
            edgecolor=palette.accent if begins else palette.wait,
            linewidth=2.4 if begins else 1.4,
            linestyle="solid" if begins else (0, (4, 1.5)),
            zorder=2,
            gid="begins" if begins else "waits",
        )
    )
    start = y - 0.1 * (len(node.lines) - 1)
    for at, line in enumerate(node.lines):
        size = LABEL if at == 0 else SMALL
        axes.text(
            x, start + at * 0.2, fitted(line, size, width - 0.2, bold=at == 0), ha="center", va="center", family=FONT,
            size=size, weight="bold" if at == 0 else "normal", color=palette.ink if at == 0 else palette.faint,
            parse_math=False, zorder=3, gid="box",
        )  # fmt: skip


def _draw_arrow(picture: Picture, axes: Axes, one: Spot, other: Spot, width: float, *, to_root: bool) -> None:
    palette = picture.palette
    bend = 0.0
    if one[0] < other[0]:
        begin, end = (one[0] + width / 2, one[1]), (other[0] - width / 2, other[1])
    elif one[0] > other[0]:
        begin, end = (one[0] - width / 2, one[1]), (other[0] + width / 2, other[1])
    else:
        # in one column arrows pass each other
        side = 1 if one[1] < other[1] else -1
        shift = width * 0.16 * side
        begin, end = (one[0] + shift, one[1] + side * _BOX_IN / 2), (other[0] + shift, other[1] - side * _BOX_IN / 2)
        bend = 0.0 if abs(one[1] - other[1]) < _BOX_IN + 2 * _GAP_IN else 0.5 * side
    axes.add_patch(
        FancyArrowPatch(
            begin,
            end,
            arrowstyle="-|>",
            mutation_scale=11,
            connectionstyle=f"arc3,rad={bend}",
            color=palette.accent if to_root else palette.faint,
            linewidth=1.3,
            shrinkA=2,
            shrinkB=2,
            zorder=1,
            gid="waits for",
        )
    )
