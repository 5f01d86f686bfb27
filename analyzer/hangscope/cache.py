"""Keeps in the user's cache folder what takes longer to work out than the rest of a short run.

What is kept carries the stamps of all files that it was made of, so it is either right or not used. It is plain JSON,
of the user's own or it is not read. Where nothing can be written nothing is kept, and every run works it out anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Stamp = list[str | int]
"""Path, size, both times and inode of a file: no change leaves all of them as they were."""


def stamp(path: Path) -> Stamp:
    """The stamp of one file."""
    return _stamp(str(path), path.stat())


def stamps(folder: Path, suffix: str) -> list[Stamp]:
    """The stamps of all files below a folder whose names end so, by path."""
    found: list[Stamp] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                found += stamps(Path(entry.path), suffix)
            elif entry.name.endswith(suffix):
                found.append(_stamp(entry.path, entry.stat()))
    return sorted(found)


def kept(
    name: str,
    made_of: Sequence[Stamp],
    make: Callable[[], T],
    pack: Callable[[T], object],
    unpack: Callable[[Any], T],
) -> T:
    """What an earlier run worked out of the same files, or else what `make` gives, which is then kept.

    Args:
        name: names the file.
        made_of: stamps of the data and of the code that it depends on.
        make: works it out; what it raises is raised.
        pack: turns it into what JSON can hold.
        unpack: the reverse; LookupError, TypeError or ValueError say that the file is damaged.
    """
    path = _path(name)
    key = [sys.version, *made_of]
    with contextlib.suppress(OSError, LookupError, TypeError, ValueError, RecursionError):
        if path is not None and (text := _own(path)) is not None:
            content = json.loads(text)
            if content["key"] == key:
                return unpack(content["kept"])
    made = make()
    if path is not None:
        _write(path, {"key": key, "kept": pack(made)})
    return made


def _stamp(path: str, status: os.stat_result) -> Stamp:
    return [path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _own(path: Path) -> bytes | None:
    """A file's content; None when it is not the user's own: under sudo the cache folder may be another's.

    Raises:
        OSError: it cannot be read.
    """
    # a pipe that somebody put there must not block, and what is looked at must be what is read
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        return file.read() if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() else None


def _write(path: Path, content: object) -> None:
    # written aside and moved: another process reads the old file or the new one, never half of it
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # never through a link, which may lead anywhere
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(content))
        aside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()


def _path(name: str) -> Path | None:
    """Where it is kept, by the XDG base directory rules; None when there is no home folder."""
    # a relative path has to be ignored, say the rules
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        folder = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    # several installations do not overwrite each other's
    place = zlib.crc32(os.fsencode(Path(__file__).parent))
    return folder / "hangscope" / f"{name}.{sys.implementation.cache_tag}.{place:08x}.json"
