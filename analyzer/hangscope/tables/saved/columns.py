"""Dataclasses as columns of plain JSON values and back, with every value's type checked on the way back.

A column whose values are all equal is kept once, as ``{"all": value}``; of most columns of log lines that is true.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, TypeVar

Kind = TypeVar("Kind")

_TYPES: dict[str, frozenset[type]] = {
    "str": frozenset({str}),
    "int": frozenset({int}),
    "bool": frozenset({bool}),
    "float": frozenset({float, int}),
    "str | None": frozenset({str, type(None)}),
    "int | None": frozenset({int, type(None)}),
    "bool | None": frozenset({bool, type(None)}),
    "float | None": frozenset({float, int, type(None)}),
}
_TEXTS = "tuple[str, ...]"
_MAPPING = "dict[str, str]"


class DamagedError(ValueError):
    """What was saved is not what hangscope writes."""


def plain_fields(kind: type) -> dict[str, str]:
    """The fields of a dataclass (or named tuple) that are plain values, and their types; references are left out."""
    if dataclasses.is_dataclass(kind):
        types = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    else:
        types = {name: str(getattr(of, "__forward_arg__", of)) for name, of in kind.__annotations__.items()}
    return {name: of for name, of in types.items() if of in _TYPES or of in (_TEXTS, _MAPPING)}


def to_columns(kind: type, objects: Sequence[object], without: Iterable[str] = ()) -> dict[str, Any]:
    """The plain fields of objects of one kind as columns, and their number as ``n``."""
    columns: dict[str, Any] = {"n": len(objects)}
    for name in plain_fields(kind):
        if name not in without:
            columns[name] = pack(list(map(attrgetter(name), objects)))
    return columns


def from_columns(kind: type[Kind], columns: dict[str, Any], **given: Iterable[object]) -> list[Kind]:
    """The objects that `to_columns` made these columns of.

    Args:
        kind: their class.
        columns: may lack columns for which the class has a default.
        **given: columns of the fields that are not plain, or known otherwise.

    Raises:
        DamagedError: a column is missing, too short, or holds something else than it should.
    """
    count = count_of(columns)
    types = plain_fields(kind)
    values: dict[str, Iterable[object]] = {}
    for name in _names(kind):
        if name in given:
            values[name] = given[name]
        elif name in columns:
            values[name] = unpack(columns[name], count, types[name])
        # a field that came with a later version has its default
    names = list(values)
    try:
        if names == _names(kind)[: len(names)]:
            objects = list(map(kind, *values.values()))
        else:
            objects = [kind(**dict(zip(names, row, strict=True))) for row in zip(*values.values(), strict=False)]
    except TypeError as error:
        raise DamagedError(f"fields of {kind.__name__} are missing") from error
    if len(objects) != count:
        raise DamagedError(f"columns of {kind.__name__} are too short")
    return objects


def _names(kind: type) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.init]
    return list(kind.__annotations__)


def pack(values: list[Any]) -> Any:  # noqa: ANN401 (what JSON takes)
    """A column; its one value when all are equal and of one type (True is no 1)."""
    if len(values) > 1:
        first = values[0]
        same_type = len(set(map(type, values))) == 1
        if same_type and values.count(first) == len(values) and not isinstance(first, (list, dict)):
            return {"all": first}
    return values


def unpack(column: object, count: int, of: str) -> Iterable[Any]:
    """The values of a column, checked to be of a type as the dataclass names it.

    Raises:
        DamagedError: they are not, or are fewer than `count`.
    """
    if isinstance(column, dict) and column.keys() == {"all"}:
        return repeat(_checked([column["all"]], of)[0], count)
    if not isinstance(column, list) or len(column) != count:
        raise DamagedError("a column is too short")
    return _checked(column, of)


def _checked(values: list[Any], of: str) -> list[Any]:
    if of == _TEXTS:
        if not all(type(value) is list and set(map(type, value)) <= {str} for value in values):
            raise DamagedError("a value is no list of texts")
        return list(map(tuple, values))
    if of == _MAPPING:
        if not all(type(value) is dict and set(map(type, value.values())) <= {str} for value in values):
            raise DamagedError("a value is no mapping of texts")
        return values
    if not set(map(type, values)) <= _TYPES[of]:
        raise DamagedError(f"a value is not of the type {of}")
    if of == "str":
        # few hosts, streams and levels, many lines
        known: dict[str, str] = {}
        return [known.setdefault(value, value) for value in values]
    return values


def count_of(columns: object) -> int:
    """How many objects the columns are of."""
    count = columns.get("n") if isinstance(columns, dict) else None
    if type(count) is not int or count < 0:
        raise DamagedError("columns without a number of rows")
    return count


def places(values: object, count: int) -> list[int]:
    """Numbers that name something in a list of `count` things.

    Raises:
        DamagedError: they do not.
    """
    if not isinstance(values, list) or not set(map(type, values)) <= {int}:
        raise DamagedError("a reference is no number")
    if values and not 0 <= min(values) <= max(values) < count:
        raise DamagedError("a reference leads nowhere")
    return values
