"""Takes compression off a stream, within limits that a hostile file cannot stretch."""

from __future__ import annotations

import io
from typing import Protocol

from hangscope.records import dataclass
from hangscope.sources.sniff import compression
from hangscope.sources.streams import Read, buffered

_MAGIC = 64
_MAX_LAYERS = 2
# the window that `zstd --ultra --long=27` writes and every zstd reads; more is refused
_ZSTD_WINDOW = 1 << 27


class ContainerError(OSError):
    """An archive or compressed file that is damaged, or breaks a limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far hangscope follows what a compressed file or an archive claims.

    Attributes:
        members: files in one archive.
        total_bytes: decompressed size of one archive or compressed file.
        ratio: decompressed size in relation to the compressed one; not looked at below `ratio_floor` bytes,
            because a log that repeats one line compresses a thousandfold. What was read until then counts.
        ratio_floor: see `ratio`.
    """

    members: int = 50_000
    total_bytes: int = 256 << 30
    ratio: int = 100
    ratio_floor: int = 64 << 20

    def bound(self, compressed: int) -> int:
        """The most bytes that so many compressed bytes may become; 0 stands for an unknown size."""
        return min(self.total_bytes, max(self.ratio_floor, compressed * self.ratio)) if compressed else self.total_bytes


class _Decompressing(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


def decompressed(stream: io.BufferedReader, size: int, limits: Limits) -> io.BufferedReader:
    """The stream with up to two layers of compression taken off, as its magic bytes tell.

    Damage or a broken limit raises `ContainerError`, here or when the result is read.

    Args:
        stream: closed with the result.
        size: how many bytes it has; 0 when unknown.
        limits: reading beyond them raises `ContainerError`.
    """
    try:
        for _ in range(_MAX_LAYERS):
            name = compression(stream.peek(_MAGIC)[:_MAGIC])
            if name is None:
                break
            stream = _layer(name, stream, limits.bound(size))
    except BaseException:
        stream.close()
        raise
    return stream


def _layer(name: str, under: io.BufferedReader, bound: int) -> io.BufferedReader:
    over, damage = _decompressor(name, under)

    def close() -> None:
        over.close()
        under.close()

    return buffered(_bounded(over.read, bound, damage), close)


def _decompressor(name: str, stream: io.BufferedReader) -> tuple[_Decompressing, type[Exception]]:
    """What takes the compression off, and the error that it has for damage; most logs need none of these modules."""
    if name == "gzip":
        import gzip  # noqa: PLC0415
        import zlib  # noqa: PLC0415

        return gzip.GzipFile(fileobj=stream, mode="rb"), zlib.error
    if name == "bzip2":
        import bz2  # noqa: PLC0415

        return bz2.BZ2File(stream), OSError
    if name == "xz":
        import lzma  # noqa: PLC0415

        return lzma.LZMAFile(stream, format=lzma.FORMAT_XZ), lzma.LZMAError
    import zstandard  # noqa: PLC0415

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    return decompressor.stream_reader(stream, read_across_frames=True), zstandard.ZstdError


def _bounded(read: Read, bound: int, damage: type[Exception]) -> Read:
    """`read`, but damage and too much data are errors; a file that ends too early gives what there is."""
    given = 0

    def bounded(size: int) -> bytes:
        nonlocal given
        try:
            data = read(size)
        except EOFError:
            # the copy of a log that was still being written
            return b""
        except (damage, OSError) as error:
            # bz2 says it with a bare OSError; one with a number is the disk's
            if isinstance(error, ContainerError) or getattr(error, "errno", None) is not None:
                raise
            raise ContainerError(f"damaged compressed data: {error}") from error
        given += len(data)
        if given > bound:
            raise ContainerError(f"decompresses to more than {bound >> 20} MiB, like a decompression bomb")
        return data

    return bounded
