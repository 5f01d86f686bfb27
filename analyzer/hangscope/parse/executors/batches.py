"""Puts inputs together to pieces of work that are worth sending to a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from hangscope.sources.inputs import Input

_BYTES = 16 << 20
_FILES = 32
_ARCHIVE_PARTS = 4
"""Members are read in order, and whoever reads the last ones passes through the whole archive for them."""


def batches(inputs: Sequence[Input]) -> Iterator[tuple[int, ...]]:
    """Positions of inputs that one worker reads together: small files, or members of one archive that follow."""
    for (_, in_archive), group in groupby(range(len(inputs)), lambda index: _place(inputs[index])):
        indices = list(group)
        total = sum(inputs[index].size for index in indices)
        most_bytes = max(_BYTES, total // _ARCHIVE_PARTS) if in_archive else _BYTES
        most_files = max(_FILES, len(indices) // _ARCHIVE_PARTS) if in_archive else _FILES
        yield from _filled(inputs, indices, most_bytes, most_files)


def _place(item: Input) -> tuple[str, bool]:
    return (item.path, True) if item.member is not None else ("", False)


def _filled(
    inputs: Sequence[Input], indices: Sequence[int], most_bytes: int, most_files: int
) -> Iterator[tuple[int, ...]]:
    batch: list[int] = []
    size = 0
    for index in indices:
        if batch and (size + inputs[index].size > most_bytes or len(batch) >= most_files):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(index)
        size += inputs[index].size
    if batch:
        yield tuple(batch)
