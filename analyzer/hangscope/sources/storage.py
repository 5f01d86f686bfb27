"""Opens what a path names, on this machine's disks or behind a URL, as one kind of stream."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hangscope.sources.urls import file_system, is_url, unreadable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 8 << 20
"""Bytes asked for at once of a remote file that is read through: all of it that is ever in memory."""
SMALL_CHUNK = 1 << 18
"""Bytes asked for at once where only a beginning or a directory is wanted."""


def open_path(path: str, chunk: int = CHUNK, *, seekable: bool = False) -> io.BufferedReader:
    """The bytes of a file as they lie there.

    Args:
        path: a path or URL.
        chunk: bytes to ask for at once, of what is behind a URL.
        seekable: it will be read at other places than its beginning, for which a web server has to know ranges.

    Raises:
        OSError: it cannot be opened; reading may raise it, too.
    """
    if not is_url(path):
        return Path(path).open("rb")
    try:
        system, place = file_system(path)
        # our own buffer is all the cache there is, so that memory is bounded whatever the protocol's default
        streamed = not seekable and path.lower().startswith(("http://", "https://"))
        file = system.open(place, "rb", block_size=0 if streamed else chunk, cache_type="none")
    except Exception as error:
        raise unreadable(error) from error
    return io.BufferedReader(_Remote(file), chunk)


def stamp(path: str) -> tuple[int, object]:
    """Size in bytes and what changes when the content does.

    Raises:
        OSError: it cannot be looked at.
    """
    if not is_url(path):
        status = Path(path).stat()
        return status.st_size, status.st_mtime_ns
    try:
        system, place = file_system(path)
        info = system.info(place)
    except Exception as error:
        raise unreadable(error) from error
    changed = info.get("ETag") or info.get("etag") or info.get("LastModified") or info.get("mtime")
    return int(info.get("size") or 0), str(changed)


class _Remote(io.RawIOBase):
    """A file of fsspec, whose errors become OSErrors."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 (each file system has a class of its own)
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def readinto(self, buffer: WriteableBuffer) -> int:
        # to the full: what is looked at first must not depend on how the network cuts it
        view = memoryview(buffer).cast("B")
        filled = 0
        try:
            while filled < len(view) and (data := self._file.read(len(view) - filled)):
                view[filled : filled + len(data)] = data
                filled += len(data)
        except Exception as error:
            raise unreadable(error) from error
        return filled

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        try:
            self._file.seek(offset, whence)  # paramiko's does not say where it went
            return int(self._file.tell())
        except Exception as error:
            raise unreadable(error) from error

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            super().close()
            # what was read is read, and when Python ends, who answers over the network is gone
            if not sys.is_finalizing():
                with contextlib.suppress(Exception):
                    self._file.close()
