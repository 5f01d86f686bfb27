"""The output formats: every module in this folder is one, found by being there.

A format has one function, ``render(report, stream, options)``, and its docstring's first line is the help text.
``FILE`` is the name of its file in a folder of reports. A format that shows what led up to the fault says in
``HISTORY`` how many calls of each group it shows; the report then has them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Protocol, TextIO, cast

from hangscope.errors import UnknownNameError
from hangscope.model import Report
from hangscope.report.options import RenderOptions


class Format(Protocol):
    """A module of this folder."""

    FILE: str

    def render(self, report: Report, stream: TextIO, options: RenderOptions) -> None:
        """Write the whole report to the stream."""


def format_names() -> tuple[str, ...]:
    """Names of the formats, without importing any (the text format imports rich)."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")))


def load_format(name: str) -> Format:
    """Import one format.

    Raises:
        UnknownNameError: there is no such format.
    """
    if name not in format_names():
        raise UnknownNameError(f"there is no format {name!r}", "Formats: " + ", ".join(format_names()) + ".")
    return cast("Format", importlib.import_module(f"{__name__}.{name}"))


def history_wanted(formats: Iterable[Format]) -> int:
    """How many calls of each group the report has to hold for these formats; 0 when none shows any."""
    return max((int(getattr(one, "HISTORY", 0)) for one in formats), default=0)
