"""Takes apart a frame of C or C++ as gdb prints it; names hold blanks, commas and parentheses themselves."""

from __future__ import annotations

import functools

from hangscope.expressions import expression
from hangscope.model import Frame
from hangscope.parse.stacks.builder import MAX_NAME, MAX_PATH

_ADDRESS = expression(r"0x[0-9a-f]{1,16}(?: <[^>]*>)?(?: in)? ")
_AT = expression(r" at ((?:target:)?[^\s()]{1,400}):(\d{1,9})$")
_FROM = expression(r" from ((?:target:)?[^()]{1,400})$")
_EU_LIBRARY = expression(r" - (/\S+)$")
_EU_SOURCE = expression(r" (/?[\w./+-]+):(\d{1,9})(?::\d+)?$")
_ARGUMENT = expression(r"[\w.$:]+=")


@functools.lru_cache(maxsize=2048)
def split_native(text: str) -> Frame:
    """The frame of ``[0xADDR in] FUNC (ARGS) [at FILE:LINE | from LIB]``."""
    text = text.rstrip()
    file: str | None = None
    number: int | None = None
    if found := _AT.search(text, max(0, len(text) - 2 * MAX_PATH)):
        file, number = found[1], int(found[2])
    elif found := _FROM.search(text, max(0, len(text) - 2 * MAX_PATH)):
        file = found[1].strip()
    elif found := _EU_LIBRARY.search(text, max(0, len(text) - 2 * MAX_PATH)):
        file = found[1]
    elif "(" not in text and (found := _EU_SOURCE.search(text, max(0, len(text) - 2 * MAX_PATH))):
        file, number = found[1], int(found[2])
    rest = text[: found.start()] if found else text
    rest = _ADDRESS.sub("", rest + " ", count=1).strip()
    name = _without_arguments(rest) or text.partition(" ")[0]
    return Frame(name[:MAX_NAME], file.removeprefix("target:")[-MAX_PATH:] if file else None, number, native=True)


def _without_arguments(text: str) -> str:
    """Cuts the values of the arguments off, the last pair of parentheses; those of a C++ signature stay."""
    if not text.endswith(")"):
        at = text.find(" (")
        return text if at < 0 or not _ARGUMENT.match(text, at + 2) else text[:at]
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return text[:at].rstrip() if at and text[at - 1] == " " else text
    return text[: text.find(" (")]
