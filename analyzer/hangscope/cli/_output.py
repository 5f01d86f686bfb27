"""The options that say how a report is shown; `analyze` and `attach` share them."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from hangscope.report.formats import format_names
from hangscope.report.options import RenderOptions

_PAGE_WIDTH = 100
"""Columns when the output goes to no terminal."""


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument("--format", choices=format_names(), default="text", help="form of the output (default: text)")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 when a fault was found")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("-q", "--quiet", action="store_true", help="only the verdict, on one line (text)")
    amount.add_argument("-v", "--verbose", action="store_true", help="every finding, line of evidence and rank (text)")
    parser.add_argument(
        "--rules",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder of further rules; may be repeated",
    )
    parser.add_argument("--width", type=positive, metavar="N", help="columns of the output (default: the terminal's)")
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours (default: auto; NO_COLOR is respected)",
    )


def render_options(args: argparse.Namespace) -> RenderOptions:
    """What the user asked for, and what the terminal can show."""
    return RenderOptions(
        width=args.width or _terminal_width(),
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


def _terminal_width() -> int:
    """Columns of the terminal, also when a pager stands between it and us."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty() and not os.environ.get("COLUMNS"):
                return os.get_terminal_size(stream.fileno()).columns or _PAGE_WIDTH
        except (OSError, ValueError):
            continue
    return shutil.get_terminal_size((_PAGE_WIDTH, 24)).columns


def positive(text: str) -> int:
    """A number of the command line that counts something."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number
