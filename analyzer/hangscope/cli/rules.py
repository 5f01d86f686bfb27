"""List the rules: family, id, cause, role and title."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence

from hangscope.cli._arguments import add_rules_argument
from hangscope.diagnose.catalogue import families
from hangscope.diagnose.reader import suggest
from hangscope.diagnose.rule import Heading
from hangscope.diagnose.shipped import list_rules
from hangscope.errors import UnknownNameError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``hangscope rules``."""
    parser.add_argument("--family", metavar="FAMILY", help="only the rules of one family (process, network, gpu, ...)")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    add_rules_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the list."""
    if args.family is not None and args.family not in families():
        raise UnknownNameError(
            f"there is no family {args.family!r}{suggest(args.family, families())}",
            f"The families are {', '.join(families())}.",
        )
    if args.rules:
        _check(args.rules)
    rules = list_rules(args.rules, args.family or "")
    print(_as_json(rules) if args.json else _as_table(rules), end="")
    return 0


def _check(folders: Sequence[str]) -> None:
    """Who lists rules of their own wants to know whether they are right; that alone is worth loading the grammars."""
    from hangscope.diagnose.own_rules import load_checked_rules

    load_checked_rules(folders)


def _as_json(rules: Sequence[Heading]) -> str:
    return json.dumps([dataclasses.asdict(rule) for rule in rules], indent=2) + "\n"


def _as_table(rules: Sequence[Heading]) -> str:
    rows = [("FAMILY", "RULE", "CAUSE", "ROLE", "TITLE")]
    rows += [(rule.family, rule.id, rule.cause, rule.role, rule.title) for rule in rules]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"
