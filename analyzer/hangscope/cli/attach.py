"""Look into the running jobs of this host, and say why they are stuck."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.cli._arguments import positive
from hangscope.cli._output import add_output_arguments, formats_words, open_output
from hangscope.report.printable import one_line

if TYPE_CHECKING:
    from hangscope.live.capture import Say

_ABOUT = (
    "Finds the training processes of this host, looks at each of them twice (stacks by py-spy, /proc, sockets, logs, "
    "NCCL's RAS service), writes what it saw into a folder that `hangscope analyze` reads again, and prints the "
    "verdict. It only reads: it never ends, stops or resumes a process. For its stack a process is paused for some "
    "milliseconds, unless --nonblocking is given. Where the job listens to torch's own pipe for that "
    "(TORCH_NCCL_DEBUG_INFO_PIPE_FILE), a byte in it asks for the flight recorder, unless --no-recorder is given."
)
_WATCH_S = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = _ABOUT
    parser.epilog = (
        f"{formats_words()}. Exit status: 0 when it ran, whatever it found; with --exit-code 1 when a fault was found; "
        "2 when there was nothing to attach to or the usage was wrong. On several hosts: put the folders into one and "
        "analyze that."
    )
    parser.add_argument(
        "-p",
        "--pid",
        type=positive,
        nargs="+",
        action="extend",
        default=[],
        metavar="PID",
        help="a process of the job that is meant (default: all jobs of this host); may be repeated",
    )
    parser.add_argument(
        "-o",
        "--bundle",
        dest="output",
        type=Path,
        metavar="DIR",
        help="folder to write the bundle to, new or empty (default: hangscope-attach-HOST-TIME)",
    )
    # what the option was called before reports had a folder, too (--out)
    parser.add_argument("--output", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--archive", action="store_true", help="also pack the bundle into DIR.tar.gz")
    parser.add_argument(
        "--interval", type=_seconds, default=5.0, metavar="S", help="seconds between the two looks (default: 5)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--native", action="store_true", help="also C and C++ frames; takes longer")
    how.add_argument(
        "--nonblocking", action="store_true", help="never pause a process; its stack may then be inconsistent"
    )
    parser.add_argument("--no-recorder", action="store_true", help="do not ask torch for its flight recorder")
    parser.add_argument(
        "--watch",
        type=_seconds,
        nargs="?",
        const=float(_WATCH_S),
        metavar="S",
        help=f"look from afar every S seconds (default: {_WATCH_S}), and attach once the job stands still",
    )
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Attach, render, and say by the exit status what --exit-code asks for."""
    output = open_output(args)
    from hangscope.api import attach
    from hangscope.diagnose.catalogue import NO_FAULT_FOUND

    with _progress() as say:
        attached = attach(
            *args.pid,
            output=args.output,
            interval_s=args.interval,
            native=args.native,
            nonblocking=args.nonblocking,
            recorder=not args.no_recorder,
            watch_s=args.watch,
            archive=args.archive,
            rules=tuple(args.rules),
            several=output.folder is not None or args.format in (None, ["text"]),
            say=say,
            history=output.history,
        )
    if attached is None:
        print("hangscope: the job ended while it was watched", file=sys.stderr)
        return 0
    for number, (name, report) in enumerate(zip(attached.jobs, attached.reports, strict=True), 1):
        if len(attached.jobs) > 1:
            # on the page itself: in a file or a pager the reports would else be nobody's; quiet is one line a job
            where = sys.stderr if args.quiet else sys.stdout
            gap = "\n" if number > 1 and not args.quiet else ""
            print(f"{gap}Job {number} of {len(attached.jobs)} on this host: {one_line(name)}", file=where, flush=True)
        output.show(report, f"job{number}" if len(attached.jobs) > 1 else "")
        sys.stdout.flush()
    print(f"hangscope: what was collected lies in {one_line(str(attached.bundle))}", file=sys.stderr)
    found = any(report.verdict.cause != NO_FAULT_FOUND for report in attached.reports)
    return 1 if args.exit_code and found else 0


@contextmanager
def _progress() -> Iterator[Say]:
    """What is being done, on standard error: a line that changes on a terminal, else a line for each thing."""
    if not sys.stderr.isatty():
        said: set[str] = set()

        def tell(what: str, _done: int, _total: int) -> None:
            if what not in said:
                said.add(what)
                print(f"hangscope: {one_line(what)}", file=sys.stderr, flush=True)

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None)

    def show(what: str, done: int, total: int) -> None:
        bar.update(task, description=one_line(what), completed=done, total=total)

    with bar:
        yield show


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds
