"""The frames of all stack dumps as rows of the table `stacks`."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.stacks import Position, Stacks
from hangscope.model import ThreadStack
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class StackRows:
    """One row a frame; made when they are asked for."""

    stacks: Stacks

    def __iter__(self) -> Iterator[dict[str, object]]:
        for position in self.stacks.positions:
            for thread, state in zip(position.dump.threads, position.states, strict=True):
                yield from _rows(position, thread, state)


def _rows(position: Position, thread: ThreadStack, state: str) -> Iterator[dict[str, object]]:
    dump = position.dump
    common: dict[str, object] = {
        "file": dump.line.file,
        "time": float("nan") if dump.time is None else dump.time,
        "host": position.host,
        "pid": dump.pid,
        "rank": position.rank,
        "tool": dump.tool,
        "round": position.round,
        "role": position.role,
        "thread": thread.name or thread.thread,
        "activity": thread.activity,
        "state": state,
        "decides": thread is position.thread,
    }
    for depth, frame in enumerate(thread.frames):
        yield {
            **common,
            "line": frame.at if frame.at is not None else thread.line.number,
            "depth": depth,
            "function": frame.function,
            "code_file": frame.file,
            "code_line": frame.line,
            "native": frame.native,
        }
