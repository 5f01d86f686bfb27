"""Finds the line of a TOML file that a key stands on, so that a complaint about it can name the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

from hangscope.expressions import expression

_HEADER = expression(r"^\s*(?P<open>\[\[?)\s*(?P<name>[\w.\"' -]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = expression(r"^\s*(?P<key>[\w.\"'-]+)\s*=")
# Python 3.11 to 3.14: "(at line 3, column 5)", "(at end of document)"
_PLACE = expression(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
_PART = expression(r"(?P<name>[^.\[\]]+)(?:\[(?P<number>\d+)\])?")
# what may hold brackets and quotes that mean nothing: strings over several lines, strings, comments
_STRINGS = expression(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''.*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*",
    re.DOTALL,
)


def find_line(text: str, path: str) -> int:
    """Number of the line, from 1 on, that a key stands on.

    Where the key itself is not there, the line of the table that should have it; 1 for the top.

    Args:
        text: the file; it needs to be no valid TOML.
        path: of the key, as `Table.path` writes it: ``weight``, ``when.all[1].fact``, ``remedies[0].text``.
    """
    bare = _without_strings(text)
    lines = bare.split("\n")
    best = 1
    tables = list(_tables(lines))
    parts = [
        (found["name"], None if found["number"] is None else int(found["number"])) for found in _PART.finditer(path)
    ]
    for length in range(len(parts) + 1):
        wanted = tuple((name, number or 0) for name, number in parts[:length])
        for name, first, last in tables:
            if name == wanted:
                best = max(best, first)
                rest = parts[length:]
                if rest and (at := _find_key(lines, first, last, rest)) is not None:
                    return at
    return best


def line_of_error(error: tomllib.TOMLDecodeError, text: str) -> tuple[str, int]:
    """What tomllib complains about, without the place, and the line of the place."""
    found = _PLACE.search(str(error))
    message = _PLACE.sub("", str(error))
    # "at end of document" names no line
    return message, int(found["line"]) if found and found["line"] else max(1, len(text.splitlines()))


def line_of_byte(data: bytes, offset: int) -> int:
    """Number of the line that a byte stands in, from 1 on."""
    return data.count(b"\n", 0, offset) + 1


def _without_strings(text: str) -> str:
    """The text with strings and comments blanked, line by line as long as before."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", "~", found[0])

    return _STRINGS.sub(blank, text)


def _tables(lines: list[str]) -> Iterator[tuple[tuple[tuple[str, int], ...], int, int]]:
    """Every table: its path with numbers, the line of its head, and the last line of it."""
    heads: list[tuple[tuple[tuple[str, int], ...], int]] = [((), 1)]
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        found = _HEADER.match(line)
        if not found:
            continue
        name = found["name"]
        if found["open"] == "[[":
            seen[name] = seen.get(name, -1) + 1
        parts = name.split(".")
        path = tuple((part.strip(), seen.get(".".join(parts[: depth + 1]), 0)) for depth, part in enumerate(parts))
        heads.append((path, number))
    ends = [at - 1 for _, at in heads[1:]] + [len(lines)]
    for (path, at), end in zip(heads, ends, strict=True):
        yield path, at, end


def _find_key(lines: list[str], first: int, last: int, rest: list[tuple[str, int | None]]) -> int | None:
    """The line of a key of one table, or of an entry of its inline tables."""
    name, index = rest[0]
    for number in range(first, last + 1):
        found = _KEY.match(lines[number - 1])
        if found and found["key"].strip("\"'") == name:
            is_plain = len(rest) == 1 and index is None
            return number if is_plain else _entry(lines, number, last, index or 0, rest[1:])
    return None


def _entry(lines: list[str], first: int, last: int, index: int, rest: list[tuple[str, int | None]]) -> int:
    """The line of an entry of a list of inline tables, or of a key in it."""
    opened = -1
    at = first
    for number in range(first, last + 1):
        line = lines[number - 1]
        for position, sign in enumerate(line):
            opened += sign == "{"
            if opened == index and sign == "{":
                at = number
            if opened == index and rest and re.match(rf"\b{re.escape(rest[0][0])}\s*=", line[position:]):
                return number
        if opened > index:
            break
    return at
