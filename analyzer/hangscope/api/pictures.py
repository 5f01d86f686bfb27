"""Draws a picture of a job straight from its logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.api.analysis import analyze
from hangscope.plot import load_plot

if TYPE_CHECKING:
    from hangscope.plot.picture import Picture


def plot(
    kind: str,
    *paths: str | Path,
    output: str | Path | None = None,
    dark: bool = False,
    jobs: int | None = None,
    rules: Sequence[str | Path] = (),
) -> Picture:
    """Reads logs and draws a picture of the job.

    Args:
        kind: one of `hangscope.plot.plot_names`: "timeline", "progress", "skew", "ranks", "init" or "waits".
        *paths: as for `load`.
        output: file to write it to (.png, .svg or .pdf), too.
        dark: for a dark page.
        jobs: as for `load`.
        rules: folders of further rules.

    Returns:
        A matplotlib Figure; nothing is shown, and pyplot does not know of it.

    Raises:
        UnknownNameError: there is no such kind.
        MissingEvidenceError: the logs hold nothing that it could show.
        InputError: as for `load`.
    """
    chosen = load_plot(kind)
    picture = chosen.draw(analyze(*paths, jobs=jobs, rules=rules, history=chosen.HISTORY), dark=dark)
    if output is not None:
        picture.save(output)
    return picture
