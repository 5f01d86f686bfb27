"""Compare a good and a bad job: versions, settings, topology, transports, and the first call where they part."""

from __future__ import annotations

import argparse
import sys

from hangscope.cli._arguments import add_jobs_argument
from hangscope.cli._output import add_page_arguments, render_options
from hangscope.cli._reading import check_readable, log_to_stderr, progress_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = (
        "exit status: 0 when it ran, whatever differs; with --exit-code 1 when anything differs; "
        "2 when nothing could be compared or the usage was wrong"
    )
    parser.add_argument("good", metavar="GOOD", help="folder, file, archive or glob of a job that ran well")
    parser.add_argument("bad", metavar="BAD", help="the same of a job that did not")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="form of the output (default: text)")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 when anything differs")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("-q", "--quiet", action="store_true", help="one line (text)")
    amount.add_argument("-v", "--verbose", action="store_true", help="every difference and value (text)")
    add_page_arguments(parser)
    add_jobs_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Read both, compare, and say by the exit status what --exit-code asks for."""
    from hangscope.api import diff, read_job
    from hangscope.report.differences import differ, to_plain
    from hangscope.report.serialize import json_text
    from hangscope.report.terminal.difference import render_difference

    log_to_stderr(verbose=args.verbose)
    readings = []
    for path in (args.good, args.bad):
        with progress_bar() as progress:
            readings.append(read_job(path, jobs=args.jobs, progress=progress))
        check_readable(readings[-1].job.sources)
    good, bad = readings
    difference = diff(good, bad, (args.good, args.bad), rules=tuple(args.rules))
    options = render_options(args)
    is_json = args.format == "json"
    sys.stdout.write(json_text(to_plain(difference), options) if is_json else render_difference(difference, options))
    return 1 if args.exit_code and differ(difference) else 0
