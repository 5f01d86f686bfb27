"""Lists what parsers declare, which argparse keeps to itself."""

from __future__ import annotations

import argparse


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the subcommands, by name."""
    for action in actions_of(parser):
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 (there is no other way)
            return dict(action.choices)
    return {}


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments of a parser that are shown, in the order in which they were declared."""
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]  # noqa: SLF001 (see above)


def spellings(action: argparse.Action) -> list[str]:
    """How an argument is written: ``PATH...``, ``-o DIR`` and ``--output DIR``."""
    value = _value(action)
    if not action.option_strings:
        return [value]
    return [f"{option} {value}" if value else option for option in action.option_strings]


def meaning(action: argparse.Action, prog: str) -> str:
    """The help of an argument, filled in as ``--help`` does."""
    values = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS}
    if action.choices is not None:
        values["choices"] = ", ".join(map(str, action.choices))
    return (action.help or "") % {**values, "prog": prog}


def synopsis(command: argparse.ArgumentParser) -> str:
    """``hangscope analyze [OPTIONS] PATH...``."""
    needed = [_value(action) for action in actions_of(command) if not action.option_strings]
    return " ".join([command.prog, "[OPTIONS]", *needed])


def _value(action: argparse.Action) -> str:
    """What stands for the value of an argument; "" for a switch."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        name = action.metavar
    elif action.choices is not None:
        name = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        name = action.dest.upper()
    return {"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}.get(str(action.nargs), name)
