"""Looks at figures as a reader would: which words stand where, and whether any stand on each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.text import Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOUCH_PX = 1.5
"""Boxes of texts have some room around their letters."""


def texts(figure: Figure, gid: str = "") -> list[str]:
    """The texts of a figure, from the top; with `gid` only those of that kind."""
    found = [text for text in _texts(figure) if not gid or text.get_gid() == gid]
    found.sort(key=lambda text: -text.get_window_extent().y1)
    return [text.get_text() for text in found]


def title(figure: Figure) -> str:
    return " ".join(texts(figure, "title"))


def subtitle(figure: Figure) -> str:
    return " ".join(texts(figure, "subtitle"))


def row_labels(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts of which one stands on the other."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    found = []
    for (one, box), (other, there) in itertools.combinations(boxes, 2):
        wide = min(box.x1, there.x1) - max(box.x0, there.x0)
        tall = min(box.y1, there.y1) - max(box.y0, there.y0)
        if wide > _TOUCH_PX and tall > _TOUCH_PX:
            found.append((one, other))
    return found


def outside(figure: Figure) -> list[str]:
    """Texts that leave the page."""
    page = figure.bbox
    return [
        text.get_text()
        for text in _texts(figure)
        if (box := text.get_window_extent()).x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
    ]


def _texts(figure: Figure) -> Iterator[Text]:
    figure.draw_without_rendering()
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible() and _is_drawn(text):
            yield text


def _is_drawn(text: Text) -> bool:
    """Ticks beyond the limits of their axis are there and are not drawn."""
    axes = text.axes
    if not isinstance(axes, Axes):
        return True
    if not axes.axison:
        return text in axes.texts
    for labels, limits, place in (
        (axes.get_xticklabels(), axes.get_xlim(), text.get_position()[0]),
        (axes.get_yticklabels(), axes.get_ylim(), text.get_position()[1]),
    ):
        if text in labels:
            return min(limits) <= place <= max(limits)
    return True
