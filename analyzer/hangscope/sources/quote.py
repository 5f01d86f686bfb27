"""Reads single lines of inputs again, to quote them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from hangscope.sources.decode import RawLine, Rest, read_raw_lines
from hangscope.sources.inputs import Input

MAX_BYTES = 256 << 20
"""Of larger inputs no line is read again: it would take longer than it helps."""


class Quoted(NamedTuple):
    """A line to quote: as it is shown, and where it begins in the decompressed file."""

    text: str
    offset: int


def read_lines(inputs: Iterable[Input], wanted: Mapping[str, AbstractSet[int]]) -> dict[tuple[str, int], Quoted]:
    """Lines by input name and number. What cannot be read a second time (standard input) is left out.

    Args:
        inputs: the inputs of the analysis.
        wanted: numbers of lines (from 1), by name of their input.
    """
    found: dict[tuple[str, int], Quoted] = {}
    for item in inputs:
        numbers = wanted.get(item.name)
        if numbers and item.rereadable and (item.size or 0) <= MAX_BYTES:
            try:
                found.update(_of_input(item, numbers))
            except (OSError, EOFError, ValueError):
                continue
    return found


def _of_input(item: Input, numbers: AbstractSet[int]) -> dict[tuple[str, int], Quoted]:
    found: dict[tuple[str, int], Quoted] = {}
    for raw in read_raw(item, numbers):
        found.setdefault((item.name, raw.number), Quoted(raw.text, raw.offset))
    return found


def read_raw(item: Input, numbers: AbstractSet[int]) -> Iterator[RawLine]:
    """The lines of these numbers, read from the beginning of the input to the last of them.

    Raises:
        OSError, EOFError, ValueError: the input cannot be read.
    """
    ordered = sorted(numbers)
    last = ordered[-1]

    def pass_over(block: bytes, first: int, _end: int) -> tuple[int, Rest] | None:
        """Blocks without a line that is wanted are not split."""
        count = block.count(b"\n") + 1
        at = bisect.bisect_left(ordered, first)
        return None if at < len(ordered) and ordered[at] < first + count else (count, ())

    with item.open() as stream:
        for raw in read_raw_lines(stream, pass_over):
            if raw.number in numbers:
                yield raw
            if raw.number > last:
                break
