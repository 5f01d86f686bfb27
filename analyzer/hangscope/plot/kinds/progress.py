"""How far each rank came in each group, by the number of its last call: who is behind the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from hangscope.errors import MissingEvidenceError
from hangscope.model import GroupCounts, History, Report
from hangscope.model.states import ink_on
from hangscope.plot.findings import group_words, headline
from hangscope.plot.labels import FONT, fitted, width_in
from hangscope.plot.picture import LABEL, MARGIN_IN, SMALL, Picture, title_height_in
from hangscope.ranges import rank_words
from hangscope.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

    Floats = npt.NDArray[np.float64]

HISTORY = 5

_WIDTH_IN = 11.0
_ROW_IN = 0.42
_MOST_LABEL_IN = 3.0
_MOST_ROWS = 24
_WIDEST_CELL_IN = 0.62
_NARROWEST_MARK_IN = 0.035
_SOURCES = {
    "calls": "By NCCL's call lines, numbered from 0.",
    "recorder": "By flight recorders.",
    "ras": "By RAS: how many collectives were launched.",
    "watchdog": "By PyTorch's watchdogs: the last call enqueued.",
}


@dataclass(frozen=True, slots=True)
class _Line:
    """One row: a group, or several of one kind that share no rank.

    Attributes:
        label: what stands beside it.
        last: rank -> number of its last call.
        behind: rank -> how many calls it is behind the furthest of its group.
        unknown: ranks of the groups of whose calls nothing tells.
    """

    label: str
    last: dict[int, int]
    behind: dict[int, int]
    unknown: frozenset[int]


def draw(report: Report, *, dark: bool = False) -> Picture:
    """A row a group (those of one kind share a row), a column a rank; the darker, the further behind.

    Raises:
        MissingEvidenceError: nothing counts calls.
    """
    history = report.history
    counts = [one for one in (history.counts if history is not None else ()) if _known(one)]
    if history is None or not counts:
        raise MissingEvidenceError(
            "nothing tells how many calls the ranks made",
            "Give flight recorders' dumps, RAS reports (ncclras -v), or logs with NCCL_DEBUG_SUBSYS=INIT,COLL.",
        )
    lines = _lines(counts)
    shown = lines[:_MOST_ROWS]
    ranks = sorted(
        {rank for line in shown for rank in (*line.last, *line.unknown)} | {state.rank for state in report.ranks}
    )
    title, subtitle = _title(report, shown)
    left = max(width_in(fitted(line.label, LABEL, _MOST_LABEL_IN), LABEL) for line in shown) + MARGIN_IN + 0.12
    room = _WIDTH_IN - left - MARGIN_IN
    width = min(room, _WIDEST_CELL_IN * len(ranks))
    height_in = _ROW_IN * len(shown)
    top = title_height_in(title, subtitle, _WIDTH_IN) + 0.22
    picture = Picture((_WIDTH_IN, top + height_in + 1.3), title, subtitle, dark=dark)
    axes = picture.panel(left, top, width, height_in)
    _draw_cells(picture, axes, shown, ranks, width)
    _draw_key(picture, shown, top + height_in + 0.62)
    _write_note(picture, history, len(lines) - len(shown), top + height_in + 1.17)
    return picture


def _known(counts: GroupCounts) -> bool:
    return any(number is not None for number in counts.last)


def _lines(counts: Sequence[GroupCounts]) -> list[_Line]:
    """The rows; groups of one kind of which each rank is in one at most are one row."""
    kinds: dict[tuple[str, int | None], list[list[GroupCounts]]] = {}
    for one in counts:
        # NCCL's communicators have no description: those of one size are taken for one kind
        rows = kinds.setdefault((one.description, one.size), [])
        for row in rows:
            if all(set(one.ranks).isdisjoint(other.ranks) for other in row):
                row.append(one)
                break
        else:
            rows.append([one])
    return [_line(row) for rows in kinds.values() for row in rows]


def _line(groups: Sequence[GroupCounts]) -> _Line:
    last: dict[int, int] = {}
    behind: dict[int, int] = {}
    unknown: set[int] = set()
    for group in groups:
        known = {rank: one for rank, one in zip(group.ranks, group.last, strict=True) if one is not None}
        furthest = max(known.values(), default=0)
        last.update(known)
        unknown |= set(group.ranks) - set(known)
        behind.update({rank: furthest - one for rank, one in known.items()})
    first = groups[0]
    if len(groups) == 1:
        return _Line(group_words(first.group, first.description), last, behind, frozenset(unknown))
    what = first.description or f"communicators of {first.size} ranks"
    return _Line(f"{what} ({len(groups)} groups)", last, behind, frozenset(unknown))


def _title(report: Report, lines: Sequence[_Line]) -> tuple[str, str]:
    title, _ = headline(report)
    line = max(lines, key=lambda line: max(line.behind.values(), default=0))
    most = max(line.behind.values(), default=0)
    unknown = sorted({rank for line in lines for rank in line.unknown})
    if most == 0 and unknown:
        return title, f"Of {rank_words(unknown, most=40)} no calls are known; the others are equally far."
    if most == 0:
        return title, "All ranks made as many calls as the others of their groups."
    who = [rank for rank, behind in line.behind.items() if behind == most]
    calls = "1 call" if most == 1 else f"{most:,} calls"
    where = f"behind in {line.label}"
    if len(who) * 2 > len(line.behind):
        # that most are behind says that few are ahead
        who = [rank for rank, behind in line.behind.items() if behind == 0]
        where = f"ahead of the others in {line.label}"
    words = f"{rank_words(who, most=40)} {'is' if len(who) == 1 else 'are'} {calls} {where}."
    return title, words[:1].upper() + words[1:]


def _draw_cells(picture: Picture, axes: Axes, lines: Sequence[_Line], ranks: Sequence[int], width: float) -> None:
    palette = picture.palette
    values = np.array([[line.behind.get(rank, np.nan) for rank in ranks] for line in lines], dtype=np.float64)
    cell = width / len(ranks)
    norm = Normalize(0, _most(lines))
    ramp = LinearSegmentedColormap.from_list("behind", palette.ramp)
    axes.pcolormesh(
        np.ma.masked_invalid(values),
        cmap=ramp,
        norm=norm,
        edgecolors=palette.page if cell > 0.05 else "none",
        linewidth=min(cell * 4, 1.0),
        gid="behind",
    )
    axes.set_xlim(0, len(ranks))
    axes.set_ylim(len(lines), 0)
    for edge in range(1, len(lines)):
        axes.axhline(edge, color=palette.page, linewidth=3)
    axes.set_yticks([at + 0.5 for at in range(len(lines))], [fitted(x.label, LABEL, _MOST_LABEL_IN) for x in lines])
    for tick in axes.get_yticklabels():
        picture.set_tick(tick, faint=False)
        tick.set_fontsize(LABEL)
    for spine in axes.spines.values():
        spine.set_visible(False)
    _label_ranks(picture, axes, ranks, cell)
    _mark_behind(picture, axes, lines, ranks, cell)
    for at, line in enumerate(lines):
        gone = [
            Rectangle((col + 0.06, at + 0.06), 0.88, 0.88) for col, rank in enumerate(ranks) if rank in line.unknown
        ]
        frames = PatchCollection(gone, facecolors="none", edgecolors=palette.accent, linewidths=1.0, linestyles=":")
        frames.set_gid("unknown")
        axes.add_collection(frames)
    widest = max((width_in(f"{number}", SMALL) for line in lines for number in line.last.values()), default=0.0)
    if widest + 0.06 < cell:
        _write_numbers(picture, axes, lines, ranks)


def _write_numbers(picture: Picture, axes: Axes, lines: Sequence[_Line], ranks: Sequence[int]) -> None:
    """The number of each rank's last call, in its cell."""
    most, ramp = _most(lines), LinearSegmentedColormap.from_list("behind", picture.palette.ramp)
    for at, line in enumerate(lines):
        for column, rank in enumerate(ranks):
            behind = line.behind.get(rank)
            if behind is not None:
                color, words, gid = ink_on(to_hex(ramp(behind / most))), str(line.last[rank]), "last"
            elif rank in line.unknown:
                color, words, gid = picture.palette.accent, "?", "unknown"
            else:
                continue
            axes.text(
                column + 0.5, at + 0.5, words, ha="center", va="center", family=FONT, size=SMALL, color=color,
                weight="bold" if behind != 0 else "normal", gid=gid,
            )  # fmt: skip


def _most(lines: Sequence[_Line]) -> int:
    """How many calls the last of all is behind, at least 1."""
    return max(max((number for line in lines for number in line.behind.values()), default=0), 1)


def _label_ranks(picture: Picture, axes: Axes, ranks: Sequence[int], cell: float) -> None:
    step = max(int(np.ceil((width_in(str(ranks[-1]), SMALL) + 0.12) / cell)), 1)
    nice = next(one for one in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536) if one >= step)
    places = [at for at, rank in enumerate(ranks) if rank % nice == 0] or [0]
    axes.set_xticks([at + 0.5 for at in places], [str(ranks[at]) for at in places])
    for tick in axes.get_xticklabels():
        picture.set_tick(tick)
    axes.set_xlabel("rank", family=FONT, size=SMALL, color=picture.palette.faint, labelpad=2, loc="left")


def _mark_behind(picture: Picture, axes: Axes, lines: Sequence[_Line], ranks: Sequence[int], cell: float) -> None:
    """Those furthest behind have a mark above their column, which also a narrow column shows."""
    most = _most(lines)
    furthest = {
        rank
        for line in lines
        for rank, behind in line.behind.items()
        if behind and behind == max(line.behind.values()) and behind * 2 > most
    }
    places = [at + 0.5 for at, rank in enumerate(ranks) if rank in furthest]
    if not places or len(places) > max(len(ranks) // 4, 1):
        return
    axes.scatter(
        places,
        [-0.12] * len(places),
        marker="v",
        s=34,
        color=picture.palette.accent,
        clip_on=False,
        gid="furthest behind",
    )
    if cell < _NARROWEST_MARK_IN:
        for at, line in enumerate(lines):
            hit = [place for place in places if ranks[int(place)] in furthest and line.behind.get(ranks[int(place)])]
            axes.vlines(hit, at + 0.03, at + 0.97, color=picture.palette.accent, linewidth=1.6)
    if len(places) <= 6:
        for place in places:
            axes.annotate(
                f"rank {ranks[int(place)]}", (place, -0.12), xytext=(6, -2), textcoords="offset points", family=FONT,
                size=SMALL, weight="bold", color=picture.palette.ink, annotation_clip=False, gid="furthest behind",
            )  # fmt: skip


def _draw_key(picture: Picture, lines: Sequence[_Line], top: float) -> None:
    """What the colours mean."""
    most = _most(lines)
    picture.write(MARGIN_IN, top + 0.13, "calls behind:", size=SMALL, color=picture.palette.faint)
    axes = picture.panel(MARGIN_IN + 0.9, top + 0.02, 2.2, 0.13)
    ramp = LinearSegmentedColormap.from_list("behind", picture.palette.ramp)
    edges = np.linspace(0, most, 65)
    axes.pcolormesh(edges, [0, 1], edges[None, 1:], cmap=ramp, norm=Normalize(0, most))
    axes.set_yticks([])
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    for spine in axes.spines.values():
        spine.set_visible(False)
    for tick in axes.get_xticklabels():
        picture.set_tick(tick)


def _write_note(picture: Picture, history: History, left_out: int, y: float) -> None:
    more = f" {left_out} more rows are not shown." if left_out else ""
    words = f"Numbers are those of each rank's last call. {_SOURCES.get(history.source, '')}{more}"
    picture.write(MARGIN_IN, y, words, size=SMALL, color=picture.palette.faint, gid="note")
