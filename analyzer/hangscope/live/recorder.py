"""Fetches flight-recorder dumps: asks for them through torch's own pipe where there is one, and copies what is there.

Writing a byte into the pipe is the one thing attach does to a job, and what torch made the pipe for
(TORCH_NCCL_DEBUG_INFO_PIPE_FILE, torch 2.3 and later): a thread of its own dumps the ring buffer to a file.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from hangscope.live import procfs
from hangscope.live.targets import Target
from hangscope.records import dataclass

WAIT_S = 15.0
"""The first dump of a process symbolizes its stacks, which takes seconds."""

_LIMIT_BYTES = 256 << 20
_SETTLED_S = 0.3
_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
# 2.9 and later, 2.7 and 2.8, up to 2.6
_DEFAULTS = ("{cache}/torch/comm_lib_trace_rank_", "{cache}/torch/nccl_trace_rank_", "/tmp/nccl_trace_rank_")  # noqa: S108


@dataclass(frozen=True, slots=True)
class Recording:
    """A dump that was found.

    Attributes:
        target: the rank it is of.
        name: the file's name.
        path: where it lies.
    """

    target: Target
    name: str
    path: Path


def trigger(ranks: Iterable[Target]) -> list[Target]:
    """Asks the ranks that have a pipe to dump their recorder; returns those that were asked."""
    return [target for target in ranks if _write_to_pipe(target)]


def wait_for_dumps(asked: Iterable[Target], since: float, limit_s: float = WAIT_S) -> None:
    """Waits until every rank that was asked has written a file after `since` (seconds since 1970), or time is up."""
    waiting = list(asked)
    deadline = time.monotonic() + limit_s
    while waiting and time.monotonic() < deadline:
        waiting = [target for target in waiting if procfs.is_alive(target.pid) and not _has_settled(target, since)]
        if waiting:
            time.sleep(0.1)


def find_recordings(ranks: Iterable[Target]) -> list[Recording]:
    """The dumps that these processes wrote: files newer than the process itself."""
    boot = procfs.boot_time()
    found = []
    for target in ranks:
        for path, status in _files(target):
            if status.st_mtime >= boot + target.started - 1:
                found.append(Recording(target, path.name, path))
                break
    return found


def read_recording(recording: Recording) -> bytes | None:
    """The file as it is; None when it cannot be read."""
    stream = procfs.open_named(recording.target.pid, recording.path)
    if stream is None:
        return None
    try:
        with stream:
            return stream.read(_LIMIT_BYTES)
    except OSError:
        return None


def pipe_of(target: Target) -> Path | None:
    """The pipe this rank listens to; None when it has none."""
    value = target.environment.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "")
    if not value or target.rank is None:
        return None
    path = procfs.inside(target.pid, f"{value}{target.rank}.pipe", target.environment)
    try:
        return path if stat.S_ISFIFO(path.stat(follow_symlinks=False).st_mode) else None
    except OSError:
        return None


def _write_to_pipe(target: Target) -> bool:
    path = pipe_of(target)
    if path is None:
        return False
    try:
        # without a reader this fails at once instead of waiting for one
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # what was a pipe a moment ago may be something else now
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return False
        os.write(descriptor, b"1")
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _has_settled(target: Target, since: float) -> bool:
    """Whether the file is there and not written to any more."""
    return any(
        status.st_mtime >= since - 1 and status.st_size > 0 and time.time() - status.st_mtime > _SETTLED_S
        for _, status in _files(target)
    )


def _files(target: Target) -> list[tuple[Path, os.stat_result]]:
    """Where this rank writes its dump, in the order in which versions look, newest file first among defaults."""
    found: list[tuple[Path, os.stat_result]] = []
    for name in _names(target.environment, target.rank):
        path = procfs.inside(target.pid, name, target.environment)
        try:
            status = path.stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((path, status))
    return sorted(found, key=lambda one: -one[1].st_mtime)


def _names(environment: Mapping[str, str], rank: int | None) -> list[str]:
    if environment.get("TORCH_FR_DUMP_DYNAMIC_FILE_NAME", "") == "1" and environment.get(_PREFIXES[0]):
        return [environment[_PREFIXES[0]]]
    if rank is None:
        return []
    told = [environment[name] for name in _PREFIXES if environment.get(name)]
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME', '')}/.cache"
    return [f"{prefix}{rank}" for prefix in told or [default.format(cache=cache) for default in _DEFAULTS]]
