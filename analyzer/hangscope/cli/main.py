"""Starts the subcommand that was asked for, and turns every way to fail into a line and an exit status."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol, cast

import hangscope
from hangscope.cli._about import first_line
from hangscope.cli._terminal import terminal_width
from hangscope.errors import HangscopeError, InputError

_DEBUG = "HANGSCOPE_DEBUG"
_COLLECT = (200_000, 200, 100)
"""How many new objects, and young and middle collections, Python's collector waits for."""

_WRONG = 2
"""Exit status when nothing could be analyzed, the usage was wrong, or hangscope itself failed."""

_INTERRUPTED = 130
"""128 + SIGINT, what shells give a program that Ctrl-C ended."""


class Command(Protocol):
    """A module of this folder other than this one; its docstring's first line is its help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `hangscope`: without arguments given, those of the process, which then is all hangscope's."""
    if argv is None:
        # what is made while modules load and logs are read lives to the end: looking for cycles in it is for nothing
        gc.set_threshold(*_COLLECT)
        # and so is the search when the process ends, which would take a tenth of a small analysis
        atexit.register(gc.freeze)
    _open_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(arguments)
    if not arguments:
        parser.print_help(sys.stderr)
        return _WRONG
    args = _parsed(parser, arguments)
    return _guarded(lambda: cast("int", args.run(args)))


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """What was asked for; argparse alone takes paths only up to the next option, and leaves those behind it over."""
    args, left = parser.parse_known_args(arguments)
    paths = [argument for argument in left if argument == "-" or not argument.startswith("-")]
    if len(paths) < len(left) or (paths and not hasattr(args, "paths")):
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    if paths:
        args.paths += paths
    return args


def command_names() -> tuple[str, ...]:
    """The subcommands, without importing them."""
    package = str(Path(__file__).parent)
    names = (module.name for module in pkgutil.iter_modules([package]))
    return tuple(sorted(name for name in names if name != "main" and not name.startswith("_")))


def build_parser(loaded: Collection[str] | None = None) -> argparse.ArgumentParser:
    """The parser of the command line.

    Args:
        loaded: commands whose options it shall know, by default all; the others are only listed.
    """
    parser = argparse.ArgumentParser(
        prog="hangscope",
        description="Explains why a distributed GPU job is stuck: which rank, on which host, at which line, by which "
        "log lines, and what to do next.",
        epilog="Start with: hangscope analyze logs/",
        formatter_class=_formatter,
    )
    parser.add_argument("--version", action="version", version=f"hangscope {hangscope.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", prog=parser.prog, required=True)
    for name in command_names():
        about = first_line(Path(__file__).with_name(f"{name}.py"))
        child = commands.add_parser(
            name, help=about[:1].lower() + about[1:].rstrip("."), description=about, formatter_class=_formatter
        )
        if loaded is None or name in loaded:
            command = cast("Command", importlib.import_module(f"hangscope.cli.{name}"))
            command.add_arguments(child)
            child.set_defaults(run=command.run)
    return parser


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    # Only the command that is asked for is imported, so that no other can slow it down.
    asked = next((argument for argument in arguments if not argument.startswith("-")), "")
    parser = build_parser((asked,))
    if asked and asked not in command_names() and Path(asked).exists():
        parser.error(f"{asked} is a path, not a command; try: hangscope analyze {asked}")
    return parser


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=terminal_width() - 2)


def _guarded(run: Callable[[], int]) -> int:
    """Run, and let no traceback reach somebody who only wants to know why a job hangs."""
    try:
        status = run()
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader has seen enough (`| head`)
        _drop_output()
        return 0
    except KeyboardInterrupt:
        _complain("interrupted")
        return _INTERRUPTED
    except HangscopeError as error:
        _complain(str(error), error.advice)
        return _failed(error.exit_code)
    except MemoryError:
        _complain("out of memory", "Give it fewer files at once, or lower --jobs.")
        return _failed(_WRONG)
    except OSError as error:
        # standard output on a full disk, a folder that went away: nothing that a trace would explain
        _drop_output()
        _complain(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return _failed(InputError.exit_code)
    except Exception as error:  # noqa: BLE001 - the last resort; the trace is one variable away
        _complain(
            f"this is a defect of hangscope, not of your job: {type(error).__name__}: {error}",
            f"Run it again with {_DEBUG}=1 to see the trace, and report it.",
        )
        return _failed(_WRONG)
    return status


def _open_streams() -> None:
    """Streams that the shell closed (`>&-`) are None; what is written to them is not wanted."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends


def _drop_output() -> None:
    """What could not be written must not fail once more when Python closes the stream."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(status: int) -> int:
    """Show the trace of the error at hand when it was asked for."""
    if os.environ.get(_DEBUG, "") not in ("", "0"):
        import traceback

        traceback.print_exc()
    return status


def _complain(message: str, advice: str = "") -> None:
    from hangscope.report.printable import printable

    for line in filter(None, (f"hangscope: {printable(message)}", printable(advice))):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
