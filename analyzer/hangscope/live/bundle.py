"""Writes a bundle: a folder a host with what was collected there, as ``hangscope analyze`` reads it again."""

from __future__ import annotations

import os
import socket
import tarfile
import time
from pathlib import Path

from hangscope.errors import InputError
from hangscope.live.tails import safe_name

_PAGE = 4096
"""A file of whole pages looks as if a buffer had not been written to its end; ours always has."""

_OWNER_ONLY = 0o700
_NO_FOLDER = 0o666

_ELSEWHERE = "Name a folder that is new or empty: --bundle DIR."


def host_name() -> str:
    """This host's short name."""
    return safe_name(socket.gethostname().partition(".")[0]) or "localhost"


def default_folder() -> Path:
    """A folder of the working directory, named after host and time."""
    return Path(f"hangscope-attach-{host_name()}-{time.strftime('%Y%m%d-%H%M%S')}")


def check_folder(folder: Path, *, archive: bool = False) -> None:
    """Whether a bundle can go there, and its archive beside it.

    Raises:
        InputError: there is something in it or in the archive's place, or it is no folder.
    """
    if archive and _archive_of(folder).exists():
        raise InputError(f"{_archive_of(folder)} is there already", _ELSEWHERE)
    try:
        occupied = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}", _ELSEWHERE) from error
    if occupied:
        raise InputError(f"{folder} is not an empty folder", _ELSEWHERE)


def make_folder(folder: Path) -> Path:
    """Makes the bundle's folder, for its owner alone: it holds copies of logs that not everybody may read.

    Raises:
        InputError: there is something in it, or it cannot be made.
    """
    check_folder(folder)
    try:
        if not folder.exists():
            folder.mkdir(mode=_OWNER_ONLY, parents=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror or error}", _ELSEWHERE) from error
    return folder


class HostBundle:
    """The part of a bundle that one host fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        """Writes one file, folders and all; text gets a last newline."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
            return
        data = content.encode("utf-8", "replace")
        if not data.endswith(b"\n"):
            data += b"\n"
        path.write_bytes(data + b"\n" if len(data) % _PAGE == 0 else data)


def pack(folder: Path) -> Path:
    """A ``.tar.gz`` of the folder, beside it.

    Raises:
        InputError: it cannot be written, or is there already.
    """
    packed = _archive_of(folder)
    try:
        with tarfile.open(packed, "x:gz") as archive:
            archive.add(folder, arcname=folder.resolve().name)
    except OSError as error:
        raise InputError(f"{packed} cannot be written: {error.strerror or error}", _ELSEWHERE) from error
    packed.chmod(_OWNER_ONLY & _NO_FOLDER)
    return packed


def hand_over(path: Path) -> None:
    """Gives what was written under sudo to the user who called it, who could not read it otherwise."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not (user.isdecimal() and group.isdecimal()):
        return
    for one in (path, *path.rglob("*")) if path.is_dir() else (path,):
        os.chown(one, int(user), int(group), follow_symlinks=False)


def _archive_of(folder: Path) -> Path:
    whole = folder.resolve()
    return whole.with_name(f"{whole.name}.tar.gz")
