"""Other programs that read the same evidence: how they are run, and what each of them finds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import hangscope

Culprits = tuple[int, ...]
"""The ranks at fault, as whoever made the evidence knows them; empty when nobody does."""
PROGRAMS = ("torchfrtrace", "lnav", "xcl-lens")
_COMPLAINTS = "WARN|Watchdog caught|rror|Exception"
"""What somebody who reads logs with lnav looks for first."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program to run.

    Attributes:
        name: how the table calls it.
        command: what to run.
        found: says what its output tells, given the ranks at fault.
    """

    name: str
    command: Sequence[str]
    found: Callable[[str, Culprits], str]


def _right(named: Sequence[int], culprits: Culprits) -> str:
    if not culprits:
        return "nobody knows whether that is right"
    return "right" if tuple(sorted(named)) == culprits else f"wrong, it is {', '.join(map(str, culprits))}"


def found_by_hangscope(output: str, culprits: Culprits) -> str:
    """The verdict of the JSON report."""
    verdict = json.loads(output)["verdict"]
    ranks = [int(rank) for rank in verdict["ranks"]]
    return f"{verdict['cause']}, ranks {ranks}: {_right(ranks, culprits)}"


def found_by_torchfrtrace(output: str, culprits: Culprits) -> str:
    """The ranks that it names as missing; it prints the mismatches of each group, the earliest one first."""
    named = {
        tuple(sorted(map(int, re.findall(r"\d+", ranks)))) for ranks in re.findall(r"missing ranks: \{(.*?)\}", output)
    }
    if not named:
        return f"names no missing rank: {_last_line(output)}"
    if len(named) > 1:
        right = culprits in named
        return f"names {len(named)} sets of missing ranks, {'the right one' if right else 'none of them right'}"
    (ranks,) = named
    return f"missing ranks {list(ranks)}: {_right(ranks, culprits)}"


def found_by_lnav(output: str, culprits: Culprits) -> str:
    """How many lines are left to read; it draws no conclusion."""
    lines = output.splitlines()
    of_culprit = sum(any(re.match(rf"\[rank{rank}\]:", line) for rank in culprits) for line in lines)
    return f"names no cause; {len(lines)} lines to read, {of_culprit} of the rank at fault"


def found_by_xcl_lens(output: str, _: Culprits) -> str:
    """It describes communicators and transports, and draws no conclusion."""
    error = re.search(r"^Error: .*", output, re.MULTILINE)
    if error is not None:
        return f"refused: {error[0].removeprefix('Error: ')}"
    empty = output.count("(No data found)")
    return f"names no cause; a report of {output.count('===>')} sections, {empty} of them empty"


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or ["no output"])[-1][:100]


def find(name: str, given: Path | None) -> str | None:
    """The program: the one given, else beside this Python, else on the path; None when it is not there."""
    beside = Path(sys.executable).with_name(name)
    found = str(given) if given is not None else str(beside) if beside.exists() else shutil.which(name)
    return found if found is not None and Path(found).exists() else None


def version_of(name: str, program: str) -> str:
    """What it calls its version; torchfrtrace has that of torch."""
    command = [program, "--version"]
    if name == "torchfrtrace":
        command = [sys.executable, "-c", "import torch; print(torch.__version__)"]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    number = re.search(r"\d[\w.+]*", printed)
    return f"{'torch' if name == 'torchfrtrace' else name} {number[0]}" if number else name


def ours(evidence: Path, *options: str) -> Peer:
    """hangscope itself."""
    return Peer("hangscope", hangscope("analyze", str(evidence), "--format", "json", *options), found_by_hangscope)


def torchfrtrace(program: str, folder: Path) -> Peer:
    """PyTorch's own reader of flight-recorder dumps."""
    return Peer("torchfrtrace", _all_it_says([program, str(folder)]), found_by_torchfrtrace)


def lnav(program: str, joined: Path) -> Peer:
    """A reader of logs, asked for the lines that complain.

    It gets all ranks in one file: of several files without times, lnav 0.11 shows one. NCCL's lines have no times, so
    they are plain text to it, which no SQL can be asked about.
    """
    return Peer("lnav", _all_it_says([program, "-n", "-c", f":filter-in {_COMPLAINTS}", str(joined)]), found_by_lnav)


def xcl_lens(program: str, joined: Path) -> Peer:
    """A reader of NCCL logs. It gets all ranks in one file: xcl-lens 0.3 takes several of one communicator only."""
    return Peer("xcl-lens", _all_it_says([program, "--summary", str(joined)]), found_by_xcl_lens)


def _all_it_says(command: Sequence[str]) -> list[str]:
    """The command in a shell that takes complaints for output, and any exit status for success."""
    return ["sh", "-c", '"$@" 2>&1; exit 0', "sh", *command]
