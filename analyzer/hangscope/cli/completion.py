"""Print a script that lets a shell complete commands, options and ids."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

SHELLS = ("bash", "fish", "tcsh", "zsh")
_INTO = {
    "bash": "hangscope completion bash > ~/.local/share/bash-completion/completions/hangscope",
    "fish": "hangscope completion fish > ~/.config/fish/completions/hangscope.fish",
    "tcsh": "hangscope completion tcsh > ~/.hangscope.tcsh; echo 'source ~/.hangscope.tcsh' >> ~/.tcshrc",
    "zsh": "hangscope completion zsh > ~/.zfunc/_hangscope (with ~/.zfunc in fpath, before compinit)",
}
_FOLDERS = frozenset({"DIR"})
_FILES = frozenset({"PATH", "GOOD", "BAD"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``hangscope completion``."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["to install it, for new shells:", *(f"  {command}" for command in _INTO.values())])
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab

    from hangscope.cli._declared import actions_of, commands_of
    from hangscope.cli.main import build_parser

    parser = build_parser()
    for command in commands_of(parser).values():
        for action in actions_of(command):
            _complete(action, shtab)
    print(shtab.complete(parser, args.shell), end="")
    return 0


def _complete(action: argparse.Action, shtab: Any) -> None:  # noqa: ANN401 (a module)
    """Says what an argument can be, by the word that stands for it in the help."""
    from hangscope.diagnose.catalogue import causes, families
    from hangscope.diagnose.shipped import list_rules
    from hangscope.plot import plot_names
    from hangscope.report.formats import format_names

    if action.metavar in _FOLDERS:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif action.metavar in _FILES or action.type is Path:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif action.metavar == "FORMAT":
        action.choices = format_names()
    elif action.metavar == "KIND":
        action.choices = plot_names()
    elif action.metavar == "FAMILY":
        action.choices = families()
    elif action.metavar == "CAUSE_OR_RULE":
        action.choices = sorted({*causes(), *(rule.id for rule in list_rules())})
