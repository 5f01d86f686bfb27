"""Starts real dask schedulers and workers, each a process of its own, on the loopback interface."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_S = 60
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Processes:
    """A scheduler with its workers.

    Attributes:
        file: the scheduler file, by which it is found.
        address: the scheduler's address.
    """

    file: Path
    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def cluster(folder: Path, workers: int = 2, *options: str, **environment: str) -> Iterator[Processes]:
    """A scheduler and so many worker processes; all end with the context.

    Args:
        folder: for the scheduler file, the logs and what workers put down.
        workers: how many.
        options: further arguments of `dask worker`.
        environment: variables for all processes.
    """
    import distributed  # noqa: PLC0415 (an extra)

    file = folder / "scheduler.json"
    started: list[subprocess.Popen[bytes]] = []
    paths = os.pathsep.join([str(_ROOT / "analyzer"), str(folder)])
    variables = os.environ | {"PYTHONPATH": paths, "DASK_TEMPORARY_DIRECTORY": str(folder)} | environment

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments, "--scheduler-file", str(file)]
        with (folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)
        started.append(process)
        return process

    try:
        scheduler = start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        _wait(file.exists)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            begun = [start("dask_worker", "--nthreads", "1", "--no-dashboard", *options) for _ in range(workers)]
            if workers:
                client.wait_for_workers(workers, timeout=START_S)
            address = client.scheduler.address
        yield Processes(file, address, scheduler, begun)
    finally:
        for process in reversed(started):
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all it started, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait(ready: Callable[[], bool]) -> None:
    until = time.monotonic() + START_S
    while not ready():
        assert time.monotonic() < until, "it did not start"
        time.sleep(0.05)
