"""Reads ``pystack remote`` and ``pystack core``: frames outermost first, with the line of code where it is readable."""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.model import Frame, Line
from hangscope.parse.stacks.builder import MAX_NAME, MAX_PATH, Builder, Step

TOOL = "pystack"
BEGINS = (
    "Traceback for thread ",
    "\U0001f480",
    "Engine error: ",
    "The frame stack for thread ",
    "Using executable found",
)

_THREAD = expression(r"Traceback for thread (\d{1,20})(?: \((.*)\))? \[([^\]]*)\] \(most recent call last\):?\s*$")
_FRAME = expression(r"\s{2,6}\((\w+)\) File \"(.*)\", line (\d{1,9}), in (.*)$")
_SECTION = expression(r" {6}(?:Arguments|Locals):\s*$")
_LOCAL = expression(r" {8}([^\s:]{1,100}): (.*)$")
_EMPTY = expression(r"The frame stack for thread (\d{1,20}) is empty")
_ERROR = expression(r"\U0001f480 ?(?P<text>.*?) ?\U0001f480?\s*$|(?P<plain>Engine error: .*)")
_CORE_PID = expression(r"pid: (\d{1,10}) ppid: (\d{1,10})")
_CORE_COMMAND = expression(r"executable: .*? arguments: (.*)$")
_CORE_SIGNAL = expression(r"The process died due to .*")
_NOISE = ("* - Unable to merge native stack", "Using executable found", "Core file information", "state: ", "uid: ")
# the binary of a frame of C, and what the compiler did with it
_BINARY = expression(r"(?P<name>.*?)(?P<inlined> \(inlined\))?(?: \((?P<library>[^()]*)\))?$")


class Reader:
    """The pystack dumps of one stream."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._locals = False

    @staticmethod
    def begins(text: str) -> bool:
        """Whether this line opens a dump, whatever stands around it."""
        return bool(_THREAD.match(text) or text.startswith(BEGINS[1:]))

    def feed(self, line: Line, text: str) -> Step:
        """Takes a line of a dump."""
        if text[:2] == "  ":
            return self._feed_indented(line, text)
        if found := _THREAD.match(text):
            self._thread(line, *found.groups())
            return Step.HEAD
        if found := _EMPTY.match(text):
            self._thread(line, found[1], "", "")
            self._builder.note("empty")
            return Step.BODY
        if text.startswith(_NOISE):
            return self._core(line, text)
        if self._builder.dump is not None and (found := _CORE_PID.match(text)):
            self._builder.name_process(int(found[1]))
            self._builder.dump.parent_pid = int(found[2])
            return Step.BODY
        if self._builder.dump is not None and (found := _CORE_COMMAND.match(text)):
            self._builder.dump.command = found[1].strip()[:MAX_NAME]
            return Step.BODY
        if self._builder.dump is not None and (found := _CORE_SIGNAL.match(text)):
            self._builder.dump.reason = found[0][:MAX_NAME]
            return Step.HEAD
        if found := _ERROR.match(text):
            self._error(line, found["text"] or found["plain"] or "")
            return Step.HEAD
        return Step.LEFT

    def close(self) -> None:
        """Forgets what was open."""
        self._locals = False

    def _core(self, line: Line, text: str) -> Step:
        if text.startswith("Using"):
            self._builder.begin(TOOL, line)
        return Step.BODY if self._builder.dump is not None else Step.LEFT

    def _error(self, line: Line, text: str) -> None:
        if self._builder.dump is None or self._builder.dump.error:
            self._builder.begin(TOOL, line)
        self._builder.failed(text)

    def _thread(self, line: Line, number: str, name: str | None, status: str) -> None:
        # the main thread comes last, as in the interpreter's own list
        complete = _is_main(self._builder.frames)
        dump = self._builder.dump
        if dump is None or complete or dump.error or any(t.thread == number for t in dump.threads):
            self._builder.begin(TOOL, line)
        self._locals = False
        thread = self._builder.thread(line, number, name or "", outermost_first=True)
        thread.gil = "Has the GIL" in status
        for part in filter(None, status.split(",")):
            self._builder.note(part)

    def _feed_indented(self, line: Line, text: str) -> Step:
        if self._builder.open_thread is None:
            return Step.LEFT
        if found := _FRAME.match(text[: 1 << 14]):
            self._frame(line, *found.groups())
            return Step.BODY
        if _SECTION.match(text):
            self._locals = True
            return Step.BODY
        if not text.startswith("        "):
            return Step.LEFT
        if not self._locals:
            self._builder.source(text)
        elif found := _LOCAL.match(text):
            self._builder.value(found[1], found[2].strip())
        return Step.BODY

    def _frame(self, line: Line, language: str, file: str, number: str, function: str) -> None:
        self._locals = False
        function = function.strip()
        native = language == "C"
        path = file if file != "???" else None
        if native and (parts := _BINARY.match(function)):
            function = parts["name"]
            path = path or parts["library"]
        frame = Frame(function[:MAX_NAME], path[-MAX_PATH:] if path else None, int(number) or None, native, line.number)
        self._builder.frame(frame)
        thread = self._builder.open_thread
        if function == "<module>" and thread is not None and _is_main(self._builder.frames):
            # on Linux the main thread's number is the process's
            self._builder.name_process(int(thread.thread))


def _is_main(frames: list[Frame]) -> bool:
    """Whether these are the frames of a main thread, outermost first; a module may be imported further inside."""
    return next((frame.function for frame in frames if not frame.native), "") == "<module>"
