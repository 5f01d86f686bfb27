"""Small logs of jobs with as many ranks as one likes, a sort of evidence each: for tests of what a rank costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ras_reports
from benchmarks import logs
from benchmarks.recorders import write_recorders
from nccl_logs import Rank
from stack_scenes import pyspy

Writer = Callable[[Path, int], object]
"""Writes the logs of so many ranks into a folder."""

_C10 = "[rank{rank}]:[E1129 10:41:{second:02d}.{rank:09d} ProcessGroupNCCL.cpp:{line}] "
_GROUP = "[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
_TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, "
    "Timeout(ms)=600000) ran for 600042 milliseconds before timing out."
)
_PROGRESS = (
    "Exception (either an error or timeout) detected by watchdog at work: 7, last enqueued NCCL work: 7, last "
    "completed NCCL work: 6."
)
_XIDS = ((74, "NVLink: fatal error detected on link 6"), (45, "Ch 00000010"), (154, "GPU recovery"))
_WAITS = (
    "wait (torch/distributed/distributed_c10d.py:2810) < all_reduce (torch/distributed/distributed_c10d.py:2806) "
    "< step (train.py:40) < main (train.py:80)"
)
_LOADS = "read (data.py:12) < __next__ (torch/utils/data/dataloader.py:701) < step (train.py:38) < main (train.py:80)"


def _write(folder: Path, files: dict[str, list[str]]) -> None:
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_ranks(folder: Path, ranks: list[Rank]) -> None:
    _write(folder, {f"rank{rank.rank}.log": rank.lines for rank in ranks})


def _init(folder: Path, ranks: int) -> None:
    logs.write_job(folder, ranks, colls=0)


def _calls(folder: Path, ranks: int) -> None:
    logs.write_job(folder, ranks, colls=12)


def _halves(folder: Path, ranks: int) -> None:
    """Half of the ranks call something else, and half of these leave the last call out."""
    made = [Rank(rank, ranks).init().call().call("AllGather" if rank % 2 else "AllReduce") for rank in range(ranks)]
    _write_ranks(folder, [rank if rank.rank % 4 else rank.call() for rank in made])


def _only_calls(folder: Path, ranks: int) -> None:
    """No init line tells of the communicators: one of all, and one of each eight."""
    made = [Rank(rank, ranks).call().call(comm=0x10, nranks=8).call() for rank in range(ranks)]
    _write_ranks(folder, made)


def _pipeline(folder: Path, ranks: int) -> None:
    """Each rank sends to the next one; the last waits for one message more."""
    made = []
    for rank in range(ranks):
        log = Rank(rank, ranks).init()
        for _ in range(3):
            log.call("Recv", root=rank - 1) if rank else log.call()
            log.call("Send", root=rank + 1) if rank < ranks - 1 else log.call("Recv", root=rank - 1)
        made.append(log)
    _write_ranks(folder, made)


def _chain(folder: Path, ranks: int) -> None:
    """Neighbours are a group, and each rank waits for the one before it."""
    made = []
    for rank in range(ranks):
        log = Rank(rank, ranks).init()
        if rank < ranks - 1:
            log.init(comm=0x20, rank=0, size=2, comm_id=1000 + rank + 1)
        if rank:
            log.init(comm=0x10, rank=1, size=2, comm_id=1000 + rank).call(comm=0x10, nranks=2)
        made.append(log)
    _write_ranks(folder, made)


def _timeouts(folder: Path, ranks: int) -> None:
    """Watchdogs, a traceback and an abort on each rank, and each host's table of failures, all in one file a host."""
    files: dict[str, list[str]] = {}
    for rank in range(ranks):
        lines = files.setdefault(f"node{rank // 8:03d}.log", [])
        head, group = _C10.format(rank=rank, second=rank % 60, line=607), _GROUP.format(rank=rank)
        lines += [
            f"{head}{group}{_TIMEOUT}",
            f"{head}{group}{_PROGRESS}",
            *(
                f"[rank{rank}]: {line}"
                for line in (
                    "Traceback (most recent call last):",
                    '  File "/workspace/train.py", line 80, in main',
                    "    loss.backward()",
                    f"ValueError: bad batch {rank}",
                )
            ),
            f"[rank{rank}]: terminate called after throwing an instance of 'std::runtime_error'",
        ]
    for number, said in enumerate(files.values()):
        said.extend(_failures(number, range(8 * number, min(8 * number + 8, ranks))))
    _write(folder, files)


def _failures(number: int, ranks: range) -> list[str]:
    """The table of torchrun's agent on one host."""
    lines = [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "============================================================",
        "train.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
    ]
    for place, rank in enumerate(ranks):
        lines += [
            f"[{place}]:" if place else "Root Cause (first observed failure):\n[0]:",
            "  time      : 2026-11-29_15:51:19",
            f"  host      : node{number:03d}",
            f"  rank      : {rank} (local_rank: {place})",
            f"  exitcode  : -6 (pid: {100 + place})",
            "  error_file: <N/A>",
            f"  traceback : Signal 6 (SIGABRT) received by PID {100 + place}",
        ]
    return lines


def _stacks(folder: Path, ranks: int) -> None:
    scene = {rank: _LOADS if rank % 4 == 3 else _WAITS for rank in range(ranks)}
    _write(folder, {name: text.splitlines() for name, text in pyspy(scene).items()})


def _recorders(folder: Path, ranks: int) -> None:
    write_recorders(folder, ranks, entries=20)


def _ras(folder: Path, ranks: int) -> None:
    """Every rank but each eighth answers."""
    there = [ras_reports.rank(rank, AllReduce=7 - rank % 2) for rank in range(ranks) if rank % 8]
    lost = [ras_reports.missing(rank) for rank in range(0, ranks, 8)]
    _write(folder, {"ras.json": ras_reports.report(ras_reports.comm(there, lost)).splitlines()})


def _kernels(folder: Path, ranks: int) -> None:
    """A driver error on each GPU, and what followed it."""
    files: dict[str, list[str]] = {}
    for rank in range(ranks):
        lines = files.setdefault(f"node{rank // 8:03d}/dmesg.log", [])
        for number, text in (
            (74, "NVLink: fatal error detected on link 6"),
            (45, "Ch 00000010"),
            (154, "GPU recovery"),
        ):
            lines.append(
                f"Nov 29 10:4{number % 10}:00 node{rank // 8:03d} kernel: NVRM: Xid (PCI:0000:{rank % 8:02x}:00): "
                f"{number}, pid={100 + rank}, name=python3, {text}"
            )
    _write(folder, files)


JOBS: dict[str, Writer] = {
    "init lines": _init,
    "calls": _calls,
    "calls that differ": _halves,
    "calls without init lines": _only_calls,
    "sends and receives": _pipeline,
    "groups that wait for each other": _chain,
    "timeouts, tracebacks and failure tables": _timeouts,
    "stack dumps": _stacks,
    "flight recorders": _recorders,
    "RAS report": _ras,
    "kernel logs": _kernels,
}
"""What the evidence is -> who writes it."""
