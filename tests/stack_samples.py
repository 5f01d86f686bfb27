"""Stacks written on one line, innermost frame first, as grammars/frames.toml has them in its samples."""

from __future__ import annotations

import re

from hangscope.model import Frame, Line, ThreadStack

_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)(?: \| (?P<source>.*))?$")
_NAME = re.compile(r'"(?P<name>[^"]*)": ?')


def frame(text: str) -> Frame:
    """``all_reduce (torch/distributed/distributed_c10d.py:12) | source``; a library (.so) makes it native."""
    found = _FRAME.match(text.strip())
    assert found is not None, text
    file = found["file"]
    number = int(found["line"]) if found["line"] else None
    return Frame(found["function"], file, number, native=".so" in file, source=found["source"] or "")


def thread(text: str) -> ThreadStack:
    """A thread; ``"name": `` in front names it."""
    name, frames = _split(text)
    parsed = tuple(frame(part) for part in frames)
    return ThreadStack("1", name, "", None, current=False, frames=parsed, line=Line("stack.txt", 1, 0, "", ""))


def pyspy(
    pid: int, *threads: str, command: str = "python -u train.py", parent: int | None = None, status: str = "idle"
) -> str:
    """What py-spy prints of a process; its first thread is the main thread."""
    lines = [f"Process {pid}: {command}", "Python v3.11.7 (/usr/bin/python3.11)"]
    if parent is not None:
        lines.append(f"Parent Process {parent}: python -u train.py")
    lines.append("")
    for index, text in enumerate(threads):
        name, frames = _split(text)
        name = name or ("" if index else "MainThread")
        lines.append(f"Thread {pid + index} ({status})" + (f': "{name}"' if name else ""))
        lines += [f"    {one}" for one in frames]
    return "\n".join(lines) + "\n"


def _split(text: str) -> tuple[str, list[str]]:
    named = _NAME.match(text)
    name, body = (named["name"], text[named.end() :]) if named else ("", text)
    return name, body.split(" < ") if body.strip() else []
