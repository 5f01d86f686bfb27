"""One thing to read: a name for the report, and how to open it, here or in another process."""

from __future__ import annotations

import io
import sys
from dataclasses import field

from hangscope.records import dataclass
from hangscope.sources.container import ContainerError, Limits, decompressed
from hangscope.sources.sniff import Kind
from hangscope.sources.storage import CHUNK, open_path
from hangscope.sources.streams import buffered

STDIN_PATH = "-"


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to read. Plain data: a worker process can be given it, and opens it again.

    Attributes:
        name: how the report names it.
        path: where it lies, a path or URL ("-" is standard input); for a member, its archive.
        size: bytes on disk, or of the archive member; 0 when unknown.
        kind: what it holds; None when nobody could look yet (standard input, pipes).
        member: position in the archive, None for a file of its own.
        limits: how far to follow compressed data.
        rereadable: False when only this process can read it, and only once.
    """

    name: str
    path: str
    size: int
    kind: Kind | None = None
    member: int | None = None
    limits: Limits = field(default_factory=Limits)
    rereadable: bool = True

    def open(self, chunk: int = CHUNK) -> io.BufferedReader:
        """A stream of its decompressed bytes. Reading it may raise OSError (`ContainerError` for damage).

        Args:
            chunk: bytes to ask for at once of a file behind a URL.
        """
        if self.member is not None:
            from hangscope.sources.archive import open_member  # noqa: PLC0415 (few logs lie in one)

            return open_member(self.path, self.member, self.limits)
        if self.path == STDIN_PATH:
            if sys.stdin is None:
                # the shell closed it: `<&-`
                raise ContainerError("standard input is closed")
            # read1 gives what there is; standard input itself stays open
            stdin = sys.stdin.buffer
            read = stdin.read1 if isinstance(stdin, io.BufferedIOBase) else stdin.read
            return decompressed(buffered(read, _leave_open), 0, self.limits)
        return decompressed(open_path(self.path, chunk), self.size, self.limits)


def _leave_open() -> None:
    pass
