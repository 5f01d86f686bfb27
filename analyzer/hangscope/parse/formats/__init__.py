"""Formats that are not lines; one module each, found by being there.

A module declares ``KINDS`` (what `sniff` may say of such a file), ``recognizes(head)`` (whether a file that begins with
these bytes is of this format) and ``read(name, stream, size)``, which gives a `ParsedSource` and raises OSError or
ValueError for what is broken. ``ORDER`` (0 when absent) decides who is asked first: lower first.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import BinaryIO, Protocol

from hangscope.parse.source import ParsedSource
from hangscope.sources.sniff import Kind

__all__ = ["Format", "find_format"]


class Format(Protocol):
    """What a module of this package provides."""

    KINDS: tuple[Kind, ...]

    def recognizes(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes (some thousands) is of this format."""

    def read(self, name: str, stream: BinaryIO, size: int) -> ParsedSource:
        """Reads the whole file."""


def find_format(kind: Kind, head: bytes) -> Format | None:
    """The format of a file, by its kind and its first bytes; None for plain lines and for what nobody knows."""
    return next((f for f in _formats() if kind in f.KINDS and f.recognizes(head)), None)


@functools.cache
def _formats() -> tuple[Format, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules: list[Format] = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted(modules, key=lambda module: getattr(module, "ORDER", 0)))
