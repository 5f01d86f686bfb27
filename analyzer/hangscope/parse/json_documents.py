"""Finds JSON documents in a text, whatever stands around them, and reads what is left of one that was cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from hangscope.expressions import expression
from hangscope.records import dataclass

MOST_DOCUMENTS = 1 << 16
MOST_CHARS = 64 << 20
MOST_BROKEN = 500
"""Reading a damaged document may take as long as all that follows it."""

Json = dict[str, object]

_TOKEN = expression(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_CLOSES = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON object of a text.

    Attributes:
        value: what it holds.
        start, end: where it stands.
        cut: it breaks off, and `value` is what was complete.
    """

    value: Json
    start: int
    end: int
    cut: bool = False


def find_documents(text: str, begins: re.Pattern[str]) -> Iterator[Document]:
    """The objects that begin as the expression says, in order; damaged ones as far as they can be read."""
    at = count = broken = 0
    while count < MOST_DOCUMENTS and broken < MOST_BROKEN and (found := begins.search(text, at)):
        start, count = found.start(), count + 1
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
            cut = False
        except (ValueError, RecursionError):
            later = begins.search(text, found.end())
            end = later.start() if later else len(text)
            value, cut = read_cut(text[start:end]), True
            broken += 1
        if isinstance(value, dict):
            yield Document(value, start, end, cut)
        at = max(end, found.end())


def read_cut(text: str) -> object:
    """The value of a document that breaks off: all of it up to the last object or list that ended; None if nothing."""
    open_: list[str] = []
    best = ""
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark in _CLOSES:
            open_.append(_CLOSES[mark])
            if len(open_) > 100:
                return None
        elif open_ and mark == open_[-1]:
            open_.pop()
            best = f"{found.end()} {''.join(reversed(open_))}"
        elif mark in "}]":
            break
    if not best:
        return None
    end, _, closers = best.partition(" ")
    try:
        return json.loads(text[: int(end)] + closers)
    except (ValueError, RecursionError):
        return None


def objects(value: object) -> list[Json]:
    """The objects of a list; empty for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def part(value: Mapping[str, object], key: str) -> Json:
    """The object under a key; empty when it is not there or something else."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def whole(value: object, most: int = 1 << 63) -> int | None:
    """A whole number that is not negative, also one in quotes; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most else None


def word(value: object, most: int = 200) -> str:
    """A text, shortened; "" for anything else."""
    return value[:most] if isinstance(value, str) else ""


class Lines:
    """Line numbers in a text, asked for in ascending order of places."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._number = 1
        self._start = self._start_bytes = 0

    def number(self, at: int) -> int:
        """The number of the line that a place is on."""
        if at >= self._at:
            self._number += self._text.count("\n", self._at, at)
            self._at = at
        return self._number

    def offset(self, at: int) -> int:
        """The byte offset of the beginning of that line, in UTF-8."""
        start = self._text.rfind("\n", 0, at) + 1
        if start > self._start:
            self._start_bytes += len(self._text[self._start : start].encode("utf-8", "surrogatepass"))
            self._start = start
        return self._start_bytes

    def line_at(self, at: int, most: int = 500) -> str:
        """The text of that line."""
        start = self._text.rfind("\n", max(0, at - most), at) + 1
        end = self._text.find("\n", at, at + most)
        return self._text[start or max(0, at - most) : end if end >= 0 else at + most]
