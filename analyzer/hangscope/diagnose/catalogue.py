"""Knows the causes: their ids, families, roles and meanings, as ``rules/causes.toml`` lists them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hangscope.errors import RuleError
from hangscope.model import Role
from hangscope.resources import rules_dir

NO_FAULT_FOUND = "no-fault-found"
INSUFFICIENT_EVIDENCE = "insufficient-evidence"
BOOKKEEPING_FAMILY = "none"
"""Family of the verdicts that blame nobody."""

_KEYS = frozenset({"family", "role", "means"})


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of the catalogue."""

    id: str
    family: str
    role: Role
    means: str


@functools.cache
def causes() -> Mapping[str, Cause]:
    """The shipped catalogue, in file order, by id."""
    return read_causes(rules_dir() / "causes.toml")


def families() -> tuple[str, ...]:
    """Families in the order of the catalogue."""
    return tuple(dict.fromkeys(cause.family for cause in causes().values()))


def read_causes(path: Path) -> Mapping[str, Cause]:
    """Reads a catalogue.

    Raises:
        RuleError: the file is no TOML, or an entry lacks a key or has a wrong one.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"{path.name}: {error}") from error
    return MappingProxyType({name: _cause(path.name, name, table) for name, table in tables.items()})


def _cause(file: str, name: str, table: object) -> Cause:
    if not isinstance(table, dict):
        raise RuleError(f"{file}: {name}: must be a table")
    for key in sorted(_KEYS - table.keys()):
        raise RuleError(f"{file}: {name}.{key}: is missing")
    for key in sorted(table.keys() - _KEYS):
        raise RuleError(f"{file}: {name}.{key}: unknown key")
    if table["role"] not in set(Role):
        raise RuleError(f"{file}: {name}.role: must be one of {', '.join(Role)}, is {table['role']!r}")
    return Cause(name, str(table["family"]), Role(table["role"]), str(table["means"]))
