"""Calls that were found in several files at once, and the part of them that is one file's, with numpy."""

from __future__ import annotations

from collections.abc import Mapping

from hangscope.parse import call_numbers
from hangscope.parse.call_codes import distinct
from hangscope.parse.call_layouts import Found, LayoutFinder, News
from hangscope.parse.call_lines import Lines


class Batch:
    """The calls of some files.

    Args:
        texts: whole files, by their names.
        finder: who looks.
    """

    def __init__(self, texts: Mapping[str, bytes], finder: LayoutFinder) -> None:
        self._places: dict[str, int] = {}
        size = 0
        for name, text in texts.items():
            self._places[name] = size
            size += len(text) + 1
        # a file may end without a newline; where one does not, there is an empty line between it and the next
        self._text = b"\n".join(texts.values())
        self._finder = finder
        self._found = finder.find(self._text)
        if self._found is not None:
            keys, parts = self._found.keys, self._found.parts
            firsts, which = distinct(keys)
            numbers = call_numbers.read(self._found.data, parts.middles[firsts], parts.widths[firsts])
            self._news = News(firsts, which, numbers)
        # who knows more layouts, may find other calls
        self._layouts = len(finder.layouts)

    def has(self, name: str, finder: LayoutFinder) -> bool:
        """Whether it has what this finder would find in a file now."""
        return name in self._places and finder is self._finder and len(finder.layouts) == self._layouts

    def found(self, name: str, block: bytes, offset: int) -> Found | None:
        """What was found in a block of a file, at this place in it; None when something else stands there."""
        begin = self._places[name] + offset
        end = begin + len(block)
        # the file has a byte order mark, or was written to
        if self._found is None or self._text[begin:end] != block or self._text[end : end + 1] not in (b"\n", b""):
            return None
        return _part(self._found, self._news, begin, end)


def _part(found: Found, all_news: News, begin: int, end: int) -> Found:
    """What was found between two places."""
    low, high = (int(at) for at in found.lines.starts.searchsorted((begin, end + 1)))
    first, last = (int(at) for at in found.parts.rows.searchsorted((low, high)))
    lines = Lines(found.lines.starts[low:high], found.lines.ends[low:high], found.lines.lengths[low:high])
    parts = found.parts.at(slice(first, last))
    which = all_news.which[first:last]
    news = None
    if first < last:
        least, most = int(which.min()), int(which.max()) + 1
        # the keys of a file follow each other, unless an earlier one has some of them, too
        if all_news.firsts[least] >= first:
            firsts = all_news.firsts[least:most] - first
            news = News(firsts, which - least, all_news.numbers.between(least, most))
    return Found(
        found.data,
        lines,
        parts.further_up(low),
        found.around[first:last],
        found.keys[first:last],
        found.layouts[first:last],
        [(places[first:last], fractions[first:last]) for places, fractions in found.clocks],
        found.taken[low:high].copy(),
        begin,
        news,
    )
