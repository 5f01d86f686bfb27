"""Knows the causes: their ids, families, roles and meanings, as ``rules/causes.toml`` lists them."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hangscope.cache import kept, stamp, stamps
from hangscope.errors import RuleError
from hangscope.model import Role
from hangscope.records import dataclass
from hangscope.resources import rules_dir

NO_FAULT_FOUND = "no-fault-found"
INSUFFICIENT_EVIDENCE = "insufficient-evidence"
BOOKKEEPING_FAMILY = "none"
"""Family of the verdicts that blame nobody."""

_KEYS = frozenset({"family", "role", "means", "looks", "why", "confirm"})


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of the catalogue.

    Attributes:
        family: the folder that holds its rules.
        means: what has happened.
        looks: how that looks in logs, dumps and tables.
        why: how it comes about.
        confirm: what settles it, in whole sentences; a command stands at the end, behind a colon.
    """

    id: str
    family: str
    role: Role
    means: str
    looks: str
    why: str
    confirm: tuple[str, ...]


@functools.cache
def causes() -> Mapping[str, Cause]:
    """The shipped catalogue, in file order, by id."""
    path = rules_dir() / "causes.toml"
    made_of = [stamp(path), *stamps(Path(__file__).parent, ".py")]
    return kept("causes", made_of, lambda: read_causes(path), _pack, _unpack)


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


def _pack(catalogue: Mapping[str, Cause]) -> object:
    return [dataclasses.astuple(cause) for cause in catalogue.values()]


def _unpack(packed: Any) -> Mapping[str, Cause]:  # noqa: ANN401 - what was in the file
    found = (
        Cause(name, family, Role(role), means, looks, why, tuple(confirm))
        for name, family, role, means, looks, why, confirm in packed
    )
    return MappingProxyType({cause.id: cause for cause in found})


def _cause(file: str, name: str, table: object) -> Cause:
    if not isinstance(table, dict):
        raise RuleError(f"{file}: {name}: must be a table")
    for key in sorted(_KEYS - table.keys()):
        raise RuleError(f"{file}: {name}.{key}: is missing")
    for key in sorted(table.keys() - _KEYS):
        raise RuleError(f"{file}: {name}.{key}: unknown key")
    if table["role"] not in set(Role):
        raise RuleError(f"{file}: {name}.role: must be one of {', '.join(Role)}, is {table['role']!r}")
    if not isinstance(table["confirm"], list) or not table["confirm"]:
        raise RuleError(f"{file}: {name}.confirm: must be a list of strings that is not empty")
    texts = [table["family"], table["means"], table["looks"], table["why"], *table["confirm"]]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise RuleError(f"{file}: {name}: its texts must be strings that are not empty")
    return Cause(
        id=name,
        family=table["family"],
        role=Role(table["role"]),
        means=table["means"],
        looks=table["looks"],
        why=table["why"],
        confirm=tuple(table["confirm"]),
    )
