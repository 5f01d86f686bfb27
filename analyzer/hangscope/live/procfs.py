"""Reads what /proc tells about processes; every answer may be missing, since processes end and permissions differ."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from hangscope.expressions import expression
from hangscope.records import dataclass

PROC = Path("/proc")
"""Where the kernel shows its processes; tests show a folder of their own."""

_READ_LIMIT = 4 << 20
_TICKS_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

# the program itself, whatever its process calls itself
_PYTHON = expression(r"(?:python|pypy)[\d.]*(?:-\w+)?t?(?: \(deleted\))?$")
_LIBPYTHON = expression(rb"/libpython\d[\d.]*\w*\.so")
_SECRET = expression(
    r"(?i)((?:^|\s)-{0,2}[\w.-]*(?:token|secret|passw|api[-_]?key|credential|access[-_]?key)[\w.-]*[= ])\s*\S+"
)


@dataclass(frozen=True, slots=True)
class Stat:
    """One process or thread, as /proc/PID/stat has it.

    Attributes:
        pid: process id, of a thread its thread id.
        name: the kernel's name for it (15 characters).
        state: R, S, D, T, t, Z, X, I.
        parent: process id of its parent.
        session: id of its session.
        cpu_s: CPU time so far, user and system.
        started: seconds since the machine started.
        threads: how many it has.
    """

    pid: int
    name: str
    state: str
    parent: int
    session: int
    cpu_s: float
    started: float
    threads: int


def read(path: Path, limit: int = _READ_LIMIT) -> bytes | None:
    """The beginning of a file; None when it cannot be had."""
    try:
        with path.open("rb") as stream:
            return stream.read(limit)
    except OSError:
        return None


def read_text(path: Path, limit: int = _READ_LIMIT) -> str | None:
    """As `read`, as text."""
    data = read(path, limit)
    return None if data is None else data.decode("utf-8", "replace")


def list_processes() -> dict[int, Stat]:
    """All processes of this host (of this container, where there is one)."""
    found = (read_stat(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdecimal())
    return {one.pid: one for one in found if one is not None}


def read_stat(pid: int) -> Stat | None:
    """One process; None when there is none (any more)."""
    return _parse_stat(read_text(PROC / str(pid) / "stat"))


def read_threads(pid: int) -> list[Stat]:
    """The threads of a process, the main one first."""
    try:
        names = _numbers(PROC / str(pid) / "task")
    except OSError:
        return []
    found = (_parse_stat(read_text(PROC / str(pid) / "task" / str(name) / "stat")) for name in names)
    return [one for one in found if one is not None]


def _numbers(folder: Path) -> list[int]:
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal())


def _parse_stat(text: str | None) -> Stat | None:
    """``PID (NAME) STATE PPID ...``; the name may hold blanks and brackets (proc(5))."""
    head, _, rest = (text or "").rpartition(")")
    number, _, name = head.partition("(")
    fields = rest.split()
    if len(fields) < 20 or not number.strip().isdecimal():
        return None
    try:
        return Stat(
            pid=int(number),
            name=name,
            state=fields[0],
            parent=int(fields[1]),
            session=int(fields[3]),
            cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_S,
            started=int(fields[19]) / _TICKS_S,
            threads=int(fields[17]),
        )
    except ValueError:
        return None


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    found = read_stat(pid)
    return found is not None and found.state not in ("Z", "X")


def command_of(pid: int) -> str:
    """The command line on one line, values of secret options left out; a kernel thread has none."""
    data = read(PROC / str(pid) / "cmdline", 1 << 16) or b""
    text = data.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return hide_secrets(" ".join(text.split()))


def hide_secrets(text: str) -> str:
    """The text of a command line, with ``***`` for what stands behind options that name a secret."""
    return _SECRET.sub(r"\1***", text)


def hide_secrets_in_head(dump: str) -> str:
    """A dump of py-spy, the command lines of its head treated the same."""
    head, blank, stacks = dump.partition("\n\n")
    return hide_secrets(head) + blank + stacks if head.startswith("Process ") else dump


def environment_of(pid: int) -> dict[str, str]:
    """What the process was started with.

    Raises:
        OSError: the kernel refuses, or it has ended.
    """
    with (PROC / str(pid) / "environ").open("rb") as stream:
        data = stream.read(_READ_LIMIT)
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if b"=" in entry)
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs}


def is_python(pid: int) -> bool:
    """Whether it runs Python, as far as that can be seen."""
    try:
        program = str((PROC / str(pid) / "exe").readlink())
    except OSError:
        return bool(_PYTHON.search(command_of(pid).partition(" ")[0]))
    return bool(_PYTHON.search(program)) or maps(pid, _LIBPYTHON)


def maps(pid: int, pattern: re.Pattern[bytes]) -> bool:
    """Whether the process has a library loaded whose path the pattern finds."""
    return pattern.search(read(PROC / str(pid) / "maps") or b"") is not None


def wait_channel(pid: int, thread: int | None = None) -> str:
    """The kernel function it sleeps in, "" when it runs or the kernel does not say."""
    folder = PROC / str(pid) if thread is None else PROC / str(pid) / "task" / str(thread)
    text = (read_text(folder / "wchan") or "").strip()
    return "" if text == "0" else text


def user_of(pid: int) -> int | None:
    """The user it runs as."""
    try:
        return (PROC / str(pid)).stat().st_uid
    except OSError:
        return None


def open_files(pid: int) -> dict[int, str] | None:
    """Its open descriptors and what they lead to; None when the kernel refuses."""
    folder = PROC / str(pid) / "fd"
    try:
        numbers = _numbers(folder)
    except OSError:
        return None
    found: dict[int, str] = {}
    for number in numbers:
        try:
            found[number] = str((folder / str(number)).readlink())
        except OSError:
            found[number] = ""
    return found


def regular_file(pid: int, descriptor: int) -> Path | None:
    """A path that opens the file behind a descriptor, if that is a regular file: pipes and terminals are never read."""
    path = PROC / str(pid) / "fd" / str(descriptor)
    try:
        return path if stat.S_ISREG(path.stat().st_mode) else None
    except OSError:
        return None


def open_named(pid: int, path: Path) -> BinaryIO | None:
    """Opens a regular file that a process only names, if its user may read it.

    Under root everything opens: a link in the place of a log must not fetch what the job's user cannot read himself.
    """
    try:
        # whatever is there by now, opening it waits for nobody
        stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError:
        return None
    status = os.fstat(stream.fileno())
    if stat.S_ISREG(status.st_mode) and (status.st_mode & stat.S_IROTH or status.st_uid == user_of(pid)):
        return stream
    stream.close()
    return None


def log_sizes(pid: int) -> dict[tuple[int, int], int]:
    """Sizes in bytes of the files that its standard output and error go to, by device and number of the file."""
    found: dict[tuple[int, int], int] = {}
    for descriptor in (1, 2):
        path = regular_file(pid, descriptor)
        if path is not None:
            with contextlib.suppress(OSError):
                seen = path.stat()
                found[seen.st_dev, seen.st_ino] = seen.st_size
    return found


def inside(pid: int, path: str, environment: Mapping[str, str]) -> Path:
    """Where a path of the process is found from here: it may live in a container, and the path may be relative."""
    if path.startswith("~/") and environment.get("HOME"):
        path = environment["HOME"] + path[1:]
    base = PROC / str(pid) / ("root" if path.startswith("/") else "cwd")
    seen = base / path.lstrip("/")
    return seen if os.access(base, os.X_OK) else Path(path)


def boot_time() -> float:
    """When the machine was started, in seconds since 1970."""
    found = re.search(r"^btime (\d+)", read_text(PROC / "stat") or "", re.MULTILINE)
    return float(found[1]) if found else 0.0


def uptime_s() -> float:
    """Seconds since the machine was started."""
    text = (read_text(PROC / "uptime") or "0").split()
    return float(text[0]) if text else 0.0
