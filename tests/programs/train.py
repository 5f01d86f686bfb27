"""A small training job that gets stuck in the way its first argument names; `torchrun` starts it, test_attach looks."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

RANK = int(os.environ["RANK"])
LATE = 1
"""The rank that goes wrong."""

io_lock, metrics_lock = threading.Lock(), threading.Lock()


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        if FAULT == "worker" and RANK == LATE and index >= 12:
            time.sleep(3600)  # read_remote_sample
        return torch.ones(4)


def load_batch(step: int) -> torch.Tensor:
    if FAULT == "skip" and RANK == LATE and step == 3:
        time.sleep(3600)  # slow_storage
    if FAULT == "slow" and RANK == LATE:
        time.sleep(0.7)
    return torch.full((4,), float(step))


def flush_metrics() -> None:
    with io_lock:
        time.sleep(0.3)
        with metrics_lock:  # flusher_waits
            pass


def append_metrics(step: int) -> None:
    if FAULT == "locks" and RANK == LATE and step == 3:
        flusher = threading.Thread(target=flush_metrics, name="metric-flusher", daemon=True)
        with metrics_lock:
            flusher.start()
            time.sleep(0.1)
            with io_lock:  # main_waits
                pass


def save_checkpoint(step: int, folder: Path) -> None:
    if FAULT == "checkpoint" and step == 3:
        if RANK == LATE:
            with (folder / "checkpoint.fifo").open("wb") as stream:  # open_checkpoint
                stream.write(b"weights")
        dist.barrier()


def train(folder: Path) -> None:
    batches = iter(DataLoader(Samples(), batch_size=4, num_workers=1)) if FAULT == "worker" else None
    for step in range(100_000):
        batch = next(batches) if batches is not None else load_batch(step)  # next_batch
        append_metrics(step)
        dist.all_reduce(batch)  # reduce_gradients
        save_checkpoint(step, folder)
        # renamed, so that nobody reads half of it
        written = folder / f"step-{RANK}.new"
        written.write_text(f"{step} {os.getpid()}")
        written.rename(folder / f"step-{RANK}")
        print(f"rank {RANK} step {step}", flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    FAULT = sys.argv[1]
    dist.init_process_group("gloo")
    train(Path(sys.argv[2]))
