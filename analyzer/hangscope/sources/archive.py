"""Lists and opens the members of tar and zip archives where they lie; nothing is ever unpacked to disk."""

from __future__ import annotations

import atexit
import io
import os
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from hangscope.records import dataclass
from hangscope.sources.container import ContainerError, Limits, decompressed
from hangscope.sources.sniff import SNIFF_BYTES, is_zip
from hangscope.sources.storage import SMALL_CHUNK, open_path, stamp
from hangscope.sources.streams import buffered
from hangscope.sources.urls import is_url

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
_ENCRYPTED = 1


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive.

    Attributes:
        path: its name inside, as the archive has it; only shown, never used as a path.
        size: its size (still compressed, if it is compressed inside the archive).
        index: its position among all entries.
        head: its first bytes, decompressed.
        error: why it cannot be read, or None.
    """

    path: str
    size: int
    index: int
    head: bytes
    error: str | None = None


def list_members(path: str, limits: Limits) -> list[Member]:
    """All files of an archive, in its order; hidden ones are left out.

    Raises:
        ContainerError: damaged, too many members, too large, or compressed too well to be true.
    """
    bound = limits.bound(stamp(path)[0])
    members: list[Member] = []
    total = 0
    try:
        for member in _list(path, limits):
            members.append(member)
            total += member.size
            if len(members) > limits.members:
                raise ContainerError(f"more than {limits.members} files in one archive")
            if total > bound:
                raise ContainerError(f"holds more than {bound} bytes, like a decompression bomb")
    except _DAMAGE as error:
        raise ContainerError(f"damaged archive: {error}") from error
    return members


def open_member(path: str, index: int, limits: Limits) -> io.BufferedReader:
    """Opens one member as a stream, compression inside the archive taken off."""
    with open_path(path, SMALL_CHUNK) as file:
        zipped = is_zip(file.read(4))
    try:
        return _open_zipped(path, index, limits) if zipped else _open_tarred(path, index, limits)
    except _DAMAGE as error:
        raise ContainerError(f"damaged archive: {error}") from error


def _list(path: str, limits: Limits) -> Iterator[Member]:
    with _open_archive(path, limits) as stream:
        if is_zip(stream.peek(4)[:4]):
            yield from _list_zip(path, limits)
        else:
            yield from _list_tar(stream, limits)


def _open_archive(path: str, limits: Limits) -> io.BufferedReader:
    return decompressed(open_path(path), stamp(path)[0], limits)


def _list_tar(stream: io.BufferedReader, limits: Limits) -> Iterator[Member]:
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for index, info in enumerate(iter(lambda: _next_entry(tar), None)):
            if index > 2 * limits.members:
                raise ContainerError(f"more than {2 * limits.members} entries in one archive")
            file = tar.extractfile(info) if info.isreg() and not _hidden(info.name) else None
            if file is not None:
                yield Member(info.name, info.size, index, _head(file, info.size, limits))


def _next_entry(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    info = tar.next()
    # the stream is read once and forward, so a list of all that has passed would only take memory
    vars(tar)["members"] = []
    return info


def _list_zip(path: str, limits: Limits) -> Iterator[Member]:
    with _open_zip(path) as archive:
        infos = archive.infolist()
        if _is_checkpoint([info.filename for info in infos]):
            raise ContainerError("not a log: a PyTorch checkpoint")
        for index, info in enumerate(infos):
            if info.is_dir() or _hidden(info.filename):
                continue
            if info.flag_bits & _ENCRYPTED:
                yield Member(info.filename, info.file_size, index, b"", "encrypted: unpack the archive first")
                continue
            if info.file_size > limits.bound(max(1, info.compress_size)):
                raise ContainerError(f"{info.filename} is compressed too well, like a decompression bomb")
            try:
                with archive.open(info) as file:
                    member = Member(info.filename, info.file_size, index, _head(file, info.file_size, limits))
            except (*_DAMAGE, OSError) as error:
                member = Member(info.filename, info.file_size, index, b"", f"cannot be read: {error}")
            yield member


def _head(file: IO[bytes], size: int, limits: Limits) -> bytes:
    """First bytes of a member, compression inside the archive taken off."""
    with decompressed(buffered(file.read, file.close), size, limits) as stream:
        return stream.peek(SNIFF_BYTES)[:SNIFF_BYTES]


def _hidden(path: str) -> bool:
    parts = [part for part in path.replace("\\", "/").split("/") if part not in {"", ".", ".."}]
    return not parts or any(part.startswith(".") for part in parts) or parts[0] == "__MACOSX"


def _is_checkpoint(names: list[str]) -> bool:
    """torch.save writes a zip of NAME/data.pkl, NAME/version and tensors as NAME/data/N."""
    return any(name.endswith("/data.pkl") for name in names) and any(name.endswith("/version") for name in names)


def _open_zipped(path: str, index: int, limits: Limits) -> io.BufferedReader:
    archive = _directory(path)
    infos = archive.infolist()
    if index >= len(infos):
        raise ContainerError("the archive has changed while it was read")
    info = infos[index]
    file = archive.open(info)

    def read(size: int) -> bytes:
        try:
            return file.read(size)
        except _DAMAGE as error:
            raise ContainerError(f"damaged archive: {error}") from error

    return decompressed(buffered(read, file.close), info.file_size, limits)


def _open_zip(path: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(open_path(path, SMALL_CHUNK, seekable=True) if is_url(path) else path)


class _Kept(threading.local):
    """What one thread keeps open between two members: workers of a cluster may read in several threads.

    Attributes:
        directories: the archive of the last member that was opened: its directory is read once, not once a member. An
            open member keeps the file open by itself. Processes must not share one: they would move each other's place
            in the file.
        resting: the cursor left behind by the last member read. A worker takes members in order, so it passes through
            the archive about once, though every member is opened on its own.
    """

    def __init__(self) -> None:
        self.directories: dict[tuple[object, ...], zipfile.ZipFile] = {}
        self.resting: list[_Cursor] = []

    def release(self) -> None:
        """Closes what is open."""
        while self.directories:
            self.directories.popitem()[1].close()
        while self.resting:
            self.resting.pop().close()


_kept = _Kept()
# later the threads are gone that close a file of another host (paramiko's), and closing it would wait for ever
atexit.register(_kept.release)


def _directory(path: str) -> zipfile.ZipFile:
    key = (os.getpid(), path, *stamp(path))
    if key not in _kept.directories:
        while _kept.directories:
            _kept.directories.popitem()[1].close()
        _kept.directories[key] = _open_zip(path)
    return _kept.directories[key]


class _Cursor:
    """A place in a tar archive that only moves forward, so that reading all members reads the archive once."""

    def __init__(self, path: str, limits: Limits) -> None:
        self.path = path
        self.position = 0
        self._stream = _open_archive(path, limits)
        self._tar = tarfile.open(fileobj=self._stream, mode="r|")  # noqa: SIM115 (see close)

    def member(self, index: int) -> tuple[IO[bytes], int]:
        """Goes on to an entry that has not been passed yet; its content and size."""
        info = None
        while self.position <= index:
            info = _next_entry(self._tar)
            if info is None:
                break
            self.position += 1
        file = self._tar.extractfile(info) if info is not None else None
        if info is None or file is None:
            raise ContainerError("the archive has changed while it was read")
        return file, info.size

    def close(self) -> None:
        self._tar.close()
        self._stream.close()


def _open_tarred(path: str, index: int, limits: Limits) -> io.BufferedReader:
    cursor = _kept.resting.pop() if _kept.resting else None
    if cursor is not None and (cursor.path != path or cursor.position > index):
        cursor.close()
        cursor = None
    cursor = cursor or _Cursor(path, limits)
    try:
        file, size = cursor.member(index)
    except BaseException:
        cursor.close()
        raise

    def read(amount: int) -> bytes:
        try:
            return file.read(amount)
        except _DAMAGE as error:
            raise ContainerError(f"damaged archive: {error}") from error

    def close() -> None:
        file.close()
        _rest(cursor)

    return decompressed(buffered(read, close), size, limits)


def _rest(cursor: _Cursor) -> None:
    while _kept.resting:
        _kept.resting.pop().close()
    _kept.resting.append(cursor)
