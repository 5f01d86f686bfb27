"""Copies the last lines of the logs that the processes write: regular files only, never pipes or terminals."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hangscope.live import procfs
from hangscope.live.targets import Target
from hangscope.records import dataclass

TAIL_BYTES = 256 << 10
_STREAMS = {1: "stdout", 2: "stderr"}
_ERROR = "error"


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log.

    Attributes:
        name: a name that says whose it is, where it is one rank's.
        data: whole lines.
        cut: whether the file is longer.
    """

    name: str
    data: bytes
    cut: bool


@dataclass(slots=True)
class _Log:
    """A file, what it is called, and who has it as what; `named_by` is the process that only names it."""

    path: Path
    shown: str
    users: list[tuple[Target, str]]
    named_by: int | None


def find_tails(targets: Iterable[Target]) -> list[Tail]:
    """The ends of what these processes have open as standard output and error, and torchrun's error files."""
    logs: dict[tuple[int, int], _Log] = {}
    for target in targets:
        for descriptor, stream in _STREAMS.items():
            path = procfs.regular_file(target.pid, descriptor)
            if path is not None:
                _note(logs, path, target, stream)
        told = target.environment.get("TORCHELASTIC_ERROR_FILE", "")
        if told and target.role == "rank":
            _note(logs, procfs.inside(target.pid, told, target.environment), target, _ERROR)
    tails = []
    taken: set[str] = set()
    for log in logs.values():
        data, cut = _read_tail(log)
        if data:
            name = _distinct(_name(log), taken)
            tails.append(Tail(name, data, cut))
    return tails


def _note(logs: dict[tuple[int, int], _Log], path: Path, target: Target, stream: str) -> None:
    try:
        status = path.stat()
        shown = path.readlink().name if path.is_symlink() else path.name
    except OSError:
        return
    if status.st_size:
        named_by = target.pid if stream == _ERROR else None
        log = logs.setdefault((status.st_dev, status.st_ino), _Log(path, shown, [], named_by))
        log.users.append((target, stream))


def _name(log: _Log) -> str:
    """Of one process, its rank and stream; of several, the file's own name."""
    owners = {target.owner for target, _ in log.users}
    target, stream = log.users[0]
    if len(owners) > 1:
        return safe_name(log.shown)
    if target.role == "launcher":
        return f"launcher-pid{target.pid}.{stream}.log"
    suffix = ".json" if stream == _ERROR else f".{stream}.log"
    return (f"rank{target.rank}-pid{target.owner}" if target.rank is not None else f"pid{target.owner}") + suffix


def safe_name(name: str) -> str:
    """A file name without folders, blanks and other surprises, that analyze does not skip."""
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name).lstrip(".")
    return kept[-100:] or "log"


def _distinct(name: str, taken: set[str]) -> str:
    stem, dot, suffix = name.rpartition(".")
    number = 2
    wanted = name
    while wanted in taken:
        wanted = f"{stem}-{number}{dot}{suffix}"
        number += 1
    taken.add(wanted)
    return wanted


def _read_tail(log: _Log) -> tuple[bytes, bool]:
    """The last whole lines, and whether there are more; nothing of what cannot be read."""
    try:
        opened = log.path.open("rb") if log.named_by is None else procfs.open_named(log.named_by, log.path)
        if opened is None:
            return b"", False
        with opened as stream:
            size = stream.seek(0, os.SEEK_END)
            start = stream.seek(max(0, size - TAIL_BYTES))
            data = stream.read(TAIL_BYTES)
    except OSError:
        return b"", False
    if start:
        _, _, whole = data.partition(b"\n")
        return whole or data, True
    return data, False
