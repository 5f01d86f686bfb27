"""Measures what a command costs: time, CPU time and memory of its whole process tree. Linux only."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ANALYZER = Path(__file__).resolve().parent.parent.parent / "analyzer"

RUN_HANGSCOPE = "import sys; from hangscope.cli.main import main; sys.exit(main(sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process and its children used."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    output: str


def hangscope(*arguments: str) -> list[str]:
    """The command that runs this checkout's hangscope."""
    return [sys.executable, "-c", RUN_HANGSCOPE, *arguments]


def best_of(repeat: int, *commands: Sequence[str]) -> list[Cost]:
    """The fastest run of each command; they take turns, so that what else the machine does hits all of them."""
    runs = [[measure(command) for command in commands] for _ in range(repeat)]
    return [min(costs, key=lambda cost: cost.wall_s) for costs in zip(*runs, strict=True)]


def measure(command: Sequence[str]) -> Cost:
    """Runs the command; CPU time includes its children's, memory is that of the whole process tree."""
    environment = os.environ | {"PYTHONPATH": str(ANALYZER)}
    # without bytecode on disk every start would compile the program anew, which no user's does
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        started = time.monotonic()
        process = subprocess.Popen(list(command), stdout=output, env=environment)
        sampler = _MemorySampler(process.pid)
        sampler.start()
        # wait4 tells the CPU time of this process tree alone; getrusage would add those measured before
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        sampler.stop()
        output.seek(0)
        text = output.read()
    if process.returncode != 0:
        raise SystemExit(f"{command[:3]} gave exit status {process.returncode}")
    # Linux counts the memory of who starts a process as its own up to the exec: less than ours tells nothing
    largest = usage.ru_maxrss if usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss else 0
    peak = max(sampler.peak_bytes, largest * 1024)
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, peak, text)


def memory_of_tree(pid: int) -> int:
    """Bytes that a process and all below it use now; pages shared after a fork count once (PSS)."""
    return sum(_pss(process) for process in _tree(pid))


class _MemorySampler(threading.Thread):
    """Samples the memory of a process tree."""

    def __init__(self, pid: int, interval_s: float = 0.1) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._pid = pid
        self._interval_s = interval_s
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(self._interval_s):
            self.peak_bytes = max(self.peak_bytes, memory_of_tree(self._pid))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _tree(pid: int) -> list[int]:
    found = [pid]
    for process in found:
        try:
            children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
        except OSError:  # ended since
            continue
        found += [int(child) for child in children.split()]
    return found


def _pss(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:  # ended since
        return 0
    size = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    return int(size[1]) * 1024 if size else 0
