"""A figure with a title that says the finding, laid out in inches; the same report gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hangscope.errors import UsageError
from hangscope.model.states import ink_on
from hangscope.plot.colors import Colors, colors
from hangscope.plot.labels import FONT, clean, wrapped
from hangscope.plot.labels import width_in as text_width_in
from hangscope.records import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

TITLE, SUBTITLE, LABEL, SMALL = 13.0, 9.5, 9.0, 7.5
"""Sizes of text, in points."""
MARGIN_IN = 0.3
_LINE = 1.35
_POINTS = 72
_DPI = 150
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": "hangscope"},
    ".pdf": {"CreationDate": None, "ModDate": None, "Creator": "hangscope", "Producer": None},
}
"""What would be different every day, and what it is called in each kind of file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a legend.

    Attributes:
        words: what it means.
        fill, edge: colours; the edge is a thin line where it is not given.
        mark: what stands in it, as matplotlib names markers.
    """

    words: str
    fill: str
    edge: str = ""
    mark: str = ""


class Picture(Figure):
    """A figure that a notebook shows without pyplot.

    Attributes:
        palette: its colours.
        top_in: inches from the top at which the title ends.
    """

    def __init__(self, size_in: tuple[float, float], title: str, subtitle: str = "", *, dark: bool = False) -> None:
        super().__init__(figsize=size_in, dpi=_DPI)
        FigureCanvasAgg(self)
        self.palette: Colors = colors(dark=dark)
        self.set_facecolor(self.palette.page)
        lines = title_lines(title, subtitle, size_in[0])
        self.top_in = MARGIN_IN * 0.8
        for text, size, bold in lines:
            self.top_in += size * _LINE / _POINTS
            self.write(
                MARGIN_IN,
                self.top_in - size * 0.3 / _POINTS,
                text,
                size=size,
                color=self.palette.ink if bold else self.palette.faint,
                weight="bold" if bold else "normal",
                gid="title" if bold else "subtitle",
            )
        self.top_in += 0.12

    def write(self, x_in: float, y_in: float, text: str, **how: Any) -> None:  # noqa: ANN401 (as matplotlib takes it)
        """Writes a text at a place in inches from the upper left corner, on its base line."""
        width, height = self.get_size_inches()
        style: dict[str, Any] = {"family": FONT, "size": LABEL, "color": self.palette.ink, "va": "baseline", **how}
        self.text(x_in / width, 1 - y_in / height, clean(text), parse_math=False, **style)

    def panel(self, left_in: float, top_in: float, width_in: float, height_in: float) -> Axes:
        """Axes at a place in inches from the upper left corner, with thin lines and small labels."""
        width, height = self.get_size_inches()
        axes = self.add_axes((left_in / width, 1 - (top_in + height_in) / height, width_in / width, height_in / height))
        axes.set_facecolor(self.palette.page)
        axes.tick_params(colors=self.palette.faint, labelcolor=self.palette.ink, labelsize=SMALL, length=0, pad=5)
        for side, spine in axes.spines.items():
            spine.set_color(self.palette.line)
            spine.set_visible(side in ("left", "bottom"))
        return axes

    def set_tick(self, tick: Text, *, bold: bool = False, faint: bool = True) -> None:
        """The font of the label of a tick; texts of logs are no formulas."""
        tick.set_parse_math(False)
        tick.set_fontfamily(FONT)
        tick.set_fontweight("bold" if bold else "normal")
        tick.set_color(self.palette.faint if faint and not bold else self.palette.ink)

    def add_legend(self, y_in: float, entries: Sequence[Entry]) -> None:
        """A row of what colours and marks mean, below a place in inches from the top."""
        width, height = self.get_size_inches()
        handles: list[tuple[Patch, Line2D]] = []
        for entry in entries:
            patch = Patch(facecolor=entry.fill, edgecolor=entry.edge or self.palette.line, linewidth=0.7)
            ink = ink_on(entry.fill)
            handles.append((patch, Line2D([], [], linestyle="", marker=entry.mark or "None", color=ink, markersize=5)))
        legend = self.legend(
            handles=handles,
            labels=[clean(entry.words) for entry in entries],
            handler_map={tuple: HandlerTuple(ndivide=1)},
            loc="upper left",
            bbox_to_anchor=(MARGIN_IN / width, 1 - y_in / height),
            bbox_transform=self.transFigure,
            ncols=_columns([entry.words for entry in entries], width - 2 * MARGIN_IN),
            frameon=False,
            borderaxespad=0.0,
            borderpad=0.0,
            handlelength=1.6,
            handleheight=1.2,
            handletextpad=0.5,
            columnspacing=1.6,
            prop={"family": FONT, "size": SMALL},
            labelcolor=self.palette.ink,
        )
        legend.set_gid("legend")
        for text in legend.get_texts():
            text.set_parse_math(False)

    def save(self, path: str | Path) -> Path:
        """Writes the picture; the ending of the name tells the form: .png, .svg or .pdf.

        Raises:
            UsageError: the ending tells no form.
        """
        target = Path(path)
        check_ending(target)
        # the ids in SVG are made of this and of what they name
        with mpl.rc_context({"svg.hashsalt": "hangscope", "svg.fonttype": "path"}):
            self.savefig(target, metadata=_METADATA[target.suffix.lower()], facecolor=self.palette.page)
        return target

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=100, metadata=_METADATA[".png"], facecolor=self.palette.page)
        return stream.getvalue()


def legend_height_in(words: Sequence[str], width_in: float) -> float:
    """How much room a legend takes."""
    return 0.2 * -(-len(words) // _columns(words, width_in - 2 * MARGIN_IN))


def _columns(words: Sequence[str], room_in: float) -> int:
    """How many entries of a legend stand beside each other."""
    widest = max((text_width_in(clean(text), SMALL) for text in words), default=0.0) + 0.5
    return max(min(len(words), int(room_in / widest)), 1)


def title_lines(title: str, subtitle: str, width_in: float) -> list[tuple[str, float, bool]]:
    """Text, size and boldness of the lines above a picture."""
    room = width_in - 2 * MARGIN_IN
    lines = [(line, TITLE, True) for line in wrapped(title, TITLE, room, bold=True)]
    return lines + [(line, SUBTITLE, False) for line in wrapped(subtitle, SUBTITLE, room)]


def title_height_in(title: str, subtitle: str, width_in: float) -> float:
    """How much room the title takes, for those who have to know before they make the picture."""
    return MARGIN_IN * 0.8 + sum(size for _, size, _ in title_lines(title, subtitle, width_in)) * _LINE / _POINTS + 0.12


def check_ending(path: Path) -> None:
    """Says before any work whether the name of a file tells its form.

    Raises:
        UsageError: it does not.
    """
    if path.suffix.lower() not in _METADATA:
        raise UsageError(f"{path.name!r} does not end like a picture", f"Use one of {', '.join(_METADATA)}.")
