"""Keeps the marked blocks of README.md equal to what hangscope prints today.

    python tests/readme.py --write | --check

A block begins with `<!-- begin: hangscope ... -->` and ends with `<!-- end -->`. Between them stands the command
and its output, in a text fence. Commands run in the root of the checkout.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"

_BLOCK = re.compile(r"(<!-- begin: (?P<command>hangscope [^\n]*?) -->\n).*?(<!-- end -->)", re.DOTALL)


def output_of(command: str) -> str:
    """What the command prints, at the width that README shows without a scroll bar."""
    from hangscope.cli.main import main as hangscope  # noqa: PLC0415  (the blocks themselves can be read without it)

    printed = io.StringIO()
    before = os.environ.get("COLUMNS"), Path.cwd()
    os.environ["COLUMNS"] = "100"
    os.chdir(README.parent)
    try:
        with contextlib.redirect_stdout(printed):
            status = hangscope(shlex.split(command)[1:])
    finally:
        os.chdir(before[1])
        if before[0] is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before[0]
    if status != 0:
        raise RuntimeError(f"{command} gave exit status {status}")
    return "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())


def fresh(text: str) -> str:
    """The README with every marked block made anew."""

    def block(found: re.Match[str]) -> str:
        command = found["command"]
        return f"{found[1]}\n```text\n$ {command}\n{output_of(command)}\n```\n\n{found[3]}"

    return _BLOCK.sub(block, text)


def shell_blocks(text: str) -> list[str]:
    """Contents of the fenced ```sh blocks, in order."""
    return re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the blocks anew")
    action.add_argument("--check", action="store_true", help="fail when a block is out of date")
    options = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    if fresh(text) == text:
        return 0
    if options.check:
        print("README.md is out of date: run python tests/readme.py --write")
        return 1
    README.write_text(fresh(text), encoding="utf-8")
    print("README.md written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
