"""Where every rank is: a row of cells a host, a cell a GPU, coloured by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from hangscope.errors import MissingEvidenceError
from hangscope.model import Report
from hangscope.model.grid import GridCell, GridRow, lay_out
from hangscope.model.states import in_severity_order, ink_on, state_style
from hangscope.plot.colors import colors
from hangscope.plot.findings import headline
from hangscope.plot.labels import FONT, clean, fitted, width_in
from hangscope.plot.picture import MARGIN_IN, SMALL, Entry, Picture, legend_height_in, title_height_in
from hangscope.ranges import rank_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY = 0

_WIDTH_IN = 11.0
_GAP_IN = 0.35
_MOST_HOST_IN = 1.9
_TALLEST = 40
"""Rows of a block; more hosts stand in blocks beside each other."""
_MOST_ROWS = 1024
_CELLS_IN = (0.46, 0.34, 0.24, 0.17, 0.12)
"""Sizes of a cell; the largest with which all blocks fit is taken."""
_MOST_NAMED = 6


def draw(report: Report, *, dark: bool = False) -> Picture:
    """A cell a rank, in the place of its GPU; those that the verdict names have a thick frame.

    Raises:
        MissingEvidenceError: the report knows of no rank.
    """
    if not report.ranks:
        raise MissingEvidenceError(
            "no rank is known", "Give logs that name ranks: one file a rank, or a launcher's prefixes."
        )
    grid = lay_out(report.ranks, report.verdict.ranks)
    rows = grid.rows[:_MOST_ROWS]
    title, subtitle = _title(report)
    names = [fitted(_name(row), SMALL, _MOST_HOST_IN, bold=True) for row in rows]
    host_in = max(width_in(name, SMALL, bold=True) for name in names) + 0.12
    blocks, cell = _blocks(rows, grid.columns, host_in)
    states = in_severity_order(state.state for state in report.ranks)
    counts = Counter(state.state for state in report.ranks)
    palette = colors(dark=dark)
    legend = [
        Entry(f"{_glyph(word)}{word} ({counts[word]:,}): {state_style(word).meaning}", palette.state(word))
        for word in states
    ]
    if report.verdict.ranks:
        legend.append(Entry("named by the verdict", palette.page, palette.ink))
    top = title_height_in(title, subtitle, _WIDTH_IN) + 0.2
    height_in = cell * max(len(block) for block in blocks)
    legend_in = legend_height_in([entry.words for entry in legend], _WIDTH_IN)
    height = top + height_in + legend_in + 0.55
    picture = Picture((_WIDTH_IN, height), title, subtitle, dark=dark)
    for number, block in enumerate(blocks):
        left = MARGIN_IN + number * (host_in + cell * grid.columns + _GAP_IN) + host_in
        axes = picture.panel(left, top, cell * grid.columns, cell * len(block))
        _draw_block(picture, axes, block, grid.columns, cell)
    if grid.by_gpu:
        picture.write(MARGIN_IN, top - 0.06, "GPU", size=SMALL, color=palette.faint, gid="columns")
    picture.add_legend(top + height_in + 0.2, legend)
    left_out = len(grid.rows) - len(rows)
    if left_out:
        picture.write(MARGIN_IN, height - 0.12, f"{left_out:,} more rows are not shown.", size=SMALL, gid="note")
    return picture


def _title(report: Report) -> tuple[str, str]:
    title, subtitle = headline(report)
    if report.verdict.ranks:
        found = {state.rank: state for state in report.ranks}
        words = Counter(found[rank].state for rank in report.verdict.ranks if rank in found)
        hosts = sorted({host for rank in report.verdict.ranks if rank in found and (host := found[rank].host)})
        if len(words) == 1 and len(hosts) <= 3:
            verb = "is" if len(report.verdict.ranks) == 1 else "are"
            where = f" on {', '.join(hosts)}" if hosts else ""
            told = f"{rank_words(report.verdict.ranks, most=40)}{where} {verb} {next(iter(words))}"
            subtitle = f"{told[:1].upper()}{told[1:]}." + (f" {subtitle}." if subtitle == report.verdict.title else "")
    return title, subtitle


def _blocks(rows: Sequence[GridRow], columns: int, host_in: float) -> tuple[list[Sequence[GridRow]], float]:
    """The rows in blocks that fit beside each other, and the size of a cell."""
    room = _WIDTH_IN - 2 * MARGIN_IN
    for cell in _CELLS_IN:
        beside = int((room + _GAP_IN) / (host_in + columns * cell + _GAP_IN))
        tall = max(-(-len(rows) // max(beside, 1)), 1)
        if beside >= 1 and (tall <= _TALLEST or cell == _CELLS_IN[-1]):
            # one block as long as it is not too long
            tall = max(tall, min(len(rows), 16))
            return [rows[start : start + tall] for start in range(0, len(rows), tall)], cell
    return [rows], max((room - host_in) / columns, 0.02)


def _draw_block(picture: Picture, axes: Axes, rows: Sequence[GridRow], columns: int, cell_in: float) -> None:
    palette = picture.palette
    plain, framed, fills = [], [], []
    show_rank = width_in("0000", SMALL - 1) < cell_in * 0.92
    show_glyph = cell_in > 0.11
    for line, row in enumerate(rows):
        for column, cell in enumerate(row.cells):
            if cell is None:
                continue
            fill = palette.state(cell.state.state)
            plain.append(Rectangle((column + 0.05, line + 0.05), 0.9, 0.9))
            fills.append(fill)
            if cell.at_fault:
                framed.append(Rectangle((column + 0.03, line + 0.03), 0.94, 0.94))
            if show_rank or (show_glyph and (cell.at_fault or state_style(cell.state.state).glyph not in ".?")):
                _write_in(axes, column, line, cell, fill, show_rank=show_rank)
    axes.add_collection(PatchCollection(plain, facecolors=fills, edgecolors=palette.line, linewidths=0.4, gid="ranks"))
    axes.add_collection(
        PatchCollection(
            framed, facecolors="none", edgecolors=palette.ink, linewidths=2.0, clip_on=False, gid="at fault"
        )
    )
    if not show_rank and len(framed) <= _MOST_NAMED:
        _name_framed(picture, axes, rows)
    axes.set_xlim(0, columns)
    axes.set_ylim(len(rows), 0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks([])
    names = [fitted(_name(row), SMALL, _MOST_HOST_IN) for row in rows]
    # a host with several rows is named once
    names = ["" if at and name == names[at - 1] else name for at, name in enumerate(names)]
    axes.set_yticks([line + 0.5 for line in range(len(rows))], names)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        picture.set_tick(tick, bold=bool(row.at_fault))
        tick.set_fontsize(min(SMALL, cell_in * 72 * 0.8))
    if columns > 1 and show_glyph:
        for column in range(0, columns, 1 if cell_in >= 0.17 else 2):
            axes.text(
                column + 0.5, -0.12, str(column), ha="center", va="bottom", family=FONT, size=SMALL - 1,
                color=palette.faint, gid="column",
            )  # fmt: skip


def _name_framed(picture: Picture, axes: Axes, rows: Sequence[GridRow]) -> None:
    """The numbers of the ranks that the verdict names, where the cells have no room for any."""
    for line, row in enumerate(rows):
        for column, cell in enumerate(row.cells):
            if cell is not None and cell.at_fault:
                axes.annotate(
                    f"rank {cell.state.rank}", (column + 1, line + 0.5), xytext=(4, 0), textcoords="offset points",
                    va="center", family=FONT, size=SMALL, weight="bold", color=picture.palette.ink,
                    annotation_clip=False, gid="named",
                    bbox={"facecolor": picture.palette.page, "edgecolor": "none", "pad": 1.2},
                )  # fmt: skip


def _write_in(axes: Axes, column: int, line: int, cell: GridCell, fill: str, *, show_rank: bool) -> None:
    glyph = clean(state_style(cell.state.state).glyph)
    axes.text(
        column + 0.5, line + 0.5, f"{cell.state.rank}{'' if glyph == '.' else glyph}" if show_rank else glyph,
        ha="center", va="center", family=FONT, size=SMALL - 1, color=ink_on(fill), parse_math=False,
        weight="bold" if cell.at_fault else "normal", gid="rank",
    )  # fmt: skip


def _glyph(word: str) -> str:
    """What stands in the cells of a state, where anything does."""
    glyph = state_style(word).glyph
    return "" if glyph == "." else f"{glyph}  "


def _name(row: GridRow) -> str:
    """The host; where nobody knows it, the ranks."""
    return row.host or rank_words(row.ranks, most=16)
