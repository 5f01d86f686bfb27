"""Pictures of a report: every module in `kinds` is one, found by being there.

A kind has one function, ``draw(report, *, dark)``, that returns a figure, and its docstring's first line is the help
text. ``HISTORY`` says how many calls of each group the report has to hold for it. Nothing here shows a figure or
touches pyplot's global state.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from hangscope.errors import UnknownNameError

if TYPE_CHECKING:
    from hangscope.model import Report
    from hangscope.plot.picture import Picture

_PACKAGE = "hangscope.plot.kinds"


class Kind(Protocol):
    """A module of the folder `kinds`."""

    HISTORY: int

    def draw(self, report: Report, *, dark: bool = False) -> Picture:
        """Draws the report.

        Raises:
            MissingEvidenceError: the report holds nothing that it could show.
        """


def plot_names() -> tuple[str, ...]:
    """Names of the pictures, without importing any."""
    found = pkgutil.iter_modules([str(Path(__file__).with_name("kinds"))])
    return tuple(sorted(module.name for module in found if not module.name.startswith("_")))


def load_plot(name: str) -> Kind:
    """Imports one kind of picture.

    Raises:
        UnknownNameError: there is no such kind.
    """
    if name not in plot_names():
        raise UnknownNameError(f"there is no picture {name!r}", "Pictures: " + ", ".join(plot_names()) + ".")
    return cast("Kind", importlib.import_module(f"{_PACKAGE}.{name}"))


def draw(name: str, report: Report, *, dark: bool = False) -> Picture:
    """Draws one kind of picture.

    Args:
        name: one of `plot_names`.
        report: with the `history` that the kind asks for, where calls are to be seen.
        dark: for a dark page.

    Raises:
        UnknownNameError: there is no such kind.
        MissingEvidenceError: the report holds nothing that it could show.
    """
    return load_plot(name).draw(report, dark=dark)
