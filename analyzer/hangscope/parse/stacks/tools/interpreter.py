"""Reads stacks that Python code prints of its own threads: pytest-timeout, and the recipes over sys._current_frames."""

from __future__ import annotations

import re

from hangscope.expressions import expression
from hangscope.model import Frame, Line
from hangscope.parse.stacks.builder import MAX_NAME, MAX_PATH, Builder, Step

TOOL = "traceback"
BEGINS = ("~~~", "++++", "# Thread", "# ThreadID", "Thread: ", "--- Thread ")
ORDER = 2

# pytest-timeout: ~~~ Stack of MainThread (140003) ~~~; the recipes name a thread in many ways
_THREAD = expression(
    r"~{3,} Stack of (?P<name>.+) \((?P<id>\d{1,20}|<unknown>)\) ~{3,}|(?:--- |# )?Thread(?:ID)?: (?P<rest>.+)$"
)
_REST = expression(r"(?P<name>[^(]*?)\s*\(?(?P<id>\d{2,20})\)?\W*$")
_TIMEOUT = expression(r"\+{4,} Timeout \+{4,}")
_FRAME = expression(r"\s{0,4}File: ?\"(.*?)\", line (\d{1,9}), in (.*)$|\s{2}File \"(.*)\", line (\d{1,9}), in (.*)$")
_MARKS = expression(r"\s*[~^]+\s*$")


class Reader:
    """The dumps that the interpreters of one stream printed themselves; outermost frame first, as in a traceback."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    @staticmethod
    def begins(text: str) -> bool:
        """Whether this line opens a dump, whatever stands around it."""
        return bool(_TIMEOUT.match(text) or text.startswith("~~~ Stack of"))

    def feed(self, line: Line, text: str) -> Step:
        """Takes a line of a dump."""
        if _TIMEOUT.match(text):
            # one stands before the threads, one behind them
            self._builder.end()
            return Step.BODY
        if found := _THREAD.match(text):
            return self._thread(line, found)
        if self._builder.open_thread is None:
            return Step.LEFT
        if found := _FRAME.match(text):
            file, number, function = (part for part in found.groups() if part is not None)
            frame = Frame(function.strip()[:MAX_NAME], file[-MAX_PATH:], int(number), at=line.number)
            self._builder.frame(frame)
            return Step.BODY
        if text.startswith("  ") and self._builder.frames:
            if not _MARKS.match(text):
                self._builder.source(text)
            return Step.BODY
        return Step.LEFT

    def close(self) -> None:
        """Nothing is kept."""

    def _thread(self, line: Line, found: re.Match[str]) -> Step:
        name, number = found["name"], found["id"]
        if found["rest"] is not None:
            rest = _REST.match(found["rest"])
            if rest is None:
                return Step.LEFT
            name, number = rest["name"], rest["id"]
        dump = self._builder.dump
        if dump is None or any(t.thread == number for t in dump.threads):
            self._builder.begin(TOOL, line)
        self._builder.thread(line, number, name.strip(" \"'"), outermost_first=True)
        return Step.HEAD
