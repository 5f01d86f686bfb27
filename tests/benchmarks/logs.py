"""Writes the NCCL logs of an imagined job: formats of NCCL 2.21 and torch 2.5, content made up."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

GPUS_PER_HOST = 8
OPS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast")
_TURN = 64 * 1024
"""Bytes that a rank writes before the next one does, about a pipe's buffer."""


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


def write_job(folder: Path, ranks: int, colls: int, seed: int = 1) -> int:
    """Writes one log a rank; returns the rank that does not make the last call. Without calls it is all init lines."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)  # noqa: S311  (made-up logs, no secret)
    culprit = 1 + int(rng.random() * (ranks - 1))
    calls = training_loop(colls, rng)
    ids = {name: f"0x{rng.getrandbits(63):016x}" for name in ["world", *(f"tp{i}" for i in range(ranks))]}
    ids |= {f"dp{i}": f"0x{rng.getrandbits(63):016x}" for i in range(GPUS_PER_HOST)}
    for rank in range(ranks):
        mine = calls[:-1] if rank == culprit else calls
        lines = [*_init_lines(rank, ranks, ids), *_call_lines(rank, ranks, mine)]
        lines += _last_words(rank, culprit, calls) if calls else []
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


def interleave(folder: Path, joined: Path) -> Path:
    """Writes the logs of a folder into one file, some lines of each rank by turns, as one stream of all ranks is."""
    with ExitStack() as stack, joined.open("wb") as out:
        streams = [stack.enter_context(path.open("rb")) for path in sorted(folder.glob("*.log"))]
        while streams:
            streams = [stream for stream in streams if out.write(b"".join(stream.readlines(_TURN)))]
    return joined


def join(folder: Path, joined: Path) -> Path:
    """Writes the logs of a folder into one file, one behind the other."""
    with joined.open("wb") as out:
        for path in sorted(folder.glob("*.log")):
            out.write(path.read_bytes())
    return joined
