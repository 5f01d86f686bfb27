"""Measures how fast `hangscope analyze` reads big NCCL logs, against a bare loop over the same lines.

    python tests/benchmark.py [--ranks 64] [--colls 20000] [--jobs N] [--max-ratio R] [--keep DIR]
    python tests/benchmark.py --logs DIR

Without --logs the logs of an imagined job are written first (NCCL 2.21 and torch 2.5 formats, content made up): one
rank never makes the last all_reduce of the default group. The bare loop reads the same files as text on one core and
matches one compiled regular expression on each line. Ratios are hangscope's time by the loop's. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ANALYZER = Path(__file__).resolve().parent.parent / "analyzer"
GPUS_PER_HOST = 8
OPS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast")

RUN_HANGSCOPE = "import sys; from hangscope.cli.main import main; sys.exit(main(sys.argv[1:]))"

BARE_PATTERN = (
    r"(\S+?):(\d+):(\d+) \[(\d+)\] NCCL INFO (\w+): opCount ([0-9a-f]+) sendbuff (\S+) recvbuff (\S+) "
    r"count (\d+) datatype (\d+) op (\d+) root (\d+) comm (\S+) \[nranks=(\d+)\] stream (\S+)"
)
RUN_BARE_LOOP = """
import re, sys
match = re.compile(sys.argv[1]).match
lines = matched = 0
for path in sys.argv[2:]:
    with open(path, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            lines += 1
            if match(line):
                matched += 1
print(lines, matched)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process and its children used."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    output: str


# --- the logs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """One collective call of the imagined training loop, the same on every member of its group."""

    group: str
    op: str
    count: int
    number: int  # calls made before it in this group


def training_loop(colls: int, rng: random.Random) -> list[Call]:
    """Calls of tensor-parallel, data-parallel and default group; the last one is the one that hangs."""
    made = {"world": 0, "tp": 0, "dp": 0}
    calls = []
    for index in range(colls):
        group = "world" if index % 10 == 9 or index == colls - 1 else "dp" if index % 3 == 2 else "tp"
        op = "AllReduce" if index == colls - 1 else OPS[int(rng.random() * len(OPS))]
        calls.append(Call(group, op, 1024 << int(rng.random() * 16), made[group]))
        made[group] += 1
    return calls


def write_job(folder: Path, ranks: int, colls: int, seed: int) -> int:
    """Writes one log a rank; returns the rank that does not make the last call."""
    rng = random.Random(seed)  # noqa: S311  (made-up logs, no secret)
    culprit = 1 + int(rng.random() * (ranks - 1))
    calls = training_loop(colls, rng)
    ids = {name: f"0x{rng.getrandbits(63):016x}" for name in ["world", *(f"tp{i}" for i in range(ranks))]}
    ids |= {f"dp{i}": f"0x{rng.getrandbits(63):016x}" for i in range(GPUS_PER_HOST)}
    for rank in range(ranks):
        mine = calls[:-1] if rank == culprit else calls
        lines = [*_init_lines(rank, ranks, ids), *_call_lines(rank, ranks, mine), *_last_words(rank, culprit, calls)]
        (folder / f"rank{rank:05d}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return culprit


def _groups(rank: int, ranks: int) -> dict[str, tuple[str, int, int]]:
    """Group of each kind: key of its id, rank in it, size."""
    tensor = min(GPUS_PER_HOST, ranks)
    return {
        "world": ("world", rank, ranks),
        "tp": (f"tp{rank // tensor}", rank % tensor, tensor),
        "dp": (f"dp{rank % tensor}", rank // tensor, max(1, ranks // tensor)),
    }


def _head(rank: int) -> str:
    host, device, pid = rank // GPUS_PER_HOST, rank % GPUS_PER_HOST, 31000 + rank
    return f"gpu{host:03d}:{pid}:{pid + 400} [{device}] NCCL INFO "


def _comm(rank: int, kind: str) -> str:
    return f"0x{0x55D0_0000_0000 + rank * 0x40_0000 + list(_groups(0, 8)).index(kind) * 0x8000:x}"


def _init_lines(rank: int, ranks: int, ids: dict[str, str]) -> list[str]:
    head, device = _head(rank), rank % GPUS_PER_HOST
    address = f"10.42.{rank // GPUS_PER_HOST // 200}.{rank // GPUS_PER_HOST % 200 + 1}"
    lines = [
        head + f"Bootstrap : Using eth0:{address}<0>",
        head + "NCCL version 2.21.5+cuda12.4",
        head + f"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:{address}<0>",
        head + "Using network IB",
    ]
    for kind, (key, group_rank, size) in _groups(rank, ranks).items():
        init = (
            f"ncclCommInitRank comm {_comm(rank, kind)} rank {group_rank} nranks {size} cudaDev {device} "
            f"nvmlDev {device} busId {device + 1}b000 commId {ids[key]}"
        )
        peers = f"{group_rank}[{device}] -> {(group_rank + 1) % size}[{device}]"
        lines += [
            head + f"{init} - Init START",
            *(f"{head}Channel {c:02d}/0 : {peers} [send] via NET/IB/{c % 2}/GDRDMA" for c in range(8)),
            head + "Connected all rings",
            head + "Connected all trees",
            head + f"{init} - Init COMPLETE",
        ]
    return lines


def _call_lines(rank: int, ranks: int, calls: list[Call]) -> list[str]:
    head, groups = _head(rank), _groups(rank, ranks)
    tails = {kind: f"comm {_comm(rank, kind)} [nranks={groups[kind][2]}] stream 0x55d0{rank:08x}" for kind in groups}
    return [
        f"{head}{call.op}: opCount {call.number:x} sendbuff 0x7f{rank:02x}{step * 512:08x} recvbuff "
        f"0x7f{rank:02x}{step * 512 + 256:08x} count {call.count} datatype 7 op 0 root 0 {tails[call.group]}"
        for step, call in enumerate(calls)
    ]


def _last_words(rank: int, culprit: int, calls: list[Call]) -> list[str]:
    """PyTorch's watchdog on those that wait; the dump signal on the one that is missing."""
    last = calls[-1]
    seq = last.number + 1
    head = f"[rank{rank}]:[E1129 10:4{rank % 3}:{rank % 60:02d}.{rank:09d} ProcessGroupNCCL.cpp"
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    if rank == culprit:
        signal = (
            f"Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the "
            f"debug info. Last enqueued NCCL work: {seq - 1}, last completed NCCL work: {seq - 1}."
        )
        return [f"{head}:1484] {group} {signal}"]
    timeout = (
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn={last.count}, "
        f"NumelOut={last.count}, Timeout(ms)=600000) ran for 600{rank % 1000:03d} milliseconds before timing out."
    )
    progress = (
        f"Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {seq}, "
        f"last completed NCCL work: {seq - 1}."
    )
    return [f"{head}:616] [Rank {rank}] {timeout}", f"{head}:1785] {group} {progress}"]


# --- measuring -----------------------------------------------------------------------------------------------


def measure(command: list[str]) -> Cost:
    """Runs the command; CPU time includes its children's, memory is that of the whole process tree."""
    environment = os.environ | {"PYTHONPATH": str(ANALYZER)}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output, env=environment)
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
    peak = max(sampler.peak_bytes, usage.ru_maxrss * 1024)
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, peak, text)


class _MemorySampler(threading.Thread):
    """Samples the memory of a process tree; pages shared after a fork count once (PSS)."""

    def __init__(self, pid: int, interval_s: float = 0.1) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._pid = pid
        self._interval_s = interval_s
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(self._interval_s):
            self.peak_bytes = max(self.peak_bytes, sum(_pss(pid) for pid in _tree(self._pid)))

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


def report(logs: Path, jobs: int | None, culprit: int | None) -> float:
    """Measures both, prints the figures, checks the verdict; returns the ratio of the wall times."""
    paths = sorted(logs.rglob("*.log"))
    size = sum(path.stat().st_size for path in paths)
    files = [str(path) for path in paths]
    # the first pass only fills the page cache, so that both read from memory
    measure([sys.executable, "-c", RUN_BARE_LOOP, BARE_PATTERN, *files])
    bare = measure([sys.executable, "-c", RUN_BARE_LOOP, BARE_PATTERN, *files])
    lines, matched = (int(number) for number in bare.output.split())
    options = ["--jobs", str(jobs)] if jobs else []
    ours = measure([sys.executable, "-c", RUN_HANGSCOPE, "analyze", str(logs), "--format", "json", *options])
    print(f"{len(files)} files, {lines:,} lines ({matched:,} calls), {size / 1e6:,.0f} MB, {os.cpu_count()} cores")
    print(f"{'':10} {'wall s':>8} {'CPU s':>8} {'lines/s':>11} {'MB/s':>7} {'peak MB':>8}")
    for name, cost in (("bare loop", bare), ("hangscope", ours)):
        print(
            f"{name:10} {cost.wall_s:8.2f} {cost.cpu_s:8.2f} {lines / cost.wall_s:11,.0f} "
            f"{size / 1e6 / cost.wall_s:7.1f} {cost.peak_bytes / 1e6:8.0f}"
        )
    ratio = ours.wall_s / bare.wall_s
    print(f"ratio: wall {ratio:.2f}, CPU {ours.cpu_s / bare.cpu_s:.2f}")
    verdict = json.loads(ours.output)["verdict"]
    print(f"verdict: {verdict['cause']}, ranks {verdict['ranks']}")
    if culprit is not None and (verdict["cause"], verdict["ranks"]) != ("collective-skipped", [culprit]):
        raise SystemExit(f"wrong verdict: rank {culprit} skipped a collective")
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--colls", type=int, default=20_000, help="collective calls a rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, help="passed on to hangscope")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="measure on these logs instead")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the logs there and leave them")
    parser.add_argument("--max-ratio", type=float, metavar="R", help="fail when hangscope takes longer than R loops")
    options = parser.parse_args()
    if options.logs:
        ratio = report(options.logs, options.jobs, culprit=None)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            logs = options.keep or Path(temporary)
            logs.mkdir(parents=True, exist_ok=True)
            culprit = write_job(logs, options.ranks, options.colls, options.seed)
            ratio = report(logs, options.jobs, culprit)
    if options.max_ratio is not None and ratio > options.max_ratio:
        print(f"slower than {options.max_ratio} bare loops", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
