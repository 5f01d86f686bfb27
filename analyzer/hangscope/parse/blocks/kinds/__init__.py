"""Kinds of blocks; one module each, found by being there.

A module declares ``BEGINS``, a regular expression for the beginning of a line that can open such a block (blanks
aside), and ``open_block(line, text)``, which gives an object that reads the lines behind it, or None when the line
opens no such block. ``feed(line, text)`` of that object gives the events of one more line, or None when the block has
ended before it; ``end()`` gives the events that it still has to tell.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Protocol

from hangscope.model import Event, Line


class Block(Protocol):
    """An open block."""

    def feed(self, line: Line, text: str, /) -> list[Event] | None:
        """The events of one more line; None when the line is no part of the block."""

    def end(self) -> list[Event]:
        """What the block still has to tell."""


class Kind(Protocol):
    """What a module of this package provides."""

    BEGINS: str

    def open_block(self, line: Line, text: str, /) -> Block | None:
        """The block that this line opens."""


@functools.cache
def all_kinds() -> tuple[Kind, ...]:
    """All kinds of blocks, by name of their module."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}") for name in names)
