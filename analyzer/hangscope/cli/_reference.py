"""Writes the reference of the command line, as a page and as a manual page, from what the parsers declare.

``python -m hangscope.cli._reference`` writes analyzer/hangscope/cli/README.md and hangscope.1 beside it; with
``--check`` it only says whether they are fresh.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import hangscope
from hangscope.cli._declared import actions_of, commands_of, meaning, spellings, synopsis
from hangscope.cli.main import build_parser

PAGE = Path(__file__).with_name("README.md")
MANUAL = Path(__file__).with_name("hangscope.1")

STATUSES = (
    ("0", "it ran, whatever it found"),
    ("1", "with --exit-code: a fault was found; of diff: anything differs"),
    ("2", "nothing could be analyzed, or the usage was wrong"),
    ("130", "it was interrupted"),
)
ENVIRONMENT = (
    ("NO_COLOR", "when it is set and not empty, no colours, unless --color always asks for them"),
    ("COLUMNS", "how wide the output is, unless --width says"),
    ("XDG_CACHE_HOME", "where compiled grammars are kept, in a folder hangscope (default: ~/.cache)"),
    ("HANGSCOPE_DEBUG", "when it is 1, errors show where in hangscope they happened"),
)
_HEAD = """\
# Command line

`hangscope COMMAND --help` says the same in a terminal, and `man hangscope` where hangscope was installed with pip.

This page and the manual page are made by `python -m hangscope.cli._reference`; a test fails when they are stale.
"""


def render_page() -> str:
    """The page, in Markdown."""
    parser = build_parser()
    parts = [_HEAD, f"{parser.description}\n"]
    for name, command in commands_of(parser).items():
        parts += [f"## hangscope {name}\n", f"{command.description}\n", f"```text\n{synopsis(command)}\n```\n"]
        parts.append(_table("argument", [(spellings(a), meaning(a, command.prog)) for a in actions_of(command)]))
        if command.epilog:
            parts.append(_epilog(command))
    parts += ["## Exit status\n", _table("status", [([status], about) for status, about in STATUSES])]
    parts += ["## Environment\n", _table("variable", [([name], about) for name, about in ENVIRONMENT])]
    return "\n".join(parts).rstrip() + "\n"


def render_manual() -> str:
    """The manual page, in the macros of man(7)."""
    parser = build_parser()
    lines = [
        f'.TH HANGSCOPE 1 "" "hangscope {hangscope.__version__}" "User Commands"',
        ".SH NAME",
        "hangscope \\- explains why a distributed GPU job is stuck",
        ".SH SYNOPSIS",
    ]
    for command in commands_of(parser).values():
        lines += [f".B {_roff(command.prog)}", _roff(synopsis(command).removeprefix(command.prog).strip()), ".br"]
    lines += [".SH DESCRIPTION", _roff(parser.description or ""), _roff(parser.epilog or "")]
    for name, command in commands_of(parser).items():
        lines += [f".SH {name.upper()}", _roff(command.description or "")]
        for action in actions_of(command):
            written = ", ".join(f"\\fB{_roff(one)}\\fR" for one in spellings(action))
            lines += [".TP", written, _roff(meaning(action, command.prog))]
        if command.epilog:
            text = [_roff(line) for line in command.epilog.splitlines()]
            lines += [".PP", *([".nf", *text, ".fi"] if len(text) > 1 else text)]
    lines += [".SH EXIT STATUS"]
    for status, about in STATUSES:
        lines += [".TP", f"\\fB{status}\\fR", _roff(about)]
    lines += [".SH ENVIRONMENT"]
    for variable, about in ENVIRONMENT:
        lines += [".TP", f"\\fB{variable}\\fR", _roff(about)]
    return "\n".join(line for line in lines if line) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the pages."""
    made = {PAGE: render_page(), MANUAL: render_manual()}
    if "--check" not in arguments:
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path.name for path, text in made.items() if not path.is_file() or path.read_text("utf-8") != text]
    if stale:
        sys.stderr.write(f"cli/{' and cli/'.join(stale)} stale; run: python -m hangscope.cli._reference\n")
    return 1 if stale else 0


def _table(head: str, rows: Sequence[tuple[Sequence[str], str]]) -> str:
    lines = [f"| {head} | meaning |", "|---|---|"]
    for written, about in rows:
        lines.append(f"| {', '.join(f'`{_cell(one)}`' for one in written)} | {_cell(about)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _epilog(command: argparse.ArgumentParser) -> str:
    text = command.epilog or ""
    return f"```text\n{text}\n```\n" if "\n" in text else f"{text[:1].upper()}{text[1:].rstrip('.')}.\n"


def _roff(text: str) -> str:
    """Text that begins no request and holds no escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
