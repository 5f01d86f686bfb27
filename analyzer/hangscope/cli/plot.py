"""Draw pictures of a job: who is missing, who is behind or late, who waits for whom."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.cli._about import listed
from hangscope.cli._arguments import add_jobs_argument, add_rules_argument
from hangscope.cli._reading import check_readable, log_to_stderr, progress_bar
from hangscope.errors import MissingEvidenceError, UsageError
from hangscope.plot import kinds, plot_names

if TYPE_CHECKING:
    from hangscope.model import Report

_FORM = "png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = (
        f"{listed('pictures', kinds.__file__, plot_names())}. "
        "Exit status: 0 when it drew; 2 when the evidence for it is not there, or the usage was wrong"
    )
    parser.add_argument("kind", nargs="?", metavar="KIND", help=f"{', '.join(plot_names())}; left out with --all")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="as for analyze")
    parser.add_argument("--all", action="store_true", help="every picture for which there is evidence, into a folder")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="name.png, name.svg or name.pdf (default: hangscope-KIND.png); with --all a folder (default: "
        "hangscope-plots)",
    )
    parser.add_argument("--dark", action="store_true", help="for a dark page")
    add_jobs_argument(parser)
    add_rules_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Analyze, draw, and name the files."""
    kinds, paths = _asked(args)
    target: Path = args.output or Path("hangscope-plots" if args.all else f"hangscope-{kinds[0]}.{_FORM}")
    if not args.all:
        from hangscope.plot.picture import check_ending

        check_ending(target)
    from hangscope.api import analyze
    from hangscope.plot import load_plot
    from hangscope.report.files import make_folder

    # a folder that cannot be one should not cost a wait
    make_folder(target if args.all else target.parent)
    history = max(load_plot(kind).HISTORY for kind in kinds)
    log_to_stderr(verbose=False)
    with progress_bar() as progress:
        report = analyze(*paths, jobs=args.jobs, rules=tuple(args.rules), history=history, progress=progress)
    check_readable(report.sources)
    if args.all:
        return _draw_all(report, kinds, target, dark=args.dark)
    load_plot(kinds[0]).draw(report, dark=args.dark).save(target)
    _say(f"wrote {target}")
    return 0


def _asked(args: argparse.Namespace) -> tuple[tuple[str, ...], list[str]]:
    """The kinds of pictures, and the paths."""
    paths: list[str] = args.paths
    if args.all:
        # without a kind the first path stands in its place
        return plot_names(), paths if args.kind is None else [args.kind, *paths]
    names = ", ".join(plot_names())
    if args.kind is None and len(paths) > 1:
        # what stands in front of an option alone is taken for a path
        args.kind, *paths = paths
    if args.kind is None and paths[0] in plot_names():
        raise UsageError("no logs are given", f"Add a path: hangscope plot {paths[0]} logs/.")
    if args.kind not in plot_names():
        asked = args.kind if args.kind is not None else paths[0]
        raise UsageError(f"there is no picture {asked!r}", f"Name one of {names}, or add --all.")
    return (args.kind,), paths


def _draw_all(report: Report, kinds: tuple[str, ...], folder: Path, *, dark: bool) -> int:
    from hangscope.plot import load_plot

    drawn = 0
    for kind in kinds:
        try:
            picture = load_plot(kind).draw(report, dark=dark)
        except MissingEvidenceError as error:
            _say(f"left out {kind}: {error}")
            continue
        _say(f"wrote {picture.save(folder / f'{kind}.{_FORM}')}")
        drawn += 1
    if not drawn:
        raise MissingEvidenceError(
            "there is no evidence for any picture",
            "Run hangscope analyze with the same paths: it says what to collect.",
        )
    return 0


def _say(text: str) -> None:
    from hangscope.report.printable import one_line

    print(f"hangscope: {one_line(text)}", file=sys.stderr)
