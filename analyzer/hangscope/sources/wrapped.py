"""Joins lines that a terminal broke at its width: what people copy off a screen has messages in pieces.

A file counts as broken at a width when no line is longer, and several lines that begin with a header of PyTorch or NCCL
have just that length: messages of different lengths do not end there by chance. Only such lines are joined with what
follows them, up to the next line that begins by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hangscope.expressions import expression
from hangscope.sources.decode import RawLine

_NARROWEST, _WIDEST = 72, 400
_FEWEST = 2
_MOST_PIECES = 12
_HEADED = expression(
    r"(?:[\w().\-\[\]:,<> ]{0,80})?"
    r"(?:\[[DIWEFC]\d{0,4}(?: [\d:.]+)? ?[\w./-]+\.(?:cpp|cc|cu|hpp|h):\d+\] |\[\d+\] NCCL [A-Z]+ )"
)
_BEGINS = expression(
    r"\[(?:default|rank|Gloo|W|E|I)|\[\d+[,\]:]|\d{4}-\d\d-\d\d|[DIWEF]\d{4} |[\w.\-]+:\d+:\d+ \[|"
    r"Traceback|  File |frame #|"
    r"\{\"|.{0,160}?:\d+:\d+ \[-?\d+\] NCCL [A-Z]+ |"
    r"\w+(?:Error|Exception|Warning)\b|[\w.\-]+: |Exception raised|terminate called|\s*what\(\)|\s*$"
)


def width_of(texts: Sequence[str]) -> int:
    """The width at which a terminal broke these lines; 0 when none did."""
    width = max(map(len, texts), default=0)
    if not _NARROWEST <= width <= _WIDEST:
        return 0
    ends = [place for place, text in enumerate(texts[:-1]) if len(text) == width]
    full = sum(1 for place in ends if _is_broken(texts[place], texts[place + 1]))
    return width if full >= _FEWEST else 0


def join_wrapped(lines: Iterable[RawLine], width: int) -> Iterator[RawLine]:
    """The lines with the pieces of each broken message put together; the first piece gives number and offset."""
    held: RawLine | None = None
    last, pieces = "", 0
    for line in lines:
        if held is not None and len(last) == width and pieces < _MOST_PIECES and not _begins(line.text):
            last, pieces = line.text, pieces + 1
            held = held._replace(text=held.text + line.text, end=line.end, complete=line.complete)
            continue
        if held is not None:
            yield held
            held = None
        if len(line.text) == width and _HEADED.match(line.text):
            held, last, pieces = line, line.text, 1
        else:
            yield line
    if held is not None:
        yield held


def _is_broken(text: str, after: str) -> bool:
    return bool(_HEADED.match(text)) and bool(after) and not _begins(after)


def _begins(text: str) -> bool:
    """Whether a line begins by itself."""
    return _BEGINS.match(text) is not None or _HEADED.match(text) is not None
