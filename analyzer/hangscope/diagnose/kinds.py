"""Lists every fact kind with its fields, as the grammars and the facts modules declare them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import hangscope.facts
from hangscope.grammar import load_grammars


@functools.cache
def known_kinds() -> Mapping[str, frozenset[str]]:
    """Fields of each fact kind; a kind with several wordings has the fields of all of them."""
    found: dict[str, frozenset[str]] = {}
    for _, kind, fields in declared_kinds():
        found[kind] = found.get(kind, frozenset()) | fields
    return MappingProxyType(found)


def declared_kinds() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Every declaration: who makes it (grammar file or module), the kind, its fields."""
    for grammar in load_grammars():
        for alternative in grammar.alternatives:
            yield grammar.file, alternative.kind, frozenset(alternative.fields)
    for module in pkgutil.iter_modules(hangscope.facts.__path__):
        name = f"hangscope.facts.{module.name}"
        for kind, fact in getattr(importlib.import_module(name), "KINDS", {}).items():
            yield name, kind, frozenset(fact.fields)
