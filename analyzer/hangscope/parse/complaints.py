"""Keeps warnings and errors that no grammar knows: the first of each writer and wording, numbers aside."""

from __future__ import annotations

import re

from hangscope.expressions import expression
from hangscope.model import Event, Line
from hangscope.parse.columns import WriterKey

KIND = "complaint"

_LEVELS = frozenset({"WARN", "ATTN", "ABORT", "WARNING", "ERROR", "CRITICAL", "W", "E", "F"})
# pieces to look for first: the expression is slower, and most lines are progress
_PIECES = (
    "rror",
    "RROR",
    "ail",
    "AIL",
    "arn",
    "ARN",
    "xception",
    "atal",
    "ATAL",
    "nable",
    "annot",
    "ould not",
    "enied",
)
_WORDS = expression(
    r"\b(?:errors?|warn(?:ing)?|fail(?:ed|ure|s)?|exception|fatal|unable|cannot|could not)\b", re.IGNORECASE
)
_WITH_DIGITS = expression(r"[^\s=,(\[<]*\d[^\s=,)\]>]*")
_LOOK_AT = 300
_TEMPLATE = 200
_OF_A_WRITER = 64
_OF_A_FILE = 2000


def is_complaint(line: Line) -> bool:
    """Whether a line warns or reports an error, by its level, or without one by its words."""
    if line.level:
        return line.level in _LEVELS
    text = line.text[:_LOOK_AT]
    # a bare loop: any() with a generator takes four times as long, on every line of a log
    for piece in _PIECES:
        if piece in text:
            return _WORDS.search(text) is not None
    return False


def template_of(text: str) -> str:
    """The text with every word that holds a digit folded (numbers, addresses, devices), cut to what tells it apart."""
    return _WITH_DIGITS.sub("#", text[: 2 * _TEMPLATE])[:_TEMPLATE]


class Complaints:
    """The complaints of one file, as events of `KIND` with the field ``template``."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._seen: dict[WriterKey, dict[str, Event]] = {}
        self._kept = 0

    def take(self, line: Line, key: WriterKey) -> None:
        """Keeps the line if it complains and is the first of its wording; counts it otherwise."""
        if line.damaged or (line.level and line.level not in _LEVELS) or not is_complaint(line):
            return
        template = template_of(line.text)
        seen = self._seen.setdefault(key, {})
        if (known := seen.get(template)) is not None:
            known.count += 1
        elif len(seen) < _OF_A_WRITER and self._kept < _OF_A_FILE:
            self._kept += 1
            event = seen[template] = Event("any", KIND, {"template": template}, line)
            self._events.append(event)
