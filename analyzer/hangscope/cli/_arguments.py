"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_jobs_argument(parser: argparse.ArgumentParser) -> None:
    """Declares ``--jobs``."""
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes to read with (default: one a CPU core)")


def add_rules_argument(parser: argparse.ArgumentParser) -> None:
    """Declares ``--rules``."""
    parser.add_argument(
        "--rules",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder with rules of your own (may be repeated)",
    )


def positive(text: str) -> int:
    """A number of the command line that counts something.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number
