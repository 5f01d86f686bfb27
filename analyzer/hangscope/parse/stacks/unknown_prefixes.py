"""Takes off what stands in front of the lines of a dump when nobody knows the launcher that put it there."""

from __future__ import annotations

import dataclasses

from hangscope.expressions import expression
from hangscope.model import Line

MAX_PREFIX = 80
MAX_PREFIXES = 4_096
MAX_LENGTHS = 8
_MARK = "hread "
_HEAD = expression(
    r"(?:Current thread|Thread) 0x[0-9a-fA-F]{1,16} (?:\[[^\]]{0,15}\] )?\(most recent call first\)"
    r"|Thread (?:\d{1,20}|0x[0-9A-Fa-f]{1,16}) \((?:idle|active)(?:\+gil)?\)"
    r"|Traceback for thread \d{1,20} |Thread \d{1,6} \(Thread 0x[0-9a-f]{1,16} \(LWP "
)
_TIMES = expression(r"\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d(?:[.,]\d+)?|\d{9,}(?:\.\d+)?")


class UnknownPrefixes:
    """The prefixes of one input's dumps, learned from the heads of threads."""

    def __init__(self) -> None:
        self._streams: set[str] = set()
        self._lengths: tuple[int, ...] = ()
        self._indent = ""

    def strip(self, line: Line) -> Line:
        """The line without such a prefix, in a stream named after it; the line itself when it has none."""
        text = line.text
        found = _HEAD.search(text, 0, 4 * MAX_PREFIX) if _MARK in text else None
        if found and not text[: found.start()].strip():
            # somebody pasted the dump as a block
            self._indent = text[: found.start()]
        if self._indent and text.startswith(self._indent):
            return dataclasses.replace(line, text=text[len(self._indent) :])
        for length in self._lengths:
            # a time in it is another one in every line
            stream = _TIMES.sub("", text[:length])
            if stream in self._streams:
                return _cut(line, length, stream)
        if found and 0 < found.start() <= MAX_PREFIX:
            stream = _TIMES.sub("", text[: found.start()])
            lengths = {*self._lengths, found.start()}
            if stream.strip() and len(self._streams) < MAX_PREFIXES and len(lengths) <= MAX_LENGTHS:
                self._streams.add(stream)
                self._lengths = tuple(sorted(lengths, reverse=True))
                return _cut(line, found.start(), stream)
        return line


def _cut(line: Line, length: int, stream: str) -> Line:
    return dataclasses.replace(line, text=line.text[length:], stream=f"{line.stream}/{stream.strip()}".lstrip("/"))
