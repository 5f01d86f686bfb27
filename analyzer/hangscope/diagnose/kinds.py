"""Lists every fact kind with its fields, as the grammars and the facts modules declare them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

import hangscope.facts
from hangscope.errors import RuleError
from hangscope.grammar import load_grammars


@functools.cache
def known_kinds() -> Mapping[str, frozenset[str]]:
    """Fields of each fact kind.

    Raises:
        RuleError: two sources declare one kind.
    """
    found: dict[str, frozenset[str]] = {}
    for grammar in load_grammars():
        for alternative in grammar.alternatives:
            _add(found, alternative.kind, frozenset(alternative.fields))
    for module in pkgutil.iter_modules(hangscope.facts.__path__):
        declared = importlib.import_module(f"hangscope.facts.{module.name}")
        for kind, fact in getattr(declared, "KINDS", {}).items():
            _add(found, kind, frozenset(fact.fields))
    return MappingProxyType(found)


def _add(found: dict[str, frozenset[str]], kind: str, fields: frozenset[str]) -> None:
    if kind in found:
        raise RuleError(f"the fact kind {kind!r} is declared twice")
    found[kind] = fields
