"""Reads lldb (``bt all``, ``thread backtrace all``)."""

from __future__ import annotations

import dataclasses
import re

from hangscope.expressions import expression
from hangscope.model import Line
from hangscope.parse.stacks.builder import Builder, Step
from hangscope.parse.stacks.native import split_native

TOOL = "lldb"
BEGINS = ("thread #", "  thread #", "* thread #", "(lldb) ", "Process ")
ORDER = 2

_MAX_HEAD = 400
_THREAD = expression(
    r"(?:\* |  )?thread #(?P<number>\d{1,9})(?:, tid = (?P<tid>0x[0-9a-f]{1,16}|\d{1,10}))?"
    r"(?:, name = '(?P<name>[^']*)')?(?:,? (?:queue|stop reason) = .*)?$"
)
_FRAME = expression(
    r" {2,}(?:\* )?frame #(?P<number>\d{1,6}): 0x[0-9a-f]{1,16}(?: (?P<library>[^`]{1,400})`(?P<symbol>.+))?"
)
_PROCESS = expression(r"Process (?P<pid>\d{1,10}) stopped\s*$")
_PROMPT = expression(r"\(lldb\) ")
_OFFSET = expression(r" \+ \d{1,9}$")
_AT = expression(r" at (?P<file>[^\s:]{1,400}):(?P<line>\d{1,9})(?::\d{1,9})?$")
_VALUES = expression(r"\((?=[\w.$:]+=).*\)$")
_INLINED = " [inlined] "


class Reader:
    """The dumps of one stream that lldb printed; innermost frame first."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._pid: int | None = None

    @staticmethod
    def begins(text: str) -> bool:
        """Whether this line opens a dump, whatever stands around it."""
        return _thread(text) is not None

    def feed(self, line: Line, text: str) -> Step:
        """Takes a line of a dump."""
        if (found := _thread(text)) is not None:
            return self._thread(line, found)
        if found := _PROCESS.match(text):
            self._builder.end()
            self._pid = int(found["pid"])
            return Step.HEAD
        if _PROMPT.match(text):
            return Step.BODY
        dump = self._builder.dump
        if dump is None or dump.tool != TOOL or self._builder.open_thread is None:
            return Step.LEFT
        found = _FRAME.match(text)
        if found is None:
            return Step.LEFT
        if found["symbol"]:
            self._frame(line, found["library"], found["symbol"].rstrip())
        return Step.BODY

    def close(self) -> None:
        """Forgets whose the dump was."""
        self._pid = None

    def _thread(self, line: Line, found: re.Match[str]) -> Step:
        dump = self._builder.dump
        if dump is None or dump.tool != TOOL or any(thread.thread == found["number"] for thread in dump.threads):
            self._builder.begin(TOOL, line, self._pid)
        self._builder.thread(line, found["number"], found["name"] or "")
        return Step.HEAD

    def _frame(self, line: Line, library: str, symbol: str) -> None:
        """Puts a frame into the words of gdb, which everything else knows."""
        symbol = _OFFSET.sub("", symbol.rpartition(_INLINED)[2])
        place = f" from {library}"
        if at := _AT.search(symbol):
            symbol, place = symbol[: at.start()], f" at {at['file']}:{at['line']}"
        frame = split_native(f"{_VALUES.sub('', symbol)} (){place}")
        self._builder.frame(dataclasses.replace(frame, at=line.number))


def _thread(text: str) -> re.Match[str] | None:
    return None if len(text) > _MAX_HEAD else _THREAD.match(text)
