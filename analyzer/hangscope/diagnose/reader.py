"""Takes typed keys out of a TOML table, and says exactly which key of which file is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import TypeVar

from hangscope.errors import RuleError
from hangscope.model import Role
from hangscope.records import dataclass

_T = TypeVar("_T")

_NAMES = {dict: "a table", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Table:
    """A TOML table, where it stands, and the keys it may have."""

    file: str
    at: str
    values: Mapping[str, object]

    def error(self, key: str, what: str, advice: str = "") -> RuleError:
        """The error for a key of this table."""
        return RuleError(f"{self.file}: {self.path(key)}: {what}", advice, self.path(key))

    def path(self, key: str) -> str:
        return ".".join(part for part in (self.at, key) if part)

    def allow(self, keys: Collection[str]) -> None:
        """Refuses keys outside of the list."""
        for key in self.values:
            if key not in keys:
                raise self.error(key, f"unknown key{suggest(key, keys)}")

    def text(self, key: str, default: str | None = None, among: Collection[str] = ()) -> str:
        """A string that is not empty; without a default it must be there."""
        if key not in self.values and default is not None:
            return default
        value = self._typed(key, str, "must be a string")
        if not value.strip():
            raise self.error(key, "is empty")
        if among and value not in among:
            raise self.error(key, f"must be one of {', '.join(among)}, is {value!r}{suggest(value, among)}")
        return value

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of strings; a required one must not be empty."""
        if key not in self.values and not required:
            return ()
        value = self._typed(key, list, "must be a list of strings")
        if required and not value:
            raise self.error(key, "is empty")
        for item in value:
            if not isinstance(item, str) or not item.strip():
                raise self.error(key, f"must be a list of strings, holds {item!r}")
        return tuple(value)

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """A number within limits."""
        value = self.values.get(key, default)
        if value is None:
            raise self.error(key, "is missing")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"must be a number, is {type_name(value)}")
        if not low <= value <= high:
            raise self.error(key, f"must lie between {low:g} and {high:g}, is {value:g}")
        return value

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number within limits."""
        value = self.number(key, low, high, default)
        if not isinstance(value, int):
            raise self.error(key, f"must be a whole number, is {value!r}")
        return value

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        if key not in self.values and default is not None:
            return default
        return self._typed(key, bool, "must be true or false")

    def table(self, key: str) -> Table:
        """A table that must be there."""
        return Table(self.file, self.path(key), self._typed(key, dict, "must be a table"))

    def tables(self, key: str) -> tuple[Table, ...]:
        """A list of tables, empty when the key is not there."""
        if key not in self.values:
            return ()
        found = []
        for number, item in enumerate(self._typed(key, list, "must be a list of tables")):
            if not isinstance(item, dict):
                raise self.error(f"{key}[{number}]", f"must be a table, is {type_name(item)}")
            found.append(Table(self.file, self.path(f"{key}[{number}]"), item))
        return tuple(found)

    def role(self, key: str) -> Role:
        return Role(self.text(key, among=tuple(Role)))

    def _typed(self, key: str, kind: type[_T], demand: str) -> _T:
        if key not in self.values:
            raise self.error(key, "is missing")
        value = self.values[key]
        if not isinstance(value, kind):
            raise self.error(key, f"{demand}, is {type_name(value)}")
        return value


def type_name(value: object) -> str:
    """What a TOML value is, for a message."""
    return _NAMES.get(type(value), "a date or time")


def suggest(name: str, known: Collection[str]) -> str:
    """`` (did you mean ...?)`` when something close is known, else nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=2)
    return f" (did you mean {' or '.join(close)}?)" if close else ""
