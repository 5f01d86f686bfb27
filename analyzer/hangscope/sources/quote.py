"""Reads single lines of inputs again, to quote them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from hangscope.sources.decode import Rest, read_raw_lines
from hangscope.sources.inputs import Input

MAX_BYTES = 256 << 20
"""Of larger inputs no line is read again: it would take longer than it helps."""


def read_lines(inputs: Iterable[Input], wanted: Mapping[str, AbstractSet[int]]) -> dict[tuple[str, int], str]:
    """Lines by input name and number. What cannot be read a second time (standard input) is left out.

    Args:
        inputs: the inputs of the analysis.
        wanted: numbers of lines (from 1), by name of their input.
    """
    found: dict[tuple[str, int], str] = {}
    for item in inputs:
        numbers = wanted.get(item.name)
        if numbers and item.rereadable and (item.size or 0) <= MAX_BYTES:
            try:
                found.update(_of_input(item, numbers))
            except (OSError, EOFError, ValueError):
                continue
    return found


def _of_input(item: Input, numbers: AbstractSet[int]) -> dict[tuple[str, int], str]:
    ordered = sorted(numbers)
    last = ordered[-1]
    found: dict[tuple[str, int], str] = {}

    def pass_over(block: bytes, first: int, _end: int) -> tuple[int, Rest] | None:
        """Blocks without a line that is wanted are not split."""
        count = block.count(b"\n") + 1
        at = bisect.bisect_left(ordered, first)
        return None if at < len(ordered) and ordered[at] < first + count else (count, ())

    with item.open() as stream:
        for raw in read_raw_lines(stream, pass_over):
            if raw.number in numbers:
                found.setdefault((item.name, raw.number), raw.text)
            if raw.number >= last:
                break
    return found
