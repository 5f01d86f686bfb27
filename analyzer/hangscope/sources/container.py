"""Opens an input as a stream of decompressed bytes, bounded whatever a hostile file claims."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

from hangscope.sources.sniff import Kind, compression

_BUFFER = 1 << 18
_MAGIC = 64
_MAX_LAYERS = 2


class ContainerError(OSError):
    """An archive or compressed file that breaks a limit or is damaged."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far hangscope follows what a compressed file or an archive claims.

    Attributes:
        members: files in one archive.
        total_bytes: decompressed size of one archive or compressed file.
        ratio: decompressed size in relation to the compressed one; not looked at below `ratio_floor` bytes.
        ratio_floor: see `ratio`. Logs that repeat one line compress by several hundred.
    """

    members: int = 100_000
    total_bytes: int = 256 << 30
    ratio: int = 400
    ratio_floor: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to read. Plain data: a worker process can be given it, and opens it again.

    Attributes:
        name: how the report names it.
        path: where it lies ("-" is standard input); for a member, its archive.
        size: bytes on disk, or of the archive member; 0 when unknown.
        kind: what it holds; None when nobody could look (standard input, pipes).
        member: path inside the archive, else None.
        index: position of the member in the archive.
        rereadable: False when only this process can read it, and only once.
    """

    name: str
    path: str
    size: int
    kind: Kind | None
    member: str | None = None
    index: int = 0
    rereadable: bool = True

    def open(self) -> io.BufferedReader:
        """A stream of its decompressed bytes."""
        return open_input(self, Limits())


def open_input(item: Input, limits: Limits) -> io.BufferedReader:
    """Opens with explicit limits (`Input.open` takes the usual ones)."""
    if item.member is not None:
        # archive members are the affair of the module that knows archives
        from hangscope.sources.archive import open_member

        return decompressed(open_member(item, limits), item.size, limits)
    if item.path == "-":
        return decompressed(io.BufferedReader(_Unclosable(sys.stdin.buffer), _BUFFER), 0, limits)
    size = os.path.getsize(item.path)
    return decompressed(open(item.path, "rb", buffering=_BUFFER), size, limits)


def decompressed(stream: io.BufferedReader, size: int, limits: Limits) -> io.BufferedReader:
    """The stream with up to two layers of compression taken off, as its magic bytes tell."""
    for _ in range(_MAX_LAYERS):
        name = compression(stream.peek(_MAGIC)[:_MAGIC])
        if name is None:
            break
        stream = io.BufferedReader(Bounded(_decompressor(name, stream), stream, size, limits), _BUFFER)
    return stream


def _decompressor(name: str, stream: BinaryIO) -> BinaryIO:
    if name == "gzip":
        return gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[return-value]
    if name == "bzip2":
        return bz2.BZ2File(stream)  # type: ignore[return-value]
    if name == "xz":
        return lzma.LZMAFile(stream, format=lzma.FORMAT_XZ)  # type: ignore[return-value]
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(stream, read_across_frames=True)  # type: ignore[return-value]


class Bounded(io.RawIOBase):
    """A decompressing stream that stops with an error when it grows beyond the limits.

    A file that ends in the middle (a copy of a log that is still being written) gives what there is.
    """

    def __init__(self, stream: BinaryIO, under: BinaryIO, size: int, limits: Limits) -> None:
        self._stream = stream
        self._under = under
        self._given = 0
        self._bound = limits.total_bytes
        if size:
            self._bound = min(self._bound, max(limits.ratio_floor, size * limits.ratio))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except EOFError:
            return 0
        except (lzma.LZMAError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise ContainerError(f"damaged compressed data: {error}") from error
        self._given += len(data)
        if self._given > self._bound:
            raise ContainerError(f"decompresses to more than {self._bound} bytes; looks like a decompression bomb")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._under.close()
        super().close()


class _Unclosable(io.RawIOBase):
    """Standard input, which stays open when a reader of it is closed."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        read1 = getattr(self._stream, "read1", self._stream.read)
        data = read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)
