"""Makes collective-call lines of several ranks, with what launchers, collectors and log drivers put around them."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable

OPS = ("AllReduce", "AllGather", "Broadcast", "ReduceScatter", "Send", "Recv", "AlltoAll", "Signal")
START = dt.datetime(2026, 1, 1, 23, 59, 58, tzinfo=dt.UTC)


def call(number: int, rank: int, rng: random.Random) -> str:
    """A call of one rank, as all versions since 2.3.7 print it; two of eight ranks run on RCCL, which says more."""
    op = rng.choice(OPS)
    send = "(nil)" if op in {"Send", "Signal"} and rng.random() < 0.5 else f"0x7f{rng.randrange(16**6):06x}"
    task = f" task {number % 11} globalrank {rank}" if rank % 4 == 3 else ""
    return (
        f"host{rank // 4}:{100 + rank}:{120 + rank} [{rank % 4}] NCCL INFO {op}: opCount {number:x} sendbuff {send} "
        f"recvbuff 0x7f{rng.randrange(16**6):06x} count {rng.choice((1, 77, 4096))} datatype {rng.choice((7, 9))} "
        f"op {number % 2} root {rng.choice((0, rank))} comm 0x7f10{rank % 4}{rank // 4} [nranks=8] stream 0x55{task}"
    )


def _time(number: int, pattern: str) -> str:
    return (START + dt.timedelta(microseconds=number * 1713)).strftime(pattern)


def _docker(number: int, text: str, *, trim: bool) -> str:
    fraction = _time(number, ".%f") + "000"
    time = _time(number, "%Y-%m-%dT%H:%M:%S") + (fraction.rstrip("0").rstrip(".") if trim else fraction) + "Z"
    return json.dumps({"log": f"{text}\n", "stream": "stdout", "time": time})


Wrap = Callable[[int, int, str], str]
"""Given the number of a line, the rank that wrote it, and the line."""
WRAPS: dict[str, Wrap] = {
    "nothing": lambda _number, _rank, text: text,
    "srun -l": lambda _number, rank, text: f"{rank:2d}: {text}",
    "torchrun --tee": lambda _number, rank, text: f"[default{rank % 4}]:{text}",
    "mpirun --tag-output": lambda _number, rank, text: f"[1,{rank}]<stdout>:{text}",
    "mpirun --timestamp-output": lambda number, rank, text: (
        f"{_time(number, '%a %b %d %H:%M:%S %Y')}[1,{rank}]<stdout>:{text}"
    ),
    "mpiexec -l": lambda _number, rank, text: f"[{rank}] {text}",
    "pdsh": lambda _number, rank, text: f"host{rank // 4}: {text}",
    "pdsh and srun -l": lambda _number, rank, text: f"host{rank // 4}: {rank:2d}: {text}",
    "NCCL's time": lambda number, _rank, text: f"[{_time(number, '%Y-%m-%d %H:%M:%S')}] {text}",
    "NCCL's time to the microsecond": lambda number, _rank, text: f"[{_time(number, '%Y-%m-%d %H:%M:%S.%f')}] {text}",
    "a clock alone": lambda number, _rank, text: f"[{_time(number, '%H:%M:%S')}] {text}",
    "torchrun and NCCL's time": lambda number, rank, text: (
        f"[default{rank % 4}]:[{_time(number, '%Y-%m-%d %H:%M:%S')}] {text}"
    ),
    "kubectl logs --prefix": lambda _number, rank, text: f"[pod/trainer-{rank // 4}/pytorch] {text}",
    "kubectl logs --timestamps": lambda number, _rank, text: f"{_time(number, '%Y-%m-%dT%H:%M:%S.%f')}000Z {text}",
    "containerd": lambda number, _rank, text: f"{_time(number, '%Y-%m-%dT%H:%M:%S.%f')}000Z stdout F {text}",
    "a collector's time and NCCL's": lambda number, _rank, text: (
        f"{_time(number + 9000, '%Y-%m-%dT%H:%M:%S.%f')}Z [{_time(number, '%Y-%m-%d %H:%M:%S')}] {text}"
    ),
    "the same time twice": lambda number, _rank, text: (
        f"{_time(number, '%Y-%m-%dT%H:%M:%S')}Z [{_time(number, '%Y-%m-%d %H:%M:%S')}] {text}"
    ),
    "docker": lambda number, _rank, text: _docker(number, text, trim=False),
    "docker, trimmed": lambda number, _rank, text: _docker(number, text, trim=True),
    "docker compose": lambda _number, rank, text: f"trainer-{rank // 4}  | {text}",
    "docker compose in colour": lambda _number, rank, text: f"\x1b[36mtrainer-{rank // 4}  |\x1b[0m {text}",
    "journalctl": lambda number, rank, text: (
        f"{_time(number, '%b %d %H:%M:%S')} host{rank // 4} train[{100 + rank}]: {text}"
    ),
    "journalctl -o short-iso": lambda number, rank, text: (
        f"{_time(number, '%Y-%m-%dT%H:%M:%S')}+0000 host{rank // 4} train[{100 + rank}]: {text}"
    ),
    "Ray": lambda _number, rank, text: f"(RayTrainWorker pid={100 + rank}, ip=10.0.0.{rank // 4}) {text}",
    "a trailing blank": lambda _number, _rank, text: f"{text} ",
    "a line's number": lambda number, _rank, text: f"{number} {text}",
    "another program's text": lambda _number, _rank, text: f"loss 0.5 {text}",
}


def wrapped(name: str, number: int, rank: int, text: str) -> str:
    """A line with that around it."""
    return WRAPS[name](number, rank, text)
