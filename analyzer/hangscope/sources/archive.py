"""Lists and opens the members of tar and zip archives where they lie; nothing is ever unpacked to disk."""

from __future__ import annotations

import io
import posixpath
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from hangscope.sources.container import ContainerError, Input, Limits, decompressed
from hangscope.sources.sniff import SNIFF_BYTES, is_zip, sniff_bytes

_BUFFER = 1 << 18
Member = tuple[Input, bytes, str | None]
"""A member as an input, its first bytes, and why it cannot be read (None when it can)."""


class ArchiveError(Exception):
    """An archive that is damaged, or breaks a limit."""


def list_members(archive: Input, limits: Limits) -> list[Member]:
    """All files of an archive, in its order.

    Raises:
        ArchiveError: too many members, too large, compressed too well, or damaged.
    """
    try:
        members: list[Member] = []
        total = 0
        for member in _list(archive, limits):
            members.append(member)
            total += member[0].size
            if len(members) > limits.members:
                raise ArchiveError(f"more than {limits.members} files in one archive")
            if total > limits.total_bytes:
                raise ArchiveError(f"more than {limits.total_bytes} bytes in one archive")
            if total > max(limits.ratio_floor, archive.size * limits.ratio):
                raise ArchiveError(f"{total} bytes from {archive.size}; looks like a decompression bomb")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ArchiveError(f"damaged archive: {error}") from error
    return members


def _list(archive: Input, limits: Limits) -> Iterator[Member]:
    with decompressed(open(archive.path, "rb", buffering=_BUFFER), archive.size, limits) as stream:
        if not is_zip(stream.peek(4)[:4]):
            yield from _list_tar(archive, stream, limits)
            return
    yield from _list_zip(archive, limits)


def _list_tar(archive: Input, stream: BinaryIO, limits: Limits) -> Iterator[Member]:
    with tarfile.open(fileobj=stream, mode="r|", ignore_zeros=False) as tar:
        for index, info in enumerate(tar):
            if index > limits.members * 2:
                raise ArchiveError(f"more than {limits.members} entries in one archive")
            tar.members = []  # type: ignore[attr-defined]
            if not info.isreg() or _hidden(info.name):
                continue
            item = _member(archive, info.name, info.size, index)
            file = tar.extractfile(info)
            assert file is not None
            head = _head(file, item.size, limits)
            yield replace(item, kind=sniff_bytes(head)), head, None


def _list_zip(archive: Input, limits: Limits) -> Iterator[Member]:
    with zipfile.ZipFile(archive.path) as zip_file:
        infos = zip_file.infolist()
        if _is_checkpoint([info.filename for info in infos]):
            raise ArchiveError("not a log: a PyTorch checkpoint")
        for index, info in enumerate(infos):
            if info.is_dir() or _hidden(info.filename):
                continue
            item = _member(archive, info.filename, info.file_size, index)
            if info.flag_bits & 1:
                yield item, b"", "encrypted: unpack the archive first"
                continue
            if info.file_size > max(limits.ratio_floor, info.compress_size * limits.ratio):
                raise ArchiveError(f"{info.filename} looks like a decompression bomb")
            try:
                with zip_file.open(info) as file:
                    head = _head(file, item.size, limits)
            except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
                yield item, b"", f"cannot be read: {error}"
                continue
            yield replace(item, kind=sniff_bytes(head)), head, None


def _head(file: BinaryIO, size: int, limits: Limits) -> bytes:
    """First bytes of a member, compression inside the archive taken off."""
    buffered = io.BufferedReader(file, _BUFFER)  # type: ignore[arg-type]
    stream = decompressed(buffered, size, limits)
    head = stream.peek(SNIFF_BYTES)[:SNIFF_BYTES]
    return head


def _member(archive: Input, path: str, size: int, index: int) -> Input:
    # names are only shown; still, a name that climbs out of the archive is shown as if it did not
    shown = posixpath.normpath("/" + path.replace("\\", "/")).lstrip("/")
    return Input(f"{archive.name}/{shown}", archive.path, size, None, member=path, index=index)


def _hidden(path: str) -> bool:
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    return not parts or any(part.startswith(".") for part in parts) or parts[0] == "__MACOSX"


def _is_checkpoint(names: list[str]) -> bool:
    """torch.save writes a zip of NAME/data.pkl, NAME/version and tensors as NAME/data/N."""
    return any(name.endswith("/data.pkl") for name in names) and any(name.endswith("/version") for name in names)


def open_member(item: Input, limits: Limits) -> io.BufferedReader:
    """Opens one member as a stream, still compressed if it was compressed inside the archive."""
    with open(item.path, "rb", buffering=_BUFFER) as file:
        zipped = is_zip(file.read(4))
    if zipped:
        zip_file = zipfile.ZipFile(item.path)
        return io.BufferedReader(_Zipped(zip_file, zip_file.infolist()[item.index]), _BUFFER)
    return _tar_member(item, limits)


class _Zipped(io.RawIOBase):
    """A zip member that closes its archive with it and names damage as such."""

    def __init__(self, zip_file: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._zip_file = zip_file
        self._file = zip_file.open(info)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error) as error:
            raise ContainerError(f"damaged archive: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._zip_file.close()
        super().close()


class _Cursor:
    """A place in a tar archive that only moves forward, so that reading all members reads the archive once."""

    def __init__(self, path: str, size: int, limits: Limits) -> None:
        self._stream = decompressed(open(path, "rb", buffering=_BUFFER), size, limits)
        self._tar = tarfile.open(fileobj=self._stream, mode="r|")
        self._next = 0
        self.busy = False

    @property
    def position(self) -> int:
        return self._next

    def member(self, index: int) -> BinaryIO:
        """Goes on to a member that has not been passed yet."""
        while True:
            info = self._tar.next()
            self._tar.members = []
            if info is None:
                raise ContainerError("the archive has changed: a member is gone")
            self._next += 1
            if self._next == index + 1:
                file = self._tar.extractfile(info)
                if file is None:
                    raise ContainerError("the archive has changed: a member is no file")
                return file  # type: ignore[return-value]

    def close(self) -> None:
        self._tar.close()
        self._stream.close()


# One cursor a process: workers take members in order, so each of them passes through an archive about once.
_cursors: dict[str, _Cursor] = {}


def _tar_member(item: Input, limits: Limits) -> io.BufferedReader:
    import os

    cursor = _cursors.pop(item.path, None)
    if cursor is None or cursor.position > item.index:
        if cursor is not None:
            cursor.close()
        cursor = _Cursor(item.path, os.path.getsize(item.path), limits)
    try:
        file = cursor.member(item.index)
    except (tarfile.TarError, OSError, EOFError) as error:
        cursor.close()
        raise ContainerError(f"damaged archive: {error}") from error
    return io.BufferedReader(_Tarred(file, cursor, item.path), _BUFFER)


class _Tarred(io.RawIOBase):
    """A tar member; closing it gives the cursor back for the next one."""

    def __init__(self, file: BinaryIO, cursor: _Cursor, path: str) -> None:
        self._file = file
        self._cursor = cursor
        self._path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except tarfile.TarError as error:
            raise ContainerError(f"damaged archive: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            for other in [path for path in _cursors if path != self._path]:
                _cursors.pop(other).close()
            old = _cursors.pop(self._path, None)
            if old is not None:
                old.close()
            _cursors[self._path] = self._cursor
        super().close()
