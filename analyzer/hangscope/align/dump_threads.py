"""Chooses the thread that tells what a process does: its main thread, unless that one only waits for another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hangscope.expressions import expression
from hangscope.grammar.frames import COMMUNICATING, FrameTable, Reading, last_component
from hangscope.model import Frame, ProcessDump, ThreadStack
from hangscope.records import dataclass

_WAITS_FOR_OTHERS = frozenset(
    {"backward", "thread-join", "queue-wait", "lock-wait", "server-idle", "native", "unknown", "noise"}
)
"""A main thread in one of these may wait for a thread that tells more."""

_TELLS_MORE = (
    *("in-collective", "in-object-collective", "in-barrier", "in-p2p", "group-setup", "store-wait", "rendezvous"),
    *("saving-checkpoint", "loading-checkpoint", "loading-data", "waiting-for-loader", "gpu-sync", "build-lock"),
    *("compiling", "optimizer", "teardown"),
)
"""What a thread has to do for the main thread to wait for it; the first of these wins."""

_SHALLOW = 3
_PROGRAM = expression(r"main|train|run|fit|step|loop|launch|worker|entry|cli|eval|test", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Choice:
    """The thread that decides, and what it says; see `hangscope.align.stacks.Position`."""

    thread: ThreadStack | None
    state: str
    frame: Frame | None
    user: Frame | None
    own: bool
    states: tuple[str, ...]
    operation: str
    pattern: str


_NOTHING = Choice(None, "unknown", None, None, own=False, states=(), operation="", pattern="")


def choose_thread(dump: ProcessDump, table: FrameTable) -> Choice:
    """Reads all threads of a dump, and picks the one that decides.

    Of a dump that its file ends in, the last thread tells nothing when its frames do not reach the job's own code; and
    where nothing names the main thread, which most tools print last, it may be the one that is missing.
    """
    threads = dump.threads
    readings = [table.read(thread) for thread in threads]
    if not threads:
        return _NOTHING
    main = main_thread(dump, readings)
    if dump.cut and (_is_cut(threads, main, table) or not _is_named(dump, threads[main])):
        return replace(_NOTHING, states=tuple(reading.state for reading in readings))
    chosen = main
    if readings[main].state in _WAITS_FOR_OTHERS:
        chosen = _more_telling(dump, readings, main)
    thread, reading = threads[chosen], readings[chosen]
    user, own = table.own.innermost(without_parent(thread.frames))
    if not own and chosen != main:
        outer, outer_own = table.own.innermost(threads[main].frames)
        if outer_own:
            user, own = outer, True
    state, operation, pattern = reading.state, reading.operation, reading.pattern
    if state == "running" and own and _is_exit_callback(thread):
        state, pattern = "teardown", "exit-callback"
    if not operation and state in COMMUNICATING:
        # the thread that waits has the call, the one that runs gloo's algorithm its name
        named = next((r for r in readings if r.operation and r.state in COMMUNICATING), None)
        if named is not None:
            state, operation = named.state, named.operation
    states = tuple(one.state for one in readings)
    return Choice(thread, state, reading.frame, user, own, states, operation, pattern)


def _is_cut(threads: Sequence[ThreadStack], index: int, table: FrameTable) -> bool:
    return index == len(threads) - 1 and table.own.innermost(without_parent(threads[index].frames))[0] is None


def _is_named(dump: ProcessDump, thread: ThreadStack) -> bool:
    """Whether name or number say that it is the main thread."""
    return thread.name in ("MainThread", "main") or (dump.pid is not None and thread.thread == str(dump.pid))


def without_parent(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The frames of a forked process without those of its parent, which stand below the start of the process."""
    for index, frame in enumerate(frames):
        if last_component(frame.function) == "_bootstrap" and (frame.file or "").endswith("multiprocessing/process.py"):
            return tuple(frames[: index + 1])
    return tuple(frames)


def main_thread(dump: ProcessDump, readings: Sequence[Reading]) -> int:
    """Index of the main thread: by name, by number (the process id, gdb's 1), by its frames, else the last one.

    faulthandler and gdb print the main thread last; only py-spy's text has it first, with its name.
    """
    threads = dump.threads
    for index, thread in enumerate(threads):
        if _is_named(dump, thread):
            return index
    started_at_top = [index for index, thread in enumerate(threads) if _from_the_top(thread)]
    if started_at_top:
        return started_at_top[-1]
    framed = [
        index
        for index, thread in enumerate(threads)
        if thread.frames and readings[index].state != "noise" and not _started_by_thread(thread)
    ]
    return framed[-1] if framed else len(threads) - 1


def _from_the_top(thread: ThreadStack) -> bool:
    """Whether its outermost frame of Python is the main program."""
    python = [frame for frame in thread.frames if not frame.native]
    return bool(python) and (last_component(python[-1].function) in ("<module>", "_run_module_as_main", "_shutdown"))


def _is_exit_callback(thread: ThreadStack) -> bool:
    """Whether the main thread runs what was registered with atexit: nothing of the program is below it any more.

    Only py-spy names the main thread, so only its dumps tell. People shorten stacks that they paste: one that still
    begins in a function that programs begin in is rather shortened.
    """
    if thread.name != "MainThread" or not 0 < len(thread.frames) <= _SHALLOW or _from_the_top(thread):
        return False
    outermost = last_component(thread.frames[-1].function)
    return outermost != "_bootstrap" and not _PROGRAM.search(outermost)


def _started_by_thread(thread: ThreadStack) -> bool:
    python = [frame for frame in thread.frames if not frame.native]
    return (
        bool(python)
        and last_component(python[-1].function).startswith("_bootstrap")
        and "threading" in (python[-1].file or "")
    )


def _more_telling(dump: ProcessDump, readings: Sequence[Reading], main: int) -> int:
    """The thread for which the main thread waits, when one of them shows it; else the main thread."""
    waiting = readings[main]
    others = [
        (_TELLS_MORE.index(reading.state), index)
        for index, reading in enumerate(readings)
        if index != main and reading.state in _TELLS_MORE and _may_be_waited_for(dump.threads[index], reading)
    ]
    if others:
        return min(others)[1]
    if waiting.state in ("backward", "native", "unknown"):
        # the engine's threads have no names; what they run of the job's own code are its hooks
        for index, reading in enumerate(readings):
            if index != main and reading.state == "running" and not dump.threads[index].name.startswith("Thread-"):
                python = any(not frame.native for frame in dump.threads[index].frames)
                if python and not _started_by_thread(dump.threads[index]):
                    return index
    return main


def _may_be_waited_for(thread: ThreadStack, reading: Reading) -> bool:
    """Threads of gloo and NCCL run the collectives of whoever; only Python's frames show whose a call is."""
    return reading.frame is not None and (not reading.frame.native or any(not f.native for f in thread.frames))
