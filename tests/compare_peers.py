"""Measures hangscope beside other programs that read the same evidence, in one run, and says what each of them found.

    python tests/compare_peers.py [--ranks 64] [--entries 2000] [--colls 2000] [--repeat 2]
    python tests/compare_peers.py --recorders DIR --culprits 13 --logs DIR2 --log-culprits 55
    python tests/compare_peers.py --lnav /usr/bin/lnav --xcl-lens ~/xcl/bin/xcl-lens

Flight-recorder dumps are read by hangscope and by torchfrtrace (torch), NCCL logs by hangscope, lnav and xcl-lens. Each
is run as its users run it, `--repeat` times; the best run counts. CPU time includes child processes, memory is that of
the whole process tree; ratios are the peer's figure by hangscope's. A program that is not there is left out with a
line. Without --recorders and --logs, those of an imagined job are written first. Linux only.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark import RUN_HANGSCOPE, Cost, measure, write_job
from recorder_dumps import Dump, write

Culprits = tuple[int, ...]
"""The ranks at fault, as whoever made the evidence knows them; empty when nobody does."""
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


# --- what each of them found ---------------------------------------------------------------------------------


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


# --- running them --------------------------------------------------------------------------------------------


def compare(title: str, evidence: Path, peers: Sequence[Peer], culprits: Culprits, repeat: int) -> None:
    """Runs hangscope and its peers, and prints a table."""
    files = [path for path in evidence.rglob("*") if path.is_file()]
    for path in files:
        path.read_bytes()  # into the page cache, so that all read from memory
    print(f"\n{title}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:,.1f} MB")
    print(f"{'':13} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}   {'ratios: wall':>12} {'CPU':>6} {'memory':>7}   found")
    ours = Peer(
        "hangscope",
        [sys.executable, "-c", RUN_HANGSCOPE, "analyze", str(evidence), "--format", "json"],
        found_by_hangscope,
    )
    base: Cost | None = None
    for peer in (ours, *peers):
        cost = min((measure(_whatever_status(peer)) for _ in range(repeat)), key=lambda one: one.wall_s)
        base = base or cost
        figures = f"{cost.wall_s:8.2f} {cost.cpu_s:8.2f} {cost.peak_bytes / 1e6:8.0f}"
        memory = cost.peak_bytes / base.peak_bytes
        ratios = f"{cost.wall_s / base.wall_s:12.2f} {cost.cpu_s / base.cpu_s:6.2f} {memory:7.2f}"
        print(f"{peer.name:13} {figures}   {ratios}   {peer.found(cost.output, culprits)}")


def _whatever_status(peer: Peer) -> list[str]:
    """The command in a shell that takes what it complains of for output, and any exit status for success."""
    merged = "2>&1" if peer.name != "hangscope" else ""
    return ["sh", "-c", f'"$@" {merged}; exit 0', "sh", *peer.command]


def find(name: str, given: Path | None) -> str | None:
    """The program: the one given, else beside this Python, else on the path. Says so when there is none."""
    beside = Path(sys.executable).with_name(name)
    found = str(given) if given is not None else str(beside) if beside.exists() else shutil.which(name)
    if found is None or not Path(found).exists():
        print(f"{name} is left out: it is not installed (--{name} names another place)")
        return None
    return found


def peers_of_recorders(folder: Path, torchfrtrace: str | None) -> list[Peer]:
    """Those that read flight-recorder dumps."""
    if torchfrtrace is None:
        return []
    return [Peer("torchfrtrace", [torchfrtrace, str(folder)], found_by_torchfrtrace)]


def peers_of_logs(folder: Path, joined: Path, lnav: str | None, xcl_lens: str | None) -> list[Peer]:
    """Those that read NCCL logs. They are given the logs of all ranks in one file.

    Of several files without times lnav 0.11 shows one; xcl-lens 0.3 takes several files of one communicator only.
    """
    with joined.open("wb") as stream:
        for path in sorted(folder.rglob("*.log")):
            stream.write(path.read_bytes())
    peers = []
    if lnav is not None:
        peers.append(Peer("lnav", [lnav, "-n", "-c", f":filter-in {_COMPLAINTS}", str(joined)], found_by_lnav))
    if xcl_lens is not None:
        peers.append(Peer("xcl-lens", [xcl_lens, "--summary", str(joined)], found_by_xcl_lens))
    return peers


# --- the evidence --------------------------------------------------------------------------------------------


def write_recorders(folder: Path, ranks: int, entries: int) -> Culprits:
    """Dumps of a job in which one rank makes all calls but the last."""
    culprit = ranks // 3 + 1
    dumps = []
    for rank in range(ranks):
        dump = Dump(rank, {"0": ("default_pg", range(ranks))})
        for number in range(entries - 1):
            dump.call(size=64 + number % 5, line=10 + number % 7)
        dumps.append(dump if rank == culprit else dump.wait(size=4096))
    write(folder, dumps)
    return (culprit,)


def _ranks(text: str) -> Culprits:
    return tuple(sorted(int(rank) for rank in text.split(",")))


def _known(folder: Path, given: Culprits) -> Culprits:
    """The ranks at fault: those given, else those of a truth.json in the folder or beside it."""
    for truth in (folder / "truth.json", folder.with_name(f"{folder.name}.truth.json")):
        if not given and truth.is_file():
            said = json.loads(truth.read_text(encoding="utf-8"))
            given = tuple(sorted(said.get("culprits") or said.get("culprit_ranks") or ()))
    return given


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--entries", type=int, default=2000, help="entries of a dump")
    parser.add_argument("--colls", type=int, default=2000, help="collective calls of a log")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each; the best counts")
    parser.add_argument("--recorders", type=Path, metavar="DIR", help="dumps to measure on")
    parser.add_argument("--culprits", type=_ranks, default=(), metavar="RANKS", help="ranks at fault in the dumps")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="NCCL logs to measure on")
    parser.add_argument("--log-culprits", type=_ranks, default=(), metavar="RANKS", help="ranks at fault in the logs")
    for name in ("torchfrtrace", "lnav", "xcl-lens"):
        parser.add_argument(f"--{name}", type=Path, metavar="PROGRAM", help="where it is, if not on the path")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        recorders, logs = Path(temporary) / "recorders", Path(temporary) / "logs"
        if options.recorders:
            recorders, culprits = options.recorders, _known(options.recorders, options.culprits)
        else:
            culprits = write_recorders(recorders, options.ranks, options.entries)
        if options.logs:
            logs, log_culprits = options.logs, _known(options.logs, options.log_culprits)
        else:
            logs.mkdir()
            log_culprits = (write_job(logs, options.ranks, options.colls, seed=1),)
        torchfrtrace = find("torchfrtrace", options.torchfrtrace)
        lnav, xcl_lens = find("lnav", options.lnav), find("xcl-lens", options.xcl_lens)
        compare("flight recorders", recorders, peers_of_recorders(recorders, torchfrtrace), culprits, options.repeat)
        joined = Path(temporary) / "all-ranks.log"
        compare("NCCL logs", logs, peers_of_logs(logs, joined, lnav, xcl_lens), log_culprits, options.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
