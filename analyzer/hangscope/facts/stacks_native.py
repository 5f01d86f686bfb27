"""Facts from native frames: the watchdog thread of NCCL, held up in a call of CUDA or by the interpreter's lock."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.stacks import Position
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.stack_lines import frame_line
from hangscope.model import Fact, Frame, ThreadStack, Value

KINDS = {
    "stack_watchdog_held": FactKind(
        ("call", "gil", "pid", "rounds"), "The watchdog or heartbeat thread of NCCL stands in a call of CUDA or NCCL."
    )
}

_WATCHDOG = expression(
    r"workCleanupLoop|ncclCommWatchdog|[wW]atchdogHandler|Watchdog::(?:run|runLoop)|[hH]eartbeatMonitor(?:::|\b)"
)
_HELD = expression(
    r"^(?:cuda[A-Z]|cu[A-Z]|nccl[A-Z]|pnccl)|take_gil|PyGILState_Ensure|PyEval_(?:RestoreThread|AcquireThread)"
)
_HELD_IN = expression(r"libcuda|libcudart|libnccl")


def find(job: Job) -> Iterator[Fact]:
    """One fact for each process whose watchdog is held."""
    found: dict[object, tuple[Position, Frame, Frame, int]] = {}
    for position in job.stacks.positions:
        for thread in position.dump.threads:
            held = _held(thread)
            if held is not None:
                key = position.rank if position.rank is not None else id(position.process or position.dump)
                found[key] = (position, *held, found[key][3] + 1 if key in found else 1)
    for position, inner, outer, rounds in found.values():
        gil = "GIL" in inner.function or "gil" in inner.function
        fields: dict[str, Value] = {"call": inner.function, "gil": gil, "pid": position.dump.pid, "rounds": rounds}
        why = "the watchdog's thread is held here"
        evidence = (*frame_line(position, inner, why), *frame_line(position, outer, "the watchdog's loop"))
        ranks = () if position.rank is None else (position.rank,)
        hosts = () if position.host is None else (position.host,)
        yield Fact("stack_watchdog_held", fields, ranks, hosts, time=position.dump.time, evidence=evidence)


def _held(thread: ThreadStack) -> tuple[Frame, Frame] | None:
    """The call in which a watchdog's thread is held, and the frame of its loop."""
    loop = next(
        (at for at, frame in enumerate(thread.frames) if frame.native and _WATCHDOG.search(frame.function)), None
    )
    if not loop:
        return None
    inner = thread.frames[:loop]
    named = next((frame for frame in inner if _HELD.search(frame.function)), None)
    held = named or next((frame for frame in inner if _HELD_IN.search(frame.file or "")), None)
    return None if held is None else (held, thread.frames[loop])
