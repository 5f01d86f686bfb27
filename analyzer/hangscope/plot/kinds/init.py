"""How far the ranks came in the init of a communicator that not all have completed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hangscope.errors import MissingEvidenceError
from hangscope.facts.init_stages import NAMES, WAITING_FOR, Stage
from hangscope.model import ComparedValue, Comparison, Report
from hangscope.plot.labels import FONT, fitted, width_in
from hangscope.plot.picture import LABEL, MARGIN_IN, SMALL, Picture, title_height_in
from hangscope.plot.rows import rank_label, ranks_label
from hangscope.ranges import rank_words
from hangscope.records import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTORY = 0

_WIDTH_IN = 11.0
_ROW_IN = 0.34
_MOST_LABEL_IN = 2.6
_MOST_PANELS = 3
_MOST_SINGLE = 12
_MOST_ROWS = 40
_STAGES = list(Stage)


@dataclass(frozen=True, slots=True)
class _Bar:
    """Who came how far; stage -1 is before any line of NCCL."""

    label: str
    ranks: tuple[int, ...]
    stage: int
    is_cut: bool


def draw(report: Report, *, dark: bool = False) -> Picture:
    """A row a rank (or all those that stand at one milestone), a column a milestone.

    Raises:
        MissingEvidenceError: no init is unfinished, or NCCL printed nothing of it.
    """
    inits = [one for one in report.comparisons if one.topic == "init"][:_MOST_PANELS]
    if not inits:
        raise MissingEvidenceError(
            "no init of a communicator is known to be unfinished",
            "If the job hangs in its init, run it with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET.",
        )
    hosts = {state.rank: state.host for state in report.ranks if state.host}
    panels = [(init, _bars(init, hosts)) for init in inits]
    title, subtitle = _title(report, panels[0][1], panels[0][0])
    labels = [bar.label for _, bars in panels for bar in bars]
    left = (
        max(width_in(fitted(label, SMALL, _MOST_LABEL_IN, bold=True), SMALL, bold=True) for label in labels)
        + MARGIN_IN
        + 0.15
    )
    top = title_height_in(title, subtitle, _WIDTH_IN)
    height = top + sum(_ROW_IN * len(bars) + 0.85 for _, bars in panels) + 0.3
    picture = Picture((_WIDTH_IN, height), title, subtitle, dark=dark)
    for init, bars in panels:
        picture.write(MARGIN_IN, top + 0.15, fitted(init.aspect, LABEL, 9.0, bold=True), weight="bold", gid="aspect")
        axes = picture.panel(left, top + 0.62, _WIDTH_IN - left - MARGIN_IN, _ROW_IN * len(bars))
        _draw_bars(picture, axes, bars, frozenset(report.verdict.ranks))
        top += _ROW_IN * len(bars) + 0.85
    note = "Each bar ends at the last milestone that the rank's lines show."
    if any(bar.is_cut for _, bars in panels for bar in bars):
        note += " Hollow ends: the end of the log is lost, the rank may have come further."
    picture.write(MARGIN_IN, height - 0.14, note, size=SMALL, color=picture.palette.faint, gid="note")
    return picture


def _bars(init: Comparison, hosts: Mapping[int, str]) -> list[_Bar]:
    """The rows, those that came least far first."""
    numbers = {name: stage for stage, name in NAMES.items()}
    found = []
    for value in init.values:
        name = value.text.partition(" or further")[0]
        found.append((int(numbers.get(name, Stage.LOADED)) if name in numbers else -1, name != value.text, value))
    found.sort(key=lambda one: (one[0], one[2].ranks, one[2].text))
    single = sum(max(len(value.ranks), 1) for _, _, value in found) <= _MOST_SINGLE
    bars = []
    for stage, cut, value in found:
        if single and value.ranks:
            bars += [_Bar(rank_label(rank, hosts), (rank,), stage, cut) for rank in value.ranks]
        else:
            bars.append(_Bar(_whose(value), value.ranks, stage, cut))
    return bars[:_MOST_ROWS]


def _whose(value: ComparedValue) -> str:
    if value.ranks:
        return ranks_label(value.ranks)
    return ", ".join(value.hosts or value.names) or f"{value.count} processes"


def _title(report: Report, bars: list[_Bar], init: Comparison) -> tuple[str, str]:
    least, furthest = bars[0].stage, bars[-1].stage
    behind = sorted(rank for bar in bars if bar.stage == least for rank in bar.ranks)
    others = sorted(rank for bar in bars if bar.stage > least for rank in bar.ranks)
    title, name = report.verdict.title, init.aspect
    if least == furthest and least >= 0:
        stands = f"All ranks of which NCCL printed anything stand at {NAMES[Stage(least)]!r} of the {name}"
        return title, f"{stands}: they wait for {WAITING_FOR[Stage(least)]}."
    if not behind or not others:
        return title, f"How far each came in the {name}."
    came = f"came to {NAMES[Stage(least)]!r}" if least >= 0 else "printed nothing of NCCL"
    words = f"{rank_words(behind, most=40)} {came} in the {name}; {rank_words(others, most=40)} came further."
    return title, words[:1].upper() + words[1:]


def _draw_bars(picture: Picture, axes: Axes, bars: list[_Bar], blamed: frozenset[int]) -> None:
    palette = picture.palette
    least, furthest = min(bar.stage for bar in bars), max(bar.stage for bar in bars)
    axes.set_xlim(-0.05, len(_STAGES))
    axes.set_ylim(len(bars), 0)
    for line, bar in enumerate(bars):
        is_behind = bar.stage == least < furthest
        color = palette.accent if is_behind else palette.ramp[2]
        if bar.stage >= 0:
            axes.barh(
                line + 0.5, bar.stage + 0.5, height=0.5, color=color, alpha=0.55 if bar.is_cut else 1.0, gid="bar"
            )
        else:
            axes.text(
                0.12,
                line + 0.5,
                "no line of NCCL",
                va="center",
                family=FONT,
                size=SMALL,
                color=palette.faint,
                gid="none",
            )
        axes.scatter(
            [max(bar.stage + 0.5, 0.0)], [line + 0.5], s=34, marker="X" if is_behind else "o", linewidth=0.8,
            facecolor=palette.page if bar.is_cut or not is_behind else palette.ink, edgecolor=palette.ink,
            zorder=4, clip_on=False, gid="end",
        )  # fmt: skip
    for at, stage in enumerate(_STAGES):
        axes.axvline(at + 0.5, color=palette.line, linewidth=0.6, zorder=0)
        words = _two_lines(NAMES[stage])
        axes.annotate(
            words, (at + 0.5, 0), xytext=(0, 4), textcoords="offset points", ha="center", va="bottom",
            annotation_clip=False, family=FONT, size=SMALL - 0.5, color=palette.faint, gid="milestone",
        )  # fmt: skip
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xticks([])
    axes.set_yticks(
        [line + 0.5 for line in range(len(bars))], [fitted(bar.label, SMALL, _MOST_LABEL_IN, bold=True) for bar in bars]
    )
    for tick, bar in zip(axes.get_yticklabels(), bars, strict=True):
        picture.set_tick(tick, bold=bar.stage == least < furthest or not blamed.isdisjoint(bar.ranks))


def _two_lines(name: str) -> str:
    """A name broken near its middle."""
    words = name.split()
    best = min(
        range(1, len(words)), key=lambda at: abs(len(" ".join(words[:at])) - len(" ".join(words[at:]))), default=0
    )
    return f"{' '.join(words[:best])}\n{' '.join(words[best:])}" if best else name
