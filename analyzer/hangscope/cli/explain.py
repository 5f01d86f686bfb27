"""Explain a cause or a rule: what it means, how it looks, why it happens, how to confirm and fix it, when it errs."""

from __future__ import annotations

import argparse

from hangscope.cli._arguments import add_rules_argument
from hangscope.cli._terminal import terminal_width
from hangscope.diagnose.pages import explain_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``hangscope explain``."""
    parser.add_argument("name", metavar="CAUSE_OR_RULE", help="id of a cause or of a rule, as a report names it")
    add_rules_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the page, as wide as the terminal."""
    print(explain_text(args.name, args.rules, width=terminal_width()), end="")
    return 0
