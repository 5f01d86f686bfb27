"""Reads what the host and its cgroups grant a process: memory, shared memory, open files."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hangscope.live import procfs
from hangscope.records import dataclass

CGROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""cgroup v1 writes a number near 2^63 where there is no limit."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the tightest cgroup around a process allows, None where it does not say.

    Attributes:
        limit_bytes, used_bytes: of the cgroup.
        oom_kills: processes that the kernel killed in it because of the limit.
        frozen: whether its freezer holds all of them.
    """

    limit_bytes: int | None
    used_bytes: int | None
    oom_kills: int | None
    frozen: bool


def memory_of(pid: int) -> Memory:
    """The memory that the process' cgroup has."""
    paths = _cgroups(pid)
    limit, used, kills = _tightest(paths.get("", ""), _unified(), "memory.max", "memory.current")
    if "memory" in paths:
        limit, used, kills = _tightest(
            paths["memory"], CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        )
    return Memory(limit, used, kills, is_frozen(pid))


def is_frozen(pid: int) -> bool:
    """Whether a freezer holds the process: that of its cgroup v2, or of its freezer cgroup v1."""
    paths = _cgroups(pid)
    events = procfs.read_text(_unified() / paths.get("", "").lstrip("/") / "cgroup.events")
    if events is not None and re.search(r"^frozen 1$", events, re.MULTILINE):
        return True
    old = CGROUPS / "freezer" / paths.get("freezer", "").lstrip("/") / "freezer.state"
    return "freezer" in paths and (procfs.read_text(old) or "").strip() in ("FROZEN", "FREEZING")


def _unified() -> Path:
    """Where cgroup v2 is mounted; beside v1 it has a folder of its own."""
    beside = CGROUPS / "unified"
    return beside if beside.is_dir() else CGROUPS


def _cgroups(pid: int) -> dict[str, str]:
    """Controller -> path; "" is that of cgroup v2."""
    found: dict[str, str] = {}
    for line in (procfs.read_text(procfs.PROC / str(pid) / "cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number.isdecimal():
            found.update(dict.fromkeys(names.split(",") if names else [""], path))
    return found


def _tightest(path: str, root: Path, limit_name: str, used_name: str) -> tuple[int | None, int | None, int | None]:
    """Limit, usage and OOM kills of the cgroup with the lowest limit, from the process upward."""
    best: tuple[int | None, int | None, int | None] = (None, None, None)
    for folder in _upward(root, path):
        limit = _number(folder / limit_name)
        if limit is not None and limit < _NO_LIMIT and (best[0] is None or limit < best[0]):
            best = (limit, _number(folder / used_name), _oom_kills(folder))
    return best


def _upward(root: Path, path: str) -> list[Path]:
    """The cgroup's folder and those above it; below a namespace of its own a process sees the root alone."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    folders = [root.joinpath(*parts[:length]) for length in range(len(parts), -1, -1)]
    return [folder for folder in folders if folder.is_dir()]


def _oom_kills(folder: Path) -> int | None:
    for name in ("memory.events", "memory.oom_control"):
        found = re.search(r"^oom_kill (\d+)", procfs.read_text(folder / name) or "", re.MULTILINE)
        if found:
            return int(found[1])
    return None


def _number(path: Path) -> int | None:
    text = (procfs.read_text(path) or "").strip()
    return int(text) if text.isdecimal() else None


def shared_memory(pid: int) -> tuple[int, int] | None:
    """Size and use of the /dev/shm that the process sees, in bytes."""
    for path in (procfs.PROC / str(pid) / "root/dev/shm", Path("/dev/shm")):  # noqa: S108  (it is only measured)
        try:
            found = os.statvfs(path)
        except OSError:
            continue
        return found.f_blocks * found.f_frsize, (found.f_blocks - found.f_bfree) * found.f_frsize
    return None


def limit_of(pid: int, name: str) -> int | None:
    """A soft limit by its name in /proc/PID/limits ("Max open files"); None when there is none or it is not shown."""
    text = procfs.read_text(procfs.PROC / str(pid) / "limits") or ""
    found = re.search(rf"^{re.escape(name)}\s+(\S+)", text, re.MULTILINE)
    return int(found[1]) if found and found[1].isdecimal() else None
