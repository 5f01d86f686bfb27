"""Read logs and dumps, and say why the job is stuck."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hangscope.cli._arguments import add_jobs_argument
from hangscope.cli._output import add_output_arguments, formats_words, open_output
from hangscope.cli._reading import check_readable, log_to_stderr, progress_bar
from hangscope.report.printable import one_line

if TYPE_CHECKING:
    from hangscope.model import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = (
        f"{formats_words()}. Exit status: 0 when it ran, whatever it found; with --exit-code 1 when a fault was found; "
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
    add_jobs_argument(parser)
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
    from hangscope.diagnose.catalogue import NO_FAULT_FOUND

    log_to_stderr(verbose=args.verbose)
    with progress_bar() as progress:
        report = analyze(
            *args.paths,
            jobs=args.jobs,
            rules=tuple(args.rules),
            progress=progress,
            tables=args.tables,
            scheduler=args.scheduler,
            history=output.history,
        )
    check_readable(report.sources)
    if args.quiet:
        _say_what_is_left_out(report)
    output.show(report)
    found = report.verdict.cause != NO_FAULT_FOUND
    return 1 if args.exit_code and found else 0


def _say_what_is_left_out(report: Report) -> None:
    """One line of verdict has no room for it, and a misspelt path must not pass unnoticed."""
    failed = [source for source in report.sources if source.error is not None and not source.lines]
    for source in failed[:3]:
        print(f"hangscope: left out {one_line(source.file)}: {one_line(source.error or '')}", file=sys.stderr)
    if len(failed) > 3:
        print(f"hangscope: left out {len(failed) - 3} more", file=sys.stderr)
