"""What people copy out of /proc: the state lines of ``/proc/PID/status``, and ``/proc/PID/stack``."""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value
from hangscope.parse.blocks.kinds.processes import KIND

BEGINS = (
    r"State:\s+[RSDTtZXIWPK] \(|Kernel stack of \d|\[<[0-9a-f]{1,16}>\] |\S{0,80} ?cat /proc/\d{1,10}/(?:stack|wchan)"
)

_STATE = expression(r"State:\s+([RSDTtZXIWPK]) \(([a-z ]{2,20})\)\s*$")
_LINE = expression(r"(\w{2,40}):(?:\s+(.*))?$")
_STACK_OF = expression(r"(?:Kernel stack of (\d{1,10}):?|\S{0,80} ?cat /proc/(\d{1,10})/(stack|wchan))\s*$")
_FRAME = expression(r"\s*\[<[0-9a-f]{1,16}>\] ([\w.]+)(?:\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?)?(?: \[\w+\])?\s*$")
_WCHAN = expression(r"[a-z_]\w{2,60}(?:\.\w+)*$")
_IN_NAME = expression(r"(?:pid|proc)[-_./]?(\d{1,10})(?!\d)")
_MOST_FRAMES = 64


def open_block(line: Line, text: str) -> StatusFile | StackFile | None:
    """The block that a state, a kernel frame, or the command that prints one opens."""
    stripped = text.strip()
    if found := _STATE.match(stripped):
        return StatusFile(line, found[1])
    if found := _STACK_OF.match(stripped):
        return StackFile(int(found[1] or found[2]), line, bare=found[3] == "wchan")
    if _FRAME.match(text):
        named = _IN_NAME.search(line.file)
        block = StackFile(int(named[1]) if named else None, line)
        block.feed(line, text)
        return block
    return None


class StatusFile:
    """``/proc/PID/status`` from its state line on; the process id follows some lines later."""

    def __init__(self, line: Line, state: str) -> None:
        self._line = line
        self._fields: dict[str, Value] = {"process_state": state}

    def feed(self, _line: Line, text: str) -> list[Event] | None:
        """One ``Key: value`` line; the process is told as soon as both ids are known."""
        found = _LINE.match(text.strip())
        if found is None:
            return None
        name, value = found[1], (found[2] or "").strip()
        if name == "State":
            return None
        if name in ("Pid", "PPid") and value.isdecimal() and len(value) <= 10:
            self._fields["process" if name == "Pid" else "parent"] = int(value)
        return self.end() if name == "PPid" else []

    def end(self) -> list[Event]:
        """The process, if its id was there."""
        if "process" not in self._fields:
            return []
        fields = dict(self._fields)
        del self._fields["process"]
        return [Event("ps", KIND, fields, self._line)]


class StackFile:
    """``/proc/PID/stack``, innermost first, or the one word of ``/proc/PID/wchan``."""

    def __init__(self, pid: int | None, line: Line, *, bare: bool = False) -> None:
        self._pid = pid
        self._line = line
        self._bare = bare
        self._functions: list[str] = []

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """One frame."""
        if self._bare:
            name = text.strip()
            if self._functions or not _WCHAN.match(name):
                return None
            self._functions.append(name)
            self._line = line
            return []
        found = _FRAME.match(text)
        if found is None:
            return None
        if not self._functions:
            self._line = line
        if len(self._functions) < _MOST_FRAMES:
            self._functions.append(found[1])
        return []

    def end(self) -> list[Event]:
        """Where the kernel holds the process."""
        functions = [name for name in self._functions if name not in ("0xffffffffffffffff", "entry_SYSCALL_64")]
        if not functions:
            return []
        fields: dict[str, Value] = {"process": self._pid, "wchan": functions[0], "functions": tuple(functions)}
        return [Event("ps", "kernel_stack", fields, self._line)]
