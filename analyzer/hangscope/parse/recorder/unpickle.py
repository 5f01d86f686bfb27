"""Unpickles what a hostile file may hold: plain values only, within bounds of memory.

torch's own pickler writes no class and calls none, so an unpickler that refuses every class reads all real dumps and
runs nothing. What is left are bombs: a memo index of four billion, a number of a gigabyte, lists that repeat
themselves. No look at the bytes finds them all cheaply, so the process may not grow beyond a limit while it reads.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

if sys.platform != "win32":
    import resource

MOST_BYTES = 256 << 20
"""A ring of 2,000 entries with stacks is half a megabyte; of 100,000 entries with C++ frames some hundred."""

_ROOM = 192 << 20
_ROOM_PER_BYTE = 40
CUT = "the dump was cut: the process was killed while writing it"


class BrokenDumpError(ValueError):
    """What is wrong with a dump, in words for the user."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise BrokenDumpError(
            f"refused: it asks for the Python object {module}.{name}, which no flight recorder writes"
        )

    def persistent_load(self, pid: object) -> NoReturn:  # noqa: ARG002 (pickle's own signature)
        raise BrokenDumpError("refused: it refers to objects outside of the file, which no flight recorder does")


def load_pickle(data: bytes) -> object:
    """The plain value that a pickle holds.

    Raises:
        BrokenDumpError: it is cut, damaged, too large, or asks for anything but plain values.
    """
    try:
        # a stream that can be peeked into is three times as fast as BytesIO alone
        return _Unpickler(io.BufferedReader(io.BytesIO(data), 1 << 16)).load()
    except BrokenDumpError:
        raise
    except EOFError as error:
        raise BrokenDumpError(CUT) from error
    except pickle.UnpicklingError as error:
        raise BrokenDumpError(CUT if "truncated" in str(error) else f"no readable pickle: {error}") from error
    except MemoryError as error:
        raise BrokenDumpError("refused: it would take far more memory than a flight recorder's dump") from error
    except RecursionError as error:
        raise BrokenDumpError("refused: it is nested too deeply") from error
    # whatever bytes can make the unpickler raise: a value of the wrong type under an opcode, a missing mark
    except Exception as error:
        raise BrokenDumpError(f"no readable pickle: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def bounded(size: int) -> Iterator[None]:
    """While it lasts, memory may grow by a multiple of the file's size, and the cyclic collector rests.

    Half a million fresh containers, none of them garbage, make the collector run for nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    limits = _lower(_ROOM + _ROOM_PER_BYTE * size)
    try:
        yield
    finally:
        if limits is not None:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        if was_enabled:
            gc.enable()


def _lower(room: int) -> tuple[int, int] | None:
    """Lowers the limit of address space to what is in use and `room`; None where that cannot be done."""
    if sys.platform == "win32":
        return None
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = pages * os.sysconf("SC_PAGE_SIZE") + room
        if soft != resource.RLIM_INFINITY and soft <= wanted:
            return None
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    except (OSError, ValueError):
        return None
    return soft, hard
