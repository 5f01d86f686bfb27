"""Read logs and dumps, and say why the job is stuck."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.cli._output import add_output_arguments, open_output, positive
from hangscope.errors import InputError
from hangscope.report.printable import one_line

if TYPE_CHECKING:
    from hangscope.model import Report

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes there are."""

_PROGRESS_FROM_BYTES = 20_000_000
"""Less than this is read before a bar could be looked at."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = (
        "exit status: 0 when it ran, whatever it found; with --exit-code 1 when a fault was found; "
        "2 when nothing could be analyzed or the usage was wrong"
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="folder, file, archive or glob, here or behind a URL (s3://, gs://, ssh://, hdfs://, https://); "
        "- is standard input; all ranks at once is best",
    )
    add_output_arguments(parser)
    parser.add_argument("--jobs", type=positive, metavar="N", help="processes to read with (default: one a CPU core)")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="read with the workers of this dask scheduler; local starts workers here",
    )
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="also save the job there as Parquet files; DIR as PATH is then read in place of the logs",
    )


def run(args: argparse.Namespace) -> int:
    """Analyze, render, and say by the exit status what --exit-code asks for."""
    output = open_output(args)
    from hangscope.api import analyze

    _log_to_stderr(verbose=args.verbose)
    with _progress_bar() as progress:
        report = analyze(
            *args.paths,
            jobs=args.jobs,
            rules=tuple(args.rules),
            progress=progress,
            tables=args.tables,
            scheduler=args.scheduler,
            history=output.history,
        )
    _check_readable(report)
    if args.quiet:
        _say_what_is_left_out(report)
    output.show(report)
    found = report.verdict.cause != "no-fault-found"
    return 1 if args.exit_code and found else 0


def _check_readable(report: Report) -> None:
    """Nothing read is no analysis (report contract: exit status 2)."""
    failed = [source for source in report.sources if source.error is not None and not source.lines]
    if not failed or len(failed) < len(report.sources):
        return
    listed = "; ".join(f"{source.file}: {source.error}" for source in failed[:3])
    rest = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    raise InputError(f"nothing could be read: {listed}{rest}")


def _say_what_is_left_out(report: Report) -> None:
    """One line of verdict has no room for it, and a misspelt path must not pass unnoticed."""
    failed = [source for source in report.sources if source.error is not None and not source.lines]
    for source in failed[:3]:
        print(f"hangscope: left out {one_line(source.file)}: {one_line(source.error or '')}", file=sys.stderr)
    if len(failed) > 3:
        print(f"hangscope: left out {len(failed) - 3} more", file=sys.stderr)


def _log_to_stderr(*, verbose: bool) -> None:
    import logging

    level = logging.INFO if verbose else logging.WARNING
    handler = logging.StreamHandler(sys.stderr)
    if not verbose:
        # dask tells of every connection, and s3fs of every retry
        handler.addFilter(lambda record: record.name.startswith("hangscope"))
    logging.basicConfig(handlers=[handler], level=level, format="hangscope: %(message)s")


@contextmanager
def _progress_bar() -> Iterator[Progress | None]:
    """A bar on standard error for somebody who waits there, and only if there is something to wait for."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("reading", total=None)

    def update(done_bytes: int, total_bytes: int) -> None:
        if total_bytes > _PROGRESS_FROM_BYTES:
            bar.start()
            bar.update(task, completed=done_bytes, total=total_bytes)

    try:
        yield update
    finally:
        bar.stop()
