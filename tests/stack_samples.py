"""Stacks written on one line, innermost frame first, as grammars/frames.toml has them in its samples."""

from __future__ import annotations

import re

from hangscope.model import Frame, Line, ProcessDump, ThreadStack

_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)(?: \| (?P<source>.*))?$")
_NAME = re.compile(r'"(?P<name>[^"]*)": ?')


def frame(text: str) -> Frame:
    """``all_reduce (torch/distributed/distributed_c10d.py:12) | source``; a library (.so) makes it native."""
    found = _FRAME.match(text.strip())
    assert found is not None, text
    file = found["file"]
    number = int(found["line"]) if found["line"] else None
    return Frame(found["function"], file, number, native=".so" in file, source=found["source"] or "")


def thread(text: str, ident: str = "1", *, line: Line | None = None, activity: str = "") -> ThreadStack:
    """A thread; ``"name": `` in front names it."""
    named = _NAME.match(text)
    name, body = (named["name"], text[named.end() :]) if named else ("", text)
    frames = tuple(frame(part) for part in body.split(" < ")) if body.strip() else ()
    return ThreadStack(ident, name, activity, None, False, frames, line or Line("stack.txt", 1, 0, "", ""))


def dump(*threads: str, line: Line, pid: int | None = None, **others: object) -> ProcessDump:
    """A py-spy dump of one process; the first thread is its main thread."""
    main = 100 if pid is None else pid
    stacks = [thread(text, str(main + index), line=line) for index, text in enumerate(threads)]
    return ProcessDump("py-spy", line, stacks, pid, **others)  # type: ignore[arg-type]
