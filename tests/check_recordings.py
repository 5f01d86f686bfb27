"""Runs a generator of flight-recorder dumps over its faults and options, and says how often hangscope is right.

    python tests/check_recordings.py GENERATOR [--most-ranks 64] [--only FAULT] [--every N] [--min-right SHARE]

The generator is called as ``GENERATOR OUT --ranks N --layout L --fault F ...`` and writes the truth beside OUT.
No test of the suite: all of it takes minutes. Exit status 1 when less than SHARE of the sets is right or cannot be
told.

Some faults leave the very same dumps as others. Where the answer is not that of the truth, the other faults are made
as well, and when the dumps of one that the answer fits are the same byte for byte, the set counts as one that nothing
can tell; so does one whose answer names a range of equal calls with the right one in it. Both are printed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hangscope.api import analyze
from hangscope.model import Report

CAUSES = {
    "none": ("no-fault-found",),
    "missing": ("collective-skipped",),
    "skip": ("collective-skipped",),
    "mismatch-op": ("collective-op-mismatch",),
    "mismatch-size": ("collective-shape-mismatch",),
    "mismatch-dtype": ("collective-shape-mismatch",),
    "crashed": ("rank-vanished",),
    "order": ("group-order-deadlock",),
    "p2p-unmatched": ("p2p-unmatched",),
    "kernel-hang": ("gpu-kernel-hang",),
    "exited-early": ("exited-early",),
}
P2P = ("send", "recv", "coalesced")
LAYOUTS = ("ddp", "tpdp", "3d")
EQUAL_CALLS = re.compile(r"equal calls (\d+) to (\d+) was left out cannot be told")
SMALL = ["--layers", "2", "--micro", "3", "--buckets", "4", "--entries", "400"]


@dataclass(frozen=True)
class Run:
    """One set of dumps: arguments of the generator, and whether the files are spread over folders of hosts."""

    ranks: int
    layout: str
    fault: str
    options: tuple[str, ...] = ()
    hosts: bool = False

    def arguments(self) -> list[str]:
        return ["--ranks", str(self.ranks), "--layout", self.layout, "--fault", self.fault, *self.options]

    def __str__(self) -> str:
        return " ".join(self.arguments()) + (" (hosts)" if self.hosts else "")


def runs(most_ranks: int, only: str | None) -> Iterator[Run]:
    """Every fault in every layout and size, then every option on a job of 16 ranks."""
    faults = [fault for fault in CAUSES if only in (None, fault)]
    sizes = [size for size in (8, 16, 64, 256, 1024) if size <= most_ranks]
    for ranks, layout, fault in itertools.product(sizes, LAYOUTS, faults):
        options = () if ranks >= 1024 else tuple(SMALL)
        yield Run(ranks, layout, fault, options)
    for layout, fault in itertools.product(LAYOUTS, faults):
        for extra in extras(fault):
            yield Run(16, layout, fault, (*SMALL, *extra))
        yield Run(16, layout, fault, tuple(SMALL), hosts=True)


def extras(fault: str) -> Iterator[tuple[str, ...]]:
    yield from ((), ("--timing",), ("--json",), ("--from-start",), ("--p2p-seq", "old"), ("--aux", "3"))
    yield from (("--backend", "xccl"), ("--prefix", "comm_lib_trace_rank_"), ("--prefix", "_dump_"), ("--frames", "4"))
    yield ("--no-dump", "2", "9")
    if fault == "none":
        return
    for where in ("first", "mid", "last"):
        yield ("--where", where)
        for group in ("world", "tp", "pp", "dp"):
            yield ("--where", where, "--fault-group", group)
    for culprit in ("0", "7", "15"):
        yield ("--culprit", culprit)


def make(generator: Path, run: Run, folder: Path) -> dict[str, Any] | None:
    """The truth about a set that was made; None when the generator refuses the combination."""
    done = subprocess.run(
        [sys.executable, str(generator), str(folder), *run.arguments()], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None
    truth: dict[str, Any] = json.loads(folder.with_name(folder.name + ".truth.json").read_text())
    if run.hosts:
        files = sorted(folder.iterdir())
        files.sort(key=lambda file: zlib.crc32(file.name.encode()))  # any other order than that of the ranks
        for number, file in enumerate(files):
            host = folder / f"node{number % 3:02d}"
            host.mkdir(exist_ok=True)
            file.rename(host / file.name)
    return truth


def judge(report: Report, truth: dict[str, Any]) -> list[str]:
    """What is wrong about a report."""
    verdict, wrong = report.verdict, []
    causes: tuple[str, ...] = CAUSES[truth["fault"]]
    if truth["fault"] in ("skip", "missing") and truth.get("op") in P2P:
        causes = (*causes, "p2p-unmatched")  # a send that was left out is a receive without its other half
    if verdict.cause not in causes:
        wrong.append(f"cause {verdict.cause}")
    if truth["fault"] == "none":
        return wrong
    if list(verdict.ranks) != truth["culprits"]:
        wrong.append(f"ranks {list(verdict.ranks)[:6]} not {truth['culprits']}")
    call = report.collectives[0] if report.collectives else None
    if call is None:
        return [*wrong, "no stuck call"]
    if call.group != truth["group"]:
        wrong.append(f"group {call.group} not {truth['group']}")
    if truth.get("collective_seq_id") not in (None, call.seq):
        wrong.append(f"seq {call.seq} not {truth['collective_seq_id']}")
    if "site" in truth and truth["no_frames"] is False:
        name, file, line = truth["site"]
        if call.where != f"{file}:{line} {name}":
            wrong.append(f"where {call.where} not {line}")
    return wrong


def untold(generator: Path, run: Run, folder: Path, truth: dict[str, Any], report: Report) -> str | None:
    """Why the dumps cannot tell the truth from the answer; None when they could have."""
    told = EQUAL_CALLS.search(report.verdict.explanation)
    if told and int(told[1]) <= truth.get("collective_seq_id", -1) <= int(told[2]):
        return f"one of the equal calls {told[1]} to {told[2]}"
    for twin in twins(run, report):
        other = folder.with_name(folder.name + "-twin")
        try:
            said = make(generator, twin, other)
            if said is None or not _same(folder, other):
                continue
            said["no_frames"] = False
            among = said["culprits"] and {*said["culprits"], *truth["culprits"]} <= set(report.verdict.ranks)
            wrong = [text for text in judge(report, said) if not (among and text.startswith("ranks"))]
            if not wrong:
                return f"the dumps are those of {twin}"
        finally:
            shutil.rmtree(other, ignore_errors=True)
    return None


def twins(run: Run, report: Report) -> Iterator[Run]:
    """Runs of other faults that the answer would fit."""
    options = list(run.options)
    absent: list[str] = []
    for name in ("--where", "--fault-group", "--culprit"):
        if name in options:
            at = options.index(name)
            del options[at : at + 2]
    if "--no-dump" in options:
        at = options.index("--no-dump")
        absent = options[at + 1 :]  # stands last
        del options[at:]
    ranks = report.verdict.ranks[:1] or (0,)
    for fault in (name for name, causes in CAUSES.items() if report.verdict.cause in causes):
        gone = [rank for rank in absent if rank != str(ranks[0])] if fault == "crashed" else absent
        if fault == "crashed" and run.fault == "crashed":
            gone = [*gone, *(str(rank) for rank in report.verdict.ranks[1:] if str(rank) not in gone)]
        rest = ("--no-dump", *gone) if gone else ()
        for where, group in itertools.product(("first", "mid", "last"), ("world", "tp", "pp", "dp")):
            place = ("--where", where, "--fault-group", group)
            for culprit in ((), ("--culprit", str(ranks[0]))):
                yield Run(run.ranks, run.layout, fault, (*options, *place, *culprit, *rest))


def _same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files."""
    names = sorted(file.name for file in one.iterdir())
    if names != sorted(file.name for file in other.iterdir()):
        return False
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("generator", type=Path)
    parser.add_argument("--most-ranks", type=int, default=64)
    parser.add_argument("--only")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one set of N only, of each fault some")
    parser.add_argument("--min-right", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--keep", type=Path, help="folder for the sets that went wrong")
    options = parser.parse_args()
    right, total, alike = Counter[str](), Counter[str](), Counter[str]()
    complaints: dict[str, list[str]] = defaultdict(list)
    root = Path(tempfile.mkdtemp(prefix="recordings"))
    sets = list(dict.fromkeys(runs(options.most_ranks, options.only)))
    for number, run in enumerate(sets[:: options.every]):
        folder = root / f"set{number}"
        truth = make(options.generator, run, folder)
        if truth is None or (run.fault != "none" and truth.get("waiting_ranks") == 0):
            # refused, or the fault does no harm: everything completed
            shutil.rmtree(folder, ignore_errors=True)
            continue
        truth["no_frames"] = False
        started = time.process_time()
        report = analyze(folder)
        wrong = judge(report, truth)
        spent = time.process_time() - started
        total[run.fault] += 1
        right[run.fault] += not wrong
        if wrong:
            reason = untold(options.generator, run, folder, truth, report)
            alike[run.fault] += reason is not None
            complaints[run.fault].append(f"{run}: {'; '.join(wrong)}" + (f" ({reason})" if reason else ""))
            if options.keep is not None:
                shutil.copytree(folder, options.keep / f"{run.fault}-{number}", dirs_exist_ok=True)
        if spent > 5:
            print(f"{run}: {spent:.1f} s")
        shutil.rmtree(folder)
    shutil.rmtree(root, ignore_errors=True)
    for fault in CAUSES:
        if total[fault]:
            print(f"{fault:16} {right[fault]:4} of {total[fault]}, {alike[fault]} cannot be told")
        for text in complaints[fault]:
            print(f"    {text}")
    share = (right.total() + alike.total()) / max(total.total(), 1)
    alright = f"{right.total():4} of {total.total()}, {alike.total()} cannot be told"
    print(f"{'all':16} {alright} (the rest, wrong: {1 - share:.1%})")
    return int(share < options.min_right)


if __name__ == "__main__":
    sys.exit(main())
