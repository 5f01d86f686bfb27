"""What a worker of a cluster does with the piece of work it was sent, and how both travel.

Work and results go as compressed pickles between processes of one build of hangscope, never to or from a file. Who can
send a dask worker work can make it run anything by that alone, so that pickles add no danger.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import platform
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import zstandard

import hangscope
from hangscope.model import SourceRecord
from hangscope.parse.reader import read_input
from hangscope.parse.source import ParsedSource
from hangscope.resources import grammars_dir
from hangscope.sources.archive import Member, list_members
from hangscope.sources.around import Around, Spot, read_around
from hangscope.sources.container import Limits
from hangscope.sources.inputs import Input
from hangscope.sources.quote import Quoted, read_lines
from hangscope.sources.urls import is_url

DONE = "done"
FAILED = "failed"
OTHER_BUILD = "other build"


@functools.cache
def build() -> tuple[str, str]:
    """The version of hangscope, and a digest of its code and grammars: checkouts of one version differ, too."""
    digest = hashlib.sha256()
    package = Path(hangscope.__file__).parent
    for folder, pattern in ((package, "*.py"), (grammars_dir(), "*")):
        for path in sorted(folder.rglob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return hangscope.__version__, digest.hexdigest()[:12]


def pack(value: object) -> bytes:
    """A value as bytes to send."""
    return zstandard.ZstdCompressor(level=1).compress(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def unpack(data: bytes) -> Any:  # noqa: ANN401 (what was packed)
    """What `pack` packed."""
    return pickle.loads(zstandard.ZstdDecompressor().decompress(data))  # noqa: S301 (see the module's docstring)


def work(sender: tuple[str, str], packed: bytes) -> tuple[str, bytes]:
    """Does a piece of work on a worker.

    Args:
        sender: the `build` of who asks; another build's work is not even unpacked.
        packed: name of a task of this module, and its arguments.

    Returns:
        `DONE` and the result; `FAILED` and the error that the task raises for a known reason; `OTHER_BUILD` and the
        worker's own build.
    """
    if sender != build():
        return OTHER_BUILD, repr(build()).encode()
    name, arguments = unpack(packed)
    try:
        return DONE, pack(_TASKS[name](*arguments))
    except (OSError, ValueError) as error:
        return FAILED, pack(error)


def read_all(inputs: Sequence[Input]) -> list[ParsedSource]:
    """Reads inputs; a file that lies only where the user is, is an error of its source."""
    return [read_input(item) if _is_here(item) else _not_here(item) for item in inputs]


def _is_here(item: Input) -> bool:
    return is_url(item.path) or os.path.lexists(item.path)


def _not_here(item: Input) -> ParsedSource:
    host = platform.node()
    reason = f"the worker on {host} does not see {item.path}: use a folder that all hosts mount at this path, or a URL"
    return ParsedSource(SourceRecord(item.name, "unreadable", 0, item.size, 0, reason))


def _members(path: str, limits: Limits) -> list[Member]:
    return list_members(path, limits)


def _lines(inputs: Sequence[Input], wanted: Mapping[str, AbstractSet[int]]) -> dict[tuple[str, int], Quoted]:
    return read_lines(inputs, wanted)


def _around(inputs: Sequence[Input], wanted: Mapping[str, Sequence[Spot]]) -> dict[tuple[str, int], Around]:
    return read_around(inputs, wanted)


_TASKS: Mapping[str, Callable[..., object]] = {
    "read": read_all,
    "members": _members,
    "lines": _lines,
    "around": _around,
}
