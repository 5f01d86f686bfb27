"""Makes a peekable binary stream of anything that can be read from."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Read = Callable[[int], bytes]
"""Reads up to so many bytes; empty at the end."""

BUFFER = 1 << 18


def buffered(read: Read, close: Callable[[], None]) -> io.BufferedReader:
    """A stream over `read`; closing the stream calls `close` once."""
    return io.BufferedReader(_Raw(read, close), BUFFER)


class _Raw(io.RawIOBase):
    def __init__(self, read: Read, close: Callable[[], None]) -> None:
        self._read = read
        self._close = close

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._close()
