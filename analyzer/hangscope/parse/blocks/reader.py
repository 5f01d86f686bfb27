"""Keeps the open block of every stream of one input, and gives it the lines that it takes."""

from __future__ import annotations

import functools
import re

from hangscope.model import Event, Line
from hangscope.parse.blocks.kinds import Block, Kind, all_kinds

MOST_CHARS = 4096
"""What stands behind them on a line is no cell of a table."""


class BlockReader:
    """The blocks of one input; their events go into the list that it was given."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._begins = _begins()
        self._open: dict[tuple[str, int | None], Block] = {}

    def feed(self, line: Line) -> bool:
        """Takes one line; False when it is part of no block."""
        text = line.text
        begins = self._begins.match(text) is not None
        if not begins and not self._open:
            return False
        text = text[:MOST_CHARS]
        stream = (line.stream, line.rank)
        if (block := self._open.get(stream)) is not None:
            if (found := block.feed(line, text)) is not None:
                self._events += found
                return True
            self._events += self._open.pop(stream).end()
        if begins:
            for begins_one, kind in _each():
                if begins_one.match(text) and (opened := kind.open_block(line, text)) is not None:
                    self._open[stream] = opened
                    return True
        return False

    def finish(self) -> None:
        """Ends the input."""
        for block in self._open.values():
            self._events += block.end()
        self._open.clear()


@functools.cache
def _each() -> tuple[tuple[re.Pattern[str], Kind], ...]:
    return tuple((re.compile(rf"\s*(?:{kind.BEGINS})"), kind) for kind in all_kinds())


@functools.cache
def _begins() -> re.Pattern[str]:
    return re.compile(r"\s*(?:" + "|".join(f"(?:{kind.BEGINS})" for kind in all_kinds()) + ")")
