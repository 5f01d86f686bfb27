"""The options that say how a report is shown, and where it goes; `analyze` and `attach` share them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.cli._about import listed
from hangscope.cli._arguments import add_rules_argument, positive
from hangscope.cli._terminal import PAGE_WIDTH, terminal_width
from hangscope.errors import UsageError
from hangscope.records import dataclass
from hangscope.report import formats
from hangscope.report.formats import Format, format_names, history_wanted, load_format
from hangscope.report.options import RenderOptions
from hangscope.report.printable import one_line

if TYPE_CHECKING:
    from hangscope.model import Report


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument(
        "--format",
        type=_formats,
        action="extend",
        metavar="FORMAT",
        help=f"form of the output: {', '.join(format_names())} (default: text); several, with commas or by repeating "
        "the option, need --out",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write a file for each --format into DIR, by default one for every format there is; the text is shown "
        "all the same",
    )
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 when a fault was found")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("-q", "--quiet", action="store_true", help="only the verdict, on one line (text)")
    amount.add_argument("-v", "--verbose", action="store_true", help="every finding, line of evidence and rank (text)")
    add_page_arguments(parser)


def formats_words() -> str:
    """What each format is, for the end of a command's help."""
    return listed("formats", formats.__file__, format_names())


def add_page_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare those that every page has."""
    add_rules_argument(parser)
    parser.add_argument("--width", type=positive, metavar="N", help="columns of the output (default: the terminal's)")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours (default: auto; NO_COLOR is respected)",
    )


@dataclass(frozen=True, slots=True)
class Output:
    """Where reports go, and how.

    Attributes:
        formats: what is asked for.
        folder: where their files go; None for standard output.
        history: how many calls of each group the report has to hold.
        page: what is printed.
        options: how it is printed.
        file_options: how files are written.
    """

    formats: tuple[Format, ...]
    folder: Path | None
    history: int
    page: Format
    options: RenderOptions
    file_options: RenderOptions

    def show(self, report: Report, below: str = "") -> None:
        """Print the report, and write its files.

        Args:
            report: what to show.
            below: folder for its files, below the one that was asked for.
        """
        self.page.render(report, sys.stdout, self.options)
        if self.folder is None:
            return
        from hangscope.report.files import write_files

        # whoever looks at both streams reads the page first
        sys.stdout.flush()
        for file in write_files(report, self.folder / below, self.formats, self.file_options):
            print(f"hangscope: wrote {one_line(str(file))}", file=sys.stderr)


def open_output(args: argparse.Namespace) -> Output:
    """The output that the user asked for, before any work is done for it.

    Raises:
        UsageError: several formats are to go to one stream.
        InputError: the folder cannot be written to.
    """
    asked: list[str] = args.format or (list(format_names()) if args.out is not None else ["text"])
    if args.out is None and len(set(asked)) > 1:
        raise UsageError("several formats do not fit into one output", "Add --out DIR: each gets a file there.")
    # A format that cannot be loaded should not cost a wait, and neither should a folder.
    formats = tuple(load_format(name) for name in dict.fromkeys(asked))
    if args.out is not None:
        from hangscope.report.files import make_folder

        make_folder(args.out)
    return Output(
        formats=formats,
        folder=args.out,
        history=history_wanted(formats),
        page=formats[0] if args.out is None else load_format("text"),
        options=render_options(args),
        file_options=RenderOptions(width=args.width or PAGE_WIDTH, verbose=args.verbose),
    )


def _formats(text: str) -> list[str]:
    """The formats of one ``--format``."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = next((name for name in names or [text] if name not in format_names()), None)
    if unknown is not None:
        raise argparse.ArgumentTypeError(f"there is no format {unknown!r} (there are {', '.join(format_names())})")
    return names


def render_options(args: argparse.Namespace) -> RenderOptions:
    """What the user asked for, and what the terminal can show."""
    return RenderOptions(
        width=args.width or terminal_width(),
        color=_color_wanted(args.color),
        quiet=args.quiet,
        verbose=args.verbose,
        encoding=sys.stdout.encoding or "utf-8",
    )


def _color_wanted(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    # https://no-color.org: present and not empty
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
