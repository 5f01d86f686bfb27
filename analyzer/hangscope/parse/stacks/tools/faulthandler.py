"""Reads the dumps of Python's faulthandler: fatal errors, timeouts, signals, and calls of dump_traceback.

They name no process. Thread ids tell processes apart: the main thread comes last, and a new head, another current
thread or a thread seen before begin the next dump.
"""

from __future__ import annotations

import functools
import re

from hangscope.expressions import expression
from hangscope.model import Frame, Line, ProcessDump, ThreadStack
from hangscope.parse.stacks.builder import MAX_NAME, MAX_PATH, MAX_TEXT, Builder, Step

TOOL = "faulthandler"
BEGINS = ("Current thread", "Thread 0x", "Timeout (", "Fatal Python error: ", "Stack (most recent call first)")

_REASON = expression(r"Timeout \(\d{1,6}:\d\d:\d\d(?:\.\d{1,9})?\)!|Fatal Python error: .*")
_THREAD = expression(r"(Current thread|Thread) (0x[0-9a-fA-F]{1,16})(?: \[(.*)\])? \(most recent call first\):?")
_STACK = expression(r"Stack \(most recent call first\):?")
_FRAME = expression(r"\s{0,4}File (?:\"(.*)\"|(\?\?\?)), line (\d{1,9}|\?\?\?) in (.*)$")
_C_STACK = expression(r"Current thread's C stack trace \(most recent call first\):?")
_C_FRAME = expression(r"\s{0,4}Binary file \"(.*)\"(?:, at (.*?))? ?\[?(0x[0-9a-f]+)?\]?$")
_MARKS = expression(
    r"\s{0,4}(?:<no Python frame>|Garbage-collecting|\.\.\.|<cannot get C stack on this system>"
    r"|<truncated rest of calls>|<Cannot show all threads while the GIL is disabled>"
    r"|<freed thread state>|<invalid frame>|<timeout>)\s*$"
)
_QUIET = ("Python runtime state: ", "Extension modules: ")
_WIDTH = 400
"""No terminal is wider."""
_CALLS_MODULES = frozenset({"_call_with_frames_removed", "_run_code", "_run_module_code", "execfile", "exec"})
"""What runs a module from within: below these, a frame of a module is not the outermost."""
_NOTED = ("<no Python frame>", "Garbage-collecting")


class Reader:
    """The faulthandler dumps of one stream."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._reason: tuple[Line, str] | None = None
        self._c_stack = False
        self._waiting: list[tuple[ProcessDump, ThreadStack]] = []
        self._fatal = False
        self._wrapped = ""

    @staticmethod
    def begins(text: str) -> bool:
        """Whether this line opens a dump, whatever stands around it."""
        return bool(_THREAD.match(text) or _REASON.match(text) or _STACK.match(text))

    def feed(self, line: Line, text: str) -> Step:
        """Takes a line of a dump."""
        wrapped, self._wrapped = self._wrapped, ""
        if wrapped and _split_frame(wrapped + text) is not None:
            # a terminal broke the line
            text = wrapped + text
        if text[:1] in (" ", "\t", "F", ".") and (step := self._feed_indented(line, text)) is not Step.LEFT:
            return step
        if found := _THREAD.match(text):
            self._thread(line, found[2], found[3] or "", current=found[1][0] == "C")
            return Step.HEAD
        if _C_STACK.match(text):
            if self._builder.dump is None:
                return Step.LEFT
            self._c_stack = True
            return Step.BODY
        if _STACK.match(text):
            self._thread(line, "", "", current=True)
            return Step.HEAD
        if found := _REASON.match(text):
            self._builder.end()
            self._reason = (line, found[0][:MAX_TEXT])
            self._fatal = found[0][0] == "F"
            return Step.HEAD
        if text.startswith(_QUIET):
            return Step.BODY
        return Step.LEFT

    def close(self) -> None:
        """Forgets what was open."""
        self._reason = None
        self._c_stack = self._fatal = False
        self._wrapped = ""
        self._waiting.clear()

    def _thread(self, line: Line, number: str, name: str, *, current: bool) -> None:
        open_dump, open_thread = self._builder.dump, self._builder.open_thread
        if open_dump is None or self._reason is not None or self._is_next(number, current=current):
            if open_dump and open_thread and not self._builder.frames and not open_thread.notes:
                # its frames come later: two processes write at once
                self._waiting.append((open_dump, open_thread))
            head, reason = self._reason or (line, "")
            dump = self._builder.begin(TOOL, head)
            dump.reason = reason
            self._fatal = reason.startswith("Fatal")
            self._reason = None
        self._c_stack = False
        thread = self._builder.thread(line, number, name)
        thread.current = current

    def _is_next(self, number: str, *, current: bool) -> bool:
        """Whether a thread's head begins the next dump: the open one is complete, or has this thread already."""
        dump = self._builder.dump
        if dump is None or not dump.threads:
            return False
        if _is_main(self._builder.frames) or any(t.thread == number for t in dump.threads):
            return True
        return current and any(t.current for t in dump.threads)

    def _feed_indented(self, line: Line, text: str) -> Step:
        if self._builder.open_thread is None:
            return Step.LEFT
        parsed = _split_frame(text[: 1 << 13])
        if parsed is not None:
            file, number, function = parsed
            if self._waiting and _is_main(self._builder.frames) and function not in _CALLS_MODULES:
                self._builder.resume(*self._waiting.pop(0))
            self._builder.frame(Frame(function, file, number, native=False, at=line.number))
            # the grammars know what was in use when the process died
            return Step.HEAD if self._fatal else Step.BODY
        if self._c_stack and (found := _C_FRAME.match(text)):
            self._c_frame(line, found)
            return Step.BODY
        if found := _MARKS.match(text):
            if found[0].strip() in _NOTED:
                self._builder.note(found[0])
            return Step.BODY
        if text.startswith('  File "') and '", line ' not in text and len(text) < _WIDTH:
            self._wrapped = text
            return Step.HEAD
        return Step.LEFT

    def _c_frame(self, line: Line, found: re.Match[str]) -> None:
        """The C stack comes last, and continues the current thread's Python stack towards the inside."""
        dump = self._builder.dump
        symbol = (found[2] or "").partition("+0x")[0].strip() or found[3] or "?"
        frame = Frame(symbol[:MAX_NAME], found[1][-MAX_PATH:], native=True, at=line.number)
        current = next((t for t in dump.threads if t.current), None) if dump else None
        if current is not None and current is not self._builder.open_thread and len(current.frames) < 200:
            native = sum(f.native for f in current.frames)
            current.frames = (*current.frames[:native], frame, *current.frames[native:])
        elif current is not None and len(self._builder.frames) < 200:
            frames = self._builder.frames
            frames.insert(sum(f.native for f in frames), frame)


def _is_main(frames: list[Frame]) -> bool:
    """Whether these frames end as a main thread's do; nothing comes behind it."""
    return bool(frames) and frames[-1].function in ("<module>", "_run_module_as_main")


@functools.lru_cache(maxsize=2048)
def _split_frame(text: str) -> tuple[str | None, int | None, str] | None:
    found = _FRAME.match(text)
    if found is None:
        return None
    number = int(found[3]) if found[3].isdecimal() else None
    return (found[1][-MAX_PATH:] if found[1] else None, number, found[4].strip()[:MAX_NAME])
