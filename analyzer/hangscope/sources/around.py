"""Reads what a writer wrote just before and just after a line that is quoted.

In a stream that many ranks write to, the neighbours of a line are other ranks' and explain nothing: lines that are
known to be another's are passed over. A file of this machine is opened where the line stands; of what has to be read
from its beginning (compressed files, archives, URLs) only what is small is read once more.
"""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from hangscope.expressions import expression
from hangscope.model import Line
from hangscope.sources.decode import RawLine, read_raw_lines
from hangscope.sources.inputs import STDIN_PATH, Input
from hangscope.sources.quote import read_raw
from hangscope.sources.sniff import compression
from hangscope.sources.storage import open_path
from hangscope.sources.unwrap import Unwrapper
from hangscope.sources.urls import is_url

LINES = 2
"""So many on each side."""
_REACHES = (4 << 10, 64 << 10)
"""Bytes on each side in which they are looked for; the second only where the first does not do."""
_LINES_APART = 200
"""The same in lines, where a file is read from its beginning."""
_SMALL_BYTES = 4 << 20
_MAGIC_BYTES = 64
_TELLING = 8
"""A part of a line that is shorter than this may be part of any line."""
_TOLD_BY = ("stream", "rank", "local_rank", "host", "pid")
# py-spy, faulthandler, lldb, and what scripts print between dumps: what follows is another process or thread
_NEXT_STACK = expression(r"Process \d+: |Thread (?:0x)?[0-9a-f]+ \(|Current thread 0x|\*? ?thread #\d+|={3,}")
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Spot(NamedTuple):
    """A line that is quoted: its number, the offset at which it begins, and how it is shown."""

    line: int
    offset: int
    text: str


class Around(NamedTuple):
    """The lines before and after another one, in their order."""

    before: tuple[str, ...]
    after: tuple[str, ...]


def read_around(inputs: Iterable[Input], wanted: Mapping[str, Sequence[Spot]]) -> dict[tuple[str, int], Around]:
    """What stands around lines, by input name and number. What cannot be had, or not cheaply, is left out.

    Args:
        inputs: the inputs of the analysis.
        wanted: the lines, by name of their input.
    """
    found: dict[tuple[str, int], Around] = {}
    for item in inputs:
        spots = wanted.get(item.name)
        if not spots or not item.rereadable:
            continue
        try:
            found.update(((item.name, spot.line), around) for spot, around in _of_input(item, spots))
        except (OSError, EOFError, ValueError):
            continue
    return found


def _of_input(item: Input, spots: Sequence[Spot]) -> Iterator[tuple[Spot, Around]]:
    if item.member is None and item.path != STDIN_PATH and not is_url(item.path):
        with open_path(item.path) as file:
            head = file.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
            # offsets in UTF-16 count the text as UTF-8
            if compression(head) is None and not head.startswith(_WIDE):
                for spot in spots:
                    if (around := _look_about(item.name, file, spot)) is not None:
                        yield spot, around
                return
    if _size(item) <= _SMALL_BYTES:
        near = {n for spot in spots for n in range(spot.line - _LINES_APART, spot.line + _LINES_APART + 1)}
        lines = list(read_raw(item, near))
        for spot in spots:
            about = [raw for raw in lines if abs(raw.number - spot.line) <= _LINES_APART]
            if (around := _choose(item.name, about, spot)) is not None:
                yield spot, around


def _size(item: Input) -> int:
    """Bytes that lead to the input, as they lie there: to a member leads its whole archive."""
    if item.member is not None and not is_url(item.path):
        return os.stat(item.path).st_size  # noqa: PTH116 (the path is a string)
    return item.size


def _look_about(name: str, file: BinaryIO, spot: Spot) -> Around | None:
    """Reads on both sides of the line, and further only when its writer's other lines are not near."""
    around = None
    for reach in _REACHES:
        window = _window(file, spot, reach)
        around = _choose(name, window, spot)
        if around is None or min(map(len, around)) >= LINES:
            break
    return around


def _window(file: BinaryIO, spot: Spot, reach: int) -> list[RawLine]:
    """The whole lines that many bytes around the line; [] when no line begins at its offset."""
    start = max(spot.offset - reach, 0)
    file.seek(start)
    data = file.read(spot.offset - start)
    rest = file.read(reach + len(spot.text.encode("utf-8", "replace")))
    if data and not data.endswith(b"\n"):
        return []
    if start:
        # what the window begins with may be half a line
        cut = data.find(b"\n") + 1
        start, data = start + cut, data[cut:]
    number = spot.line - data.count(b"\n")
    lines = list(read_raw_lines(io.BytesIO(data + rest), number=number, offset=start))
    return lines[:-1] if lines and not lines[-1].complete and file.read(1) else lines


def _choose(name: str, window: Sequence[RawLine], spot: Spot) -> Around | None:
    """The nearest lines of the same writer; None when the line is not in the window."""
    unwrapper = Unwrapper(name)
    raws = list(unwrapper.learn(window))
    at = next((index for index, raw in enumerate(raws) if raw.number == spot.line and _is_it(raw, spot)), None)
    if at is None:
        return None
    own = unwrapper.lines(raws[at])[:1]

    def nearest(others: Iterable[RawLine]) -> Iterator[str]:
        left = LINES
        for raw in others:
            text = raw.text.strip()
            if raw.number > spot.line and _NEXT_STACK.match(text):
                return
            # a line that was broken by its terminal is quoted whole
            if not text or raw.number == spot.line or (len(text) >= _TELLING and text in spot.text):
                continue
            if any(_is_another_s(own[0], line) for line in unwrapper.lines(raw)[:1]):
                continue
            yield raw.text
            left -= 1
            if not left:
                return

    before = tuple(nearest(reversed(raws[:at])))[::-1]
    return Around(before, tuple(nearest(raws[at + 1 :])))


def _is_it(raw: RawLine, spot: Spot) -> bool:
    return raw.text == spot.text or (
        min(len(raw.text), len(spot.text)) >= _TELLING and (spot.text in raw.text or raw.text in spot.text)
    )


def _is_another_s(own: Line, other: Line) -> bool:
    """Whether two lines say that different writers wrote them."""
    if own.stream != other.stream:
        return True
    told = ((getattr(own, name), getattr(other, name)) for name in _TOLD_BY[1:])
    return any(mine is not None and its is not None and mine != its for mine, its in told)
