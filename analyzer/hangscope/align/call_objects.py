"""Finds the communicator objects on which the calls of an input were made: a writer and a pointer each."""

from __future__ import annotations

import itertools

from hangscope.parse.columns import CallColumns


def objects_called(columns: CallColumns) -> tuple[list[tuple[int, int]], list[int]]:
    """The distinct (index of the writer, pointer), and the number of the one that each shape is of."""
    # a thousand files have a quarter of a million shapes: as little Python as can be for each
    if len(columns.writers) == 1:
        pointers = columns.shapes.comm
        numbers = dict(zip(dict.fromkeys(pointers), itertools.count()))
        return [(0, pointer) for pointer in numbers], list(map(numbers.__getitem__, pointers))
    pairs = list(zip(columns.shapes.writer, columns.shapes.comm, strict=True))
    codes = dict(zip(dict.fromkeys(pairs), itertools.count()))
    return list(codes), list(map(codes.__getitem__, pairs))
