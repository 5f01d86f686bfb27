"""Measures how fast `hangscope analyze` reads big jobs, against a bare loop over the same lines and other programs.

    python tests/benchmark.py [--ranks 64] [--colls 20000] [--jobs N] [--max-ratio R] [--keep DIR]
    python tests/benchmark.py --logs DIR
    python tests/benchmark.py --readme [--lnav PROGRAM] [--xcl-lens PROGRAM] [--torchfrtrace PROGRAM]
    python tests/benchmark.py --check

The first two measure one job; without --logs its logs are written first: one rank never makes the last all_reduce of
the default group. The bare loop reads the same files as text on one core and matches one compiled regular expression
on each line. --readme measures all that README's tables of speed show, some minutes long on a machine that does
nothing else, and writes them; --check tells whether these tables are the ones that it writes. Linux only.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
from pathlib import Path

from benchmarks import logs, peers, plan
from benchmarks.measure import best_of, measure
from benchmarks.tables import README, Table, in_readme


def report(folder: Path, jobs: int | None, culprits: peers.Culprits) -> float:
    """Measures both, prints the figures, checks the verdict; returns the ratio of the wall times."""
    files = sorted(folder.rglob("*.log"))
    size = sum(path.stat().st_size for path in files)
    loop = plan.bare_loop(plan.ALL_FIELDS, "match", files)
    hangscope = peers.ours(folder, *(["--jobs", str(jobs)] if jobs else []))
    # the first pass only fills the page cache, so that both read from memory
    measure(loop)
    bare, ours = best_of(1, loop, hangscope.command)
    lines, matched = (int(number) for number in bare.output.split())
    print(f"{len(files)} files, {lines:,} lines ({matched:,} calls), {size / 1e6:,.0f} MB, {os.cpu_count()} cores")
    print(f"{'':10} {'wall s':>8} {'CPU s':>8} {'lines/s':>11} {'MB/s':>7} {'peak MB':>8}")
    for name, cost in (("bare loop", bare), ("hangscope", ours)):
        print(
            f"{name:10} {cost.wall_s:8.2f} {cost.cpu_s:8.2f} {lines / cost.wall_s:11,.0f} "
            f"{size / 1e6 / cost.wall_s:7.1f} {cost.peak_bytes / 1e6:8.0f}"
        )
    ratio = ours.wall_s / bare.wall_s
    print(f"ratio: wall {ratio:.2f}, CPU {ours.cpu_s / bare.cpu_s:.2f}")
    found = hangscope.found(ours.output, culprits)
    print(f"verdict: {found}")
    if culprits and not found.endswith(": right"):
        raise SystemExit("the verdict is wrong")
    return ratio


def faults(text: str) -> list[str]:
    """What is wrong about README's tables: other rows or headings than are written, ratios that do not fit."""
    try:
        block = in_readme(text)
    except ValueError as error:
        return [str(error)]
    return [fault for table in plan.TABLES for fault in table.faults(block)]


def write_readme(given: dict[str, Path | None], scale: float) -> str:
    """Measures everything; returns the tables.

    Raises:
        SystemExit: when a program to compare with is missing.
    """
    programs = {name: program for name, path in given.items() if (program := peers.find(name, path)) is not None}
    if missing := sorted(given.keys() - programs.keys()):
        raise SystemExit(f"not installed: {', '.join(missing)} (--NAME PROGRAM says where a program is)")
    say = functools.partial(print, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        measured: dict[Table, str] = {
            table: table.render(rows) for table, rows in plan.Plan(Path(temporary), programs, scale, say).run()
        }
    return "\n\n".join([plan.machine(programs), *(measured[table] for table in plan.TABLES)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--colls", type=int, default=20_000, help="collective calls a rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, help="passed on to hangscope")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="measure on these logs instead")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the logs there and leave them")
    parser.add_argument("--max-ratio", type=float, metavar="R", help="fail when hangscope takes longer than R loops")
    parser.add_argument("--readme", action="store_true", help="measure what README shows, and write it there")
    parser.add_argument("--check", action="store_true", help="fail when README's tables are not those of --readme")
    parser.add_argument("--print", action="store_true", help="with --readme: print the tables, leave README as it is")
    parser.add_argument("--scale", type=float, default=1.0, metavar="S", help="with --print: so much of each job")
    for name in peers.PROGRAMS:
        parser.add_argument(f"--{name}", type=Path, metavar="PROGRAM", help="where it is, if not on the path")
    options = parser.parse_args()
    if options.check:
        wrong = faults(README.read_text(encoding="utf-8"))
        print("\n".join(wrong), end="\n" * bool(wrong))
        return bool(wrong)
    if options.readme:
        given = {name: getattr(options, name.replace("-", "_")) for name in peers.PROGRAMS}
        tables = write_readme(given, options.scale)
        if options.print:
            print(tables)
        else:
            README.write_text(in_readme(README.read_text(encoding="utf-8"), tables), encoding="utf-8")
        return 0
    if options.logs:
        ratio = report(options.logs, options.jobs, ())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.keep or Path(temporary)
            culprit = logs.write_job(folder, options.ranks, options.colls, options.seed)
            ratio = report(folder, options.jobs, (culprit,))
    if options.max_ratio is not None and ratio > options.max_ratio:
        print(f"slower than {options.max_ratio} bare loops", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
