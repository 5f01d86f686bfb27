"""README's tables of speed: which runs each of them is made of."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import logs, peers
from benchmarks.measure import ANALYZER, Cost, best_of, hangscope, measure
from benchmarks.recorders import write_recorders
from benchmarks.tables import CPU, PEAK, PER_MILLION, WALL, Row, Table, ratio

ALL_FIELDS = (
    r"(\S+?):(\d+):(\d+) \[(\d+)\] NCCL INFO (\w+): opCount ([0-9a-f]+) sendbuff (\S+) recvbuff (\S+) "
    r"count (\d+) datatype (\d+) op (\d+) root (\d+) comm (\S+) \[nranks=(\d+)\] stream (\S+)"
)
"""Takes a call's line apart, as whoever wants to compare calls has to."""
LIGHT = r"NCCL INFO (\w+): opCount (\w+)"
"""Finds a call's line, which tells nothing yet."""
RUN_BARE_LOOP = """
import re, sys
find = getattr(re.compile(sys.argv[1]), sys.argv[2])
lines = found = 0
for path in sys.argv[3:]:
    with open(path, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            lines += 1
            if find(line):
                found += 1
print(lines, found)
"""
RANKS, CALLS = 64, 20_000
GROWTH = ((8, 100_000), (64, 12_500), (512, 1_500), (4096, 150), (512, 0), (16_384, 0))
"""Ranks, and calls of each; the largest job has init lines only, which cost more than calls do."""
DUMPS = ((8, 2000), (1024, 2000))
"""Ranks, and entries of each dump."""
SMALL_CASE = ANALYZER.parent / "fixtures/collective-op-mismatch-01-ag-rs-2289/logs"
_FULL_LOOP = "a bare loop, one regular expression with all fields"
_LIGHT_LOOP = "a bare loop, one that only finds calls"


def bare_loop(pattern: str, method: str, files: Sequence[Path]) -> list[str]:
    """A loop over all lines on one core that tries one compiled regular expression on each."""
    return [sys.executable, "-c", RUN_BARE_LOOP, pattern, method, *map(str, files)]


_AGAINST_LOOP = (ratio(WALL, "time"), ratio(CPU, "CPU"), WALL, CPU, PEAK)
JOB = Table(
    f"NCCL logs of {RANKS} ranks with {CALLS:,} calls each, ratios to the bare loop",
    "",
    ((_FULL_LOOP, 0), (_LIGHT_LOOP, 0), ("**hangscope**", 0), ("hangscope --jobs 1", 0), ("lnav", 0), ("xcl-lens", 0)),
    _AGAINST_LOOP,
    "finds",
)
ONE_FILE = Table(
    f"The same with the lines of all ranks in one file ({RANKS} ranks by turns), ratios to the bare loop",
    "",
    ((_FULL_LOOP, 0), ("hangscope --jobs 1", 0), ("hangscope --jobs 2", 0)),
    _AGAINST_LOOP,
    "finds",
)
GROWING = Table(
    "Growth with the number of ranks, ratios to the smallest job with such lines",
    "ranks",
    tuple((f"{ranks:,}", 0) if calls else (f"{ranks:,}, init lines only", 4) for ranks, calls in GROWTH),
    (ratio(PER_MILLION, "CPU a line"), PER_MILLION, WALL, PEAK),
)
RECORDERS = Table(
    f"Flight-recorder dumps of {DUMPS[0][1]:,} entries, ratios to hangscope",
    "",
    tuple(
        (f"{name}, {ranks:,} ranks", 2 * number)
        for number, (ranks, _) in enumerate(DUMPS)
        for name in ("hangscope", "torchfrtrace")
    ),
    (ratio(WALL, "time"), ratio(CPU, "CPU"), ratio(PEAK, "memory"), WALL, CPU, PEAK),
    "finds",
)
STARTS = {
    "python -c pass": ("python",),
    "hangscope --help": ("--help",),
    "hangscope explain": ("explain", "collective-skipped"),
    "hangscope rules": ("rules",),
    "hangscope analyze, a case of 6 files": ("analyze", str(SMALL_CASE)),
}
START = Table(
    "Start-up, ratios to Python's own",
    "",
    tuple((label, 0) for label in STARTS),
    (ratio(CPU, "CPU"), CPU, WALL),
)
TABLES = (JOB, ONE_FILE, GROWING, RECORDERS, START)


@dataclass(frozen=True, slots=True)
class Plan:
    """Runs everything, and gives the rows of each table in turn.

    Attributes:
        folder: where the jobs are written; each is removed when it is measured.
        programs: name of a peer -> where it is.
        scale: what part of each job's calls and entries is written; less than 1 only for a try.
        say: told what is being done.
    """

    folder: Path
    programs: Mapping[str, str]
    scale: float
    say: Callable[[str], None]

    def run(self) -> Iterator[tuple[Table, list[Row]]]:
        """Each table with its rows."""
        self.say("start-up")
        yield START, list(self._starts())
        job = self.folder / "job"
        self.say("writing the logs")
        culprit = (logs.write_job(job, RANKS, self._scaled(CALLS)),)
        yield JOB, list(self._job(job, culprit))
        joined = logs.interleave(job, self.folder / "all-ranks.log")
        shutil.rmtree(job)
        yield ONE_FILE, list(self._one_file(joined, culprit))
        joined.unlink()
        yield GROWING, list(self._growth())
        yield RECORDERS, list(self._recorders())

    def _scaled(self, number: int) -> int:
        return max(2, int(number * self.scale)) if number else 0

    def _starts(self) -> Iterator[Row]:
        commands = [
            [sys.executable, "-c", "pass"] if arguments == ("python",) else hangscope(*arguments)
            for arguments in STARTS.values()
        ]
        best_of(1, *commands)  # writes Python's bytecode, as any first run does
        runs = [[measure(command) for command in commands] for _ in range(5)]
        yield from (Row(min(costs, key=lambda cost: cost.cpu_s)) for costs in zip(*runs, strict=True))

    def _job(self, job: Path, culprits: peers.Culprits) -> Iterator[Row]:
        self.say("bare loops and hangscope over the logs")
        files = sorted(job.glob("*.log"))
        loops = [bare_loop(ALL_FIELDS, "match", files), bare_loop(LIGHT, "search", files)]
        ours = [peers.ours(job), peers.ours(job, "--jobs", "1")]
        measure(loops[1])  # into the page cache, so that all read from memory
        costs = best_of(3, *loops, *(peer.command for peer in ours))
        yield from (Row(cost, found="nothing") for cost in costs[:2])
        yield from _rows(costs[2:], ours, culprits)
        self.say("lnav and xcl-lens over the logs")
        joined = logs.join(job, self.folder / "joined.log")
        others = [peers.lnav(self.programs["lnav"], joined), peers.xcl_lens(self.programs["xcl-lens"], joined)]
        yield from _rows([measure(peer.command) for peer in others], others, culprits)
        joined.unlink()

    def _one_file(self, joined: Path, culprits: peers.Culprits) -> Iterator[Row]:
        self.say("bare loop and hangscope over one file")
        ours = [peers.ours(joined, "--jobs", jobs) for jobs in ("1", "2")]
        loop, *costs = best_of(2, bare_loop(ALL_FIELDS, "match", [joined]), *(peer.command for peer in ours))
        yield Row(loop, found="nothing")
        yield from _rows(costs, ours, culprits)

    def _growth(self) -> Iterator[Row]:
        for ranks, calls in GROWTH:
            self.say(f"hangscope over the logs of {ranks:,} ranks")
            job = self.folder / f"{ranks}-{calls}"
            logs.write_job(job, ranks, self._scaled(calls))
            lines = sum(path.read_bytes().count(b"\n") for path in job.iterdir())
            yield Row(self._analyze(job), lines)
            shutil.rmtree(job)

    def _analyze(self, evidence: Path) -> Cost:
        return measure(peers.ours(evidence).command)

    def _recorders(self) -> Iterator[Row]:
        for ranks, entries in DUMPS:
            self.say(f"hangscope and torchfrtrace over the dumps of {ranks:,} ranks")
            folder = self.folder / f"dumps{ranks}"
            culprits = write_recorders(folder, ranks, self._scaled(entries))
            for path in folder.iterdir():
                path.read_bytes()
            repeat = 3 if ranks < 100 else 1
            readers = [peers.ours(folder), peers.torchfrtrace(self.programs["torchfrtrace"], folder)]
            costs = best_of(repeat, *(peer.command for peer in readers))
            yield from _rows(costs, readers, culprits)
            shutil.rmtree(folder)


def _rows(costs: Sequence[Cost], readers: Sequence[peers.Peer], culprits: peers.Culprits) -> Iterator[Row]:
    for cost, reader in zip(costs, readers, strict=True):
        yield Row(cost, found=reader.found(cost.output, culprits))


def machine(programs: Mapping[str, str]) -> str:
    """What the figures were measured with."""
    versions = [peers.version_of(name, programs[name]) for name in sorted(programs)]
    return (
        f"Measured on {os.cpu_count()} cores with Python {platform.python_version()}, beside {', '.join(versions)}; "
        "memory is that of all processes together. Ratios hold on other machines, seconds do not."
    )
