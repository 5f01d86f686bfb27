"""Reads the stacks of recorded calls: a number that tells them apart, and the innermost line of the job's own code."""

from __future__ import annotations

import functools
import zlib

from hangscope.expressions import expression

_INSTALLED = expression(
    r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)lib(?:64)?/python3(?:\.\d+)?t?/|(?:^|/)torch/(?:distributed|nn|autograd|_\w+|utils)/"
)
_MOST_FRAMES = 400
_MOST_KEPT = 16

Stack = tuple[int, tuple[str, ...]]


class Stacks:
    """The stacks of one dump. torch shares frames between entries, so that each is looked at once."""

    def __init__(self) -> None:
        self._by_list: dict[int, Stack] = {}
        self._by_frames: dict[tuple[int, ...], Stack] = {}
        self._frames: dict[int, tuple[str, bool]] = {}

    def read(self, frames: object) -> Stack:
        """Number and own lines ("file:line function", innermost first) of a stack that is kept alive."""
        known = self._by_list.get(id(frames))
        if known is None:
            known = self._by_list[id(frames)] = self._read(frames)
        return known

    def _read(self, frames: object) -> Stack:
        if not isinstance(frames, list) or not frames:
            return 0, ()
        frames = frames[:_MOST_FRAMES]
        key = tuple(map(id, frames))
        known = self._by_frames.get(key)
        if known is None:
            places = [self._frame(frame) for frame in frames]
            number = zlib.crc32("\n".join(place for place, _ in places).encode("utf-8", "replace")) | 1 << 32
            own = tuple(place for place, is_own in places if is_own)
            known = self._by_frames[key] = (number, own[:_MOST_KEPT])
        return known

    def _frame(self, frame: object) -> tuple[str, bool]:
        known = self._frames.get(id(frame))
        if known is None:
            known = self._frames[id(frame)] = _describe(frame)
        return known


def _describe(frame: object) -> tuple[str, bool]:
    if not isinstance(frame, dict):
        return "", False
    file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
    if not isinstance(file, str) or not isinstance(line, int):
        return str(name)[:200] if isinstance(name, str) else "", False
    function = f" {name[:200]}" if isinstance(name, str) else ""
    return f"{file[-400:]}:{line}{function}", is_own(file)


@functools.lru_cache(maxsize=1 << 12)
def is_own(file: str) -> bool:
    """Whether a file is of the job's own code: neither torch's nor an installed package's nor Python's."""
    path = file.replace("\\", "/")
    # C++ frames of TORCH_FR_CPP_STACK end in .cpp or name no file
    return path.endswith((".py", ".ipynb", ".pyx")) and not path.startswith("<frozen") and not _INSTALLED.search(path)
