"""The tools that dump stacks; one module each, found by being there.

A module declares ``BEGINS`` (with what a line begins that can open a dump) and ``Reader``, a class made with a
`Builder` for each stream. ``ORDER`` (0 when absent) decides who is asked first: lower first.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from hangscope.parse.stacks.builder import Tool

__all__ = ["all_tools"]


@functools.cache
def all_tools() -> tuple[Tool, ...]:
    """All modules of this package, in the order in which they are asked."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules: list[Tool] = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(sorted(modules, key=lambda module: getattr(module, "ORDER", 0)))
