"""A report in a notebook: it shows itself, prints itself in full, and goes into a file of any output format."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hangscope import model
from hangscope.errors import UsageError
from hangscope.plot import load_plot
from hangscope.records import dataclass
from hangscope.report.card import report_card, report_words
from hangscope.report.formats import format_names, history_wanted, load_format
from hangscope.report.options import RenderOptions
from hangscope.report.serialize import to_dict

if TYPE_CHECKING:
    from hangscope.plot.picture import Picture

HistoryOf = Callable[[int], model.History | None]
"""Gives the last calls of each group, at most so many."""


@dataclass(frozen=True, slots=True, repr=False)
class Report(model.Report):
    """Why a job is stuck. A notebook shows it as a short page; `show` prints the whole one, `save` writes it.

    ``report.verdict`` is the root cause: ``cause`` (a stable id), ``title``, ``explanation``, ``confidence``, ``ranks``
    and ``hosts`` at fault, ``affected_ranks``, ``evidence`` (``at.file``, ``at.line``, ``text``). Beside it stand all
    ``findings``, the stuck ``collectives``, where the ``ranks`` are, the ``story``, ``next_steps``, merged ``stacks``,
    ``comparisons`` of ranks and hosts, ``sources`` and ``warnings``.
    """

    _history_of: HistoryOf | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def of(cls, report: model.Report, history_of: HistoryOf | None = None) -> Report:
        """The same report, able to show itself.

        Args:
            report: as `hangscope.api.analyze` gives it.
            history_of: what a format is given that shows what led up to the fault.
        """
        values = {field.name: getattr(report, field.name) for field in dataclasses.fields(model.Report)}
        return cls(**values, _history_of=history_of)

    def to_dict(self) -> dict[str, Any]:
        """The report as ``--format json`` prints it; the keys stay the same between versions."""
        return to_dict(self)

    def text(self, *, format: str = "text", width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: A002 (the command's word)
        """The whole report as ``hangscope analyze`` prints it.

        Args:
            format: as in ``--format``.
            width: columns.
            verbose: every finding, line of evidence and rank.
            color: with a terminal's codes for colours.

        Raises:
            UnknownNameError: there is no such format.
        """
        chosen = load_format(format)
        shown = self._with_history(history_wanted([chosen]))
        stream = io.StringIO()
        chosen.render(shown, stream, RenderOptions(width=width, verbose=verbose, color=color))
        return stream.getvalue()

    def show(self, *, width: int = 100, verbose: bool = False) -> None:
        """Prints the whole report."""
        print(self.text(width=width, verbose=verbose), end="")  # noqa: T201 (it is asked for)

    def plot(self, kind: str = "timeline", *, dark: bool = False) -> Picture:
        """Draws a picture of the job; a notebook shows it, ``.save("name.svg")`` writes it.

        Args:
            kind: "timeline" (what each rank called last), "progress" (who is behind in which group), "skew" (who
                arrives late), "ranks" (where each rank is), "init" (how far each came in an init) or "waits" (who
                waits for whom).
            dark: for a dark page.

        Returns:
            A matplotlib Figure, of which pyplot does not know.

        Raises:
            UnknownNameError: there is no such kind.
            MissingEvidenceError: the job's evidence holds nothing that it could show.
        """
        chosen = load_plot(kind)
        return chosen.draw(self._with_history(chosen.HISTORY), dark=dark)

    def _with_history(self, calls: int) -> model.Report:
        """The same report with so many of the last calls, where the job is at hand."""
        if calls and self.history is None and self._history_of is not None:
            return dataclasses.replace(self, history=self._history_of(calls))
        return self

    def save(self, path: str | Path, *, format: str | None = None) -> Path:  # noqa: A002 (the command's word)
        """Writes the whole report into a file, which is replaced if it is there.

        Args:
            path: the file; its ending tells the format (.html, .json, .txt, ...).
            format: as in ``--format``, when the ending does not tell.

        Returns:
            The path.

        Raises:
            UsageError: the ending tells no format.
            UnknownNameError: there is no such format.
        """
        target = Path(path)
        text = self.text(format=format or _format_of(target), verbose=True)
        target.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        return target

    def __reduce__(self) -> tuple[object, tuple[model.Report]]:
        # the way back to the job is not for another process
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(model.Report)}
        return Report.of, (model.Report(**values),)

    def _repr_html_(self) -> str:
        return report_card(self)

    def __repr__(self) -> str:
        return report_words(self)


def _format_of(target: Path) -> str:
    """The format whose files end like this one."""
    endings: dict[str, str] = {}
    for name in format_names():
        ending = Path(load_format(name).FILE).suffix
        # of several formats with one ending it is the one named like it
        if ending == f".{name}" or ending not in endings:
            endings[ending] = name
    if target.suffix.lower() not in endings:
        known = ", ".join(sorted(endings))
        raise UsageError(f"the ending of {target.name!r} tells no format", f"Use one of {known}, or give format=.")
    return endings[target.suffix.lower()]
