"""Tells where the fields of a message stand, for all texts that differ in their digits only.

Whether and where an expression without digits of its own matches is the same for all of them, so the fields of the next
such text can be cut out of it. A few digits belong to words, in texts and in expressions: these count as letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from hangscope.expressions import expression
from hangscope.model import Value
from hangscope.records import dataclass

Group = tuple[str, str, Callable[[str], Value]]
"""A group of an expression, the field that it is a place of, and what makes a value of its text."""

_BLANKED = bytes.maketrans(b"123456789", b"0" * 9)
_WORDS = ((b"0x", b"\x00x"), (b"P2", b"P\x02"), (b"p2", b"p\x02"), (b"mlx5", b"mlx\x05"))
"""Words with a digit, and what they are in a template: no text has these characters once it is clean."""
_PLAIN = bytes.maketrans(b"\x00\x02\x05", b"000")
# an escaped character, a set of characters, or a name or number of repeats, which may hold digits and tells none apart
_PART = expression(r"(?P<part>\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\(\?P<\w+>|\{\d*,?\d*\}")
_ALL_DIGITS = "0-9"
_WORD = expression(r"(?:0x|[Pp]2|mlx5)(?![?*+{])")
_DIGIT = expression(r"\d|\(\?P=")
# of which none is inside another one
_LOOKAROUND = expression(r"\(\?<?!(?:[^()\\]|\\.)*\)")


@dataclass(frozen=True, slots=True)
class Layout:
    """One message in all texts of a template.

    Attributes:
        source: of its grammar.
        kind: of the event.
        start, end: where it stands in the text.
        fixed: all fields, with the values of those that hold no digit.
        varying: the others: name, place, and what makes a value of the text there.
    """

    source: str
    kind: str
    start: int
    end: int
    fixed: dict[str, Value]
    varying: tuple[tuple[str, slice, Callable[[str], Value]], ...]

    def fields(self, text: str) -> dict[str, Value]:
        """The fields of the message in one of the texts."""
        fields = self.fixed.copy()
        for name, place, convert in self.varying:
            fields[name] = convert(text[place])
        return fields


def blank(text: str) -> str:
    """What all texts that differ in their digits only have in common (their template): every digit is a zero."""
    # ten times as fast as to translate the text; half a character can come from JSON
    data = text.encode("utf-8", "surrogatepass")
    for word, kept in _WORDS:
        data = data.replace(word, kept)
    return data.translate(_BLANKED).decode("utf-8", "surrogatepass")


def plain(template: str) -> str:
    """A template without the words that count as letters in it: all their digits are zeros, too."""
    return template.encode("utf-8", "surrogatepass").translate(_PLAIN).decode("utf-8", "surrogatepass")


def tells_apart(pattern: str) -> bool:
    """Whether an expression may match one text and not another of the same template, or another part of it."""
    parts = [found["part"] for found in _PART.finditer(pattern) if found["part"] is not None]
    rest = _PART.sub(" ", pattern)
    if "(?i" not in pattern:
        rest = _WORD.sub(" ", rest)
    return any(_DIGIT.search(part.replace(_ALL_DIGITS, "")) for part in (*parts, rest))


def widened(pattern: str) -> str | None:
    """An expression that matches, with any digits, where the one given matches with some; None where there is no such.

    What it does not match, no text of the same template can be.
    """
    without = _LOOKAROUND.sub(lambda found: "" if _DIGIT.search(found[0]) is None else found[0], pattern)
    if "(?!" in without or "(?<!" in without or "(?P=" in pattern or "(?(" in pattern:
        return None
    made, at = [], 0
    for found in _PART.finditer(pattern):
        part = found[0]
        if found["part"] is not None and _DIGIT.search(part.replace(_ALL_DIGITS, "")):
            if part[0] == "\\" or part[1] == "^":
                return None
            part = f"[{_ALL_DIGITS}{part[1:]}"
        made += [_DIGIT.sub(r"\\d", pattern[at : found.start()]), part]
        at = found.end()
    return "".join(made) + _DIGIT.sub(r"\\d", pattern[at:])


def lay_out(source: str, kind: str, found: re.Match[str], groups: Iterable[Group]) -> Layout:
    """The layout of a message that was found in a text; each field has the first place of it that took part."""
    fixed: dict[str, Value] = {}
    varying = []
    for group, name, convert in groups:
        value = found.group(group)
        if value is None or name in fixed:
            continue
        fixed[name] = convert(value)
        if blank(value) != value or "0" in value:
            varying.append((name, slice(*found.span(group)), convert))
    return Layout(source, kind, found.start(), found.end(), fixed, tuple(varying))
