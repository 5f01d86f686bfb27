"""Reads ``py-spy dump``: all its versions and options, and the ways in which it fails."""

from __future__ import annotations

import functools
import re

from hangscope.expressions import expression
from hangscope.model import Frame, Line
from hangscope.parse.stacks.builder import MAX_NAME, MAX_PATH, MAX_THREADS, Builder, Step

TOOL = "py-spy"
BEGINS = ("Process ", "Thread ", "Error: Failed to ", "Permission Denied", "Can't get native stack traces", "Python v")

_PROCESS = expression(r"Process (\d{1,10}): (.*)$")
_PYTHON = expression(r"Python v(\d[\w.+-]*)(?: \(.*\)?)?$")
_PARENT = expression(r"Parent Process (\d{1,10}): ")
_THREAD = expression(r"Thread (0x[0-9A-Fa-f]{1,16}|\d{1,20}) \((idle|active)((?:\+\w+)*)\)(?:: \"(.*))?$")
_RULE = expression(r"-{8,}$")
_SECTION = expression(r"(?: {8}|\t{2})(?:Arguments|Locals):$")
_LOCAL = expression(r"(?: {12}|\t{3})([^\s:]{1,100}): (.*)$")
_ERROR = expression(
    r"(?:Error: Failed to (?:get process executable|find python version|suspend process|copy Py|get stack traces"
    r"|merge native|open process|lock process|get python|create process|get native)"
    r"|Permission Denied(?::|$| ?- )|Can't get native stack traces with)"
)
_CAUSE = expression(
    r"(?: {4}\d+: |Reason: |Caused by:|It looks like you are running in a docker|.*PtraceEvent\(|.*\(os error \d+\))"
)
_BACKTRACE = expression(r" +(?:\d+: |at )|Stack backtrace:")
_WIDTH = 400
"""No terminal is wider."""
_NEAR = 4
_NATIVE_FILE = expression(
    r"\.(?:so(?:\.[\d.]+)*|c|cc|cpp|cxx|cu|h|hh|hpp|cuh|S|rs|dylib|tcc|inl)$|\.(?:so|dylib)[.\w-]*$"
)


class Reader:
    """The py-spy dumps of one stream."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._pending: tuple[Line, int, str] | None = None
        self._headed = False
        self._locals = False
        self._failing = False
        self._ruled = False
        self._wrapped = ""
        self._numbers: set[str] = set()
        self._named_main = False

    @staticmethod
    def begins(text: str) -> bool:
        """Whether this line opens a dump, whatever stands around it."""
        return bool(_PROCESS.match(text) or _THREAD.match(text) or _ERROR.match(text))

    def feed(self, line: Line, text: str) -> Step:
        """Takes a line of a dump."""
        if text[:4] == "    " or text[:1] == "\t":
            return self._feed_indented(line, text)
        text = text.rstrip()
        wrapped, self._wrapped = self._wrapped, ""
        if wrapped and text.endswith(")") and not text.startswith("Thread ") and len(text) < _WIDTH:
            # a terminal broke the line
            return self._feed_indented(line, wrapped + text)
        if text.startswith("Thread ") and (found := _THREAD.match(text)):
            self._thread(line, found)
            return Step.HEAD
        if text.startswith("Process ") and (found := _PROCESS.match(text)):
            # other programs print such lines, too: the next line decides
            self._builder.end()
            self._pending = (line, int(found[1]), found[2])
            self._failing = self._ruled = False
            return Step.HEAD
        if found := _PARENT.match(text):
            return self._say(parent=int(found[1]))
        if found := _PYTHON.match(text):
            return self._say(python=found[1])
        if _ERROR.match(text):
            self._error(line, text)
            return Step.HEAD
        if self._failing and (_CAUSE.match(text) or _BACKTRACE.match(text)):
            return self._cause(text)
        if _RULE.match(text) and self._builder.dump is not None:
            self._builder.end()
            self._ruled = True
            return Step.BODY
        return Step.LEFT

    def close(self) -> None:
        """Forgets what was open."""
        self._pending, self._wrapped = None, ""
        self._headed = self._locals = self._failing = self._ruled = False

    # -- heads -------------------------------------------------------------------------------------

    def _begin_pending(self, line: Line | None = None) -> bool:
        """Begins the dump whose head was seen; one who only looks like its next line has to follow soon."""
        if self._pending is None:
            return False
        head, pid, command = self._pending
        self._pending = None
        if line is not None and line.number - head.number > _NEAR:
            return False
        self._builder.begin(TOOL, head, pid, command)
        self._headed = True
        return True

    def _say(self, python: str = "", parent: int | None = None) -> Step:
        self._begin_pending()
        dump = self._builder.dump
        if dump is None or dump.threads:
            return Step.LEFT
        dump.python = python or dump.python
        dump.parent_pid = parent if parent is not None else dump.parent_pid
        return Step.BODY

    def _thread(self, line: Line, found: re.Match[str]) -> None:
        number, activity, more, name = found.groups()
        name = (name or "").removesuffix('"')
        self._locals = self._failing = False
        main = name == "MainThread"
        dump = self._builder.dump
        if self._begin_pending(line):
            dump = self._builder.dump
        elif dump is not None and dump.threads and ((main and self._named_main) or number in self._numbers):
            # dumps of several processes, without the head lines
            dump = None
        if dump is None:
            self._headed = False
            dump = self._builder.begin(TOOL, line, int(number) if main and number.isdecimal() else None)
        elif main and number.isdecimal() and not self._headed:
            # on Linux the main thread's number is the process's
            self._builder.name_process(int(number))
        if not dump.threads:
            self._numbers, self._named_main = set(), False
        if len(self._numbers) < MAX_THREADS:
            self._numbers.add(number)
        self._named_main = self._named_main or main
        thread = self._builder.thread(line, number, name)
        thread.activity = activity
        thread.gil = "+gil" in more

    # -- frames ------------------------------------------------------------------------------------

    def _feed_indented(self, line: Line, text: str) -> Step:
        if self._failing:
            return self._cause(text)
        if self._builder.dump is None or self._builder.open_thread is None:
            return Step.LEFT
        if self._locals and (text[:8] == "        " or text[:2] == "\t\t"):
            if found := _LOCAL.match(text):
                self._builder.value(found[1], found[2].strip())
            return Step.BODY
        if text[:8] == "        " and _SECTION.match(text.rstrip()):
            self._locals = True
            return Step.BODY
        parsed = _split_frame(text.strip()[: 1 << 14]) if text.rstrip().endswith(")") else None
        if parsed is None:
            self._wrapped = text if " (" in text and len(text) < _WIDTH else ""
            return Step.HEAD if self._wrapped else Step.LEFT
        self._locals = False
        function, file, number, native = parsed
        self._builder.frame(Frame(function, file, number, native, line.number))
        return Step.BODY

    # -- failures ----------------------------------------------------------------------------------

    def _error(self, line: Line, text: str) -> None:
        self._failing = True
        if self._ruled and self._pending is None and self._builder.dump is None:
            # --subprocesses: a child that is no Python (a shell, a compiler) or is gone; its pid is not said
            return
        dump = self._builder.dump
        if not self._begin_pending(line) and (dump is None or (dump.error and not dump.threads)):
            self._builder.begin(TOOL, line)
        self._builder.failed(text)

    def _cause(self, text: str) -> Step:
        said = _CAUSE.match(text) and "py_spy::" not in text and text.strip() != "Caused by:"
        if said and self._builder.dump is not None:
            self._builder.failed(text)
        return Step.BODY


@functools.lru_cache(maxsize=2048)
def _split_frame(text: str) -> tuple[str, str | None, int | None, bool] | None:
    """``NAME (FILE:LINE)``; a C++ name holds blanks and parentheses itself, a path may do so."""
    at = text.rfind(" (")
    while at > 0 and ")" in text[at + 2 : -1] and len(text) - at < MAX_PATH:
        # a path with parentheses in it
        before = text.rfind(" (", 0, at)
        if before <= 0:
            break
        at = before
    if at <= 0:
        return None
    name, place = text[:at].strip(), text[at + 2 : -1]
    if not name or not place:
        return None
    file, colon, last = place.rpartition(":")
    number = None
    unknown = False
    if colon and (last.isdecimal() or last in ("", "?")) and file:
        number = int(last) if last.isdecimal() and len(last) < 10 else None
        unknown = last == "?"
    else:
        file = place
    native = (
        unknown
        or name.startswith("0x")
        or _NATIVE_FILE.search(file) is not None
        or (number is None and not file.endswith(".py") and not file.startswith("<"))
    )
    return name[:MAX_NAME], file[-MAX_PATH:], number or None, native
