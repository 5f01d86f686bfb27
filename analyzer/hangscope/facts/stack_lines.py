"""The lines of a dump that prove where its process stands, and the words for that place."""

from __future__ import annotations

from hangscope.align.stacks import Position
from hangscope.grammar.frames import COMMUNICATING, load_frames
from hangscope.model import Evidence, Frame, Location

_C10D = "distributed_c10d.py"
_PLUMBING = (
    *(
        "/torch/",
        "/contextlib.py",
        "/threading.py",
        "/deepspeed/comm/",
        "/deepspeed/utils/",
        "/deepspeed/runtime/comm/",
    ),
    *("/accelerate/utils/", "/accelerate/state.py", "/accelerate/accelerator.py", "/fabric/utilities/", "/strategies/"),
    *("/vllm/distributed/", "/sglang/srt/distributed/", "/tensor_parallel/mappings.py", "/torchmetrics/utilities/"),
)
"""Files of libraries through which a collective is called; who wanted it stands further out."""


def where_of(position: Position) -> str:
    """``save_checkpoint (train.py:8)``: the innermost line of the job's own code, else the frame that tells; or ""."""
    frame = caller_of(position) or position.frame
    return shown(frame) if frame is not None else ""


def caller_of(position: Position) -> Frame | None:
    """Innermost frame of the job's own code; else of a library, though not of what only passes calls on."""
    if position.own or position.user is None or position.thread is None:
        return position.user
    frames = position.thread.frames
    at = next((at for at, frame in enumerate(frames) if frame is position.user), len(frames))
    further = (frame for frame in frames[at:] if not frame.native and not _passes_on(frame))
    return next(further, position.user)


def _passes_on(frame: Frame) -> bool:
    file = "/" + (frame.file or "<").replace("\\", "/")
    return "<" in file or any(part in file for part in _PLUMBING)


def shown(frame: Frame) -> str:
    """``read_with_retry (train.py:20)``."""
    file = (frame.file or "").replace("\\", "/").rpartition("/")[2]
    place = f"{file}:{frame.line}" if frame.line else file
    return f"{frame.function} ({place})" if place else frame.function


def lines_of(position: Position, why: str) -> list[Evidence]:
    """The lines of a dump that tell where its process stands: the frame that tells, the caller's, torch's entry."""
    dump, thread = position.dump, position.thread
    if thread is None:
        return [Evidence(dump.line.location, dump.line.raw, why)]
    frames = thread.frames
    user = position.user if any(frame is position.user for frame in frames) else None
    frame = position.frame if any(one is position.frame for one in frames) else None
    inside = frames[: frames.index(user)] if user is not None else frames
    entry = next((one for one in reversed(inside) if (one.file or "").endswith(_C10D)), None)
    caller = caller_of(position) if user is not None else None
    wanted = [one for one in (frame, user, caller, entry) if one is not None] or [*frames[:1]]
    if user is None:
        wanted += _called_below(position)
    found = {item.at: item for one in wanted for item in frame_line(position, one, why)}
    if thread.notes and thread.frames and thread.frames[0].at is not None:
        # "Waiting for the GIL" stands between the head of the thread and its first frame
        for number in range(thread.line.number + 1, min(thread.frames[0].at, thread.line.number + 3)):
            at = Location(dump.line.file, number)
            found.setdefault(at, Evidence(at, thread.notes[0], why, rebuilt=True))
    return list(found.values()) or [Evidence(thread.line.location, thread.line.raw, why)]


def _called_below(position: Position) -> list[Frame]:
    """Of a dump without the job's code: the frame of gloo's or NCCL's own thread that names the operation."""
    table = load_frames()
    for thread, state in zip(position.dump.threads, position.states, strict=False):
        if thread is not position.thread and state in COMMUNICATING:
            reading = table.read(thread)
            if reading.frame is not None and reading.operation == position.operation:
                return [reading.frame]
    return []


def frame_line(position: Position, frame: Frame, why: str) -> list[Evidence]:
    """The line of the dump that shows a frame; nothing for a dump that has no lines."""
    if frame.at is None:
        return []
    return [Evidence(Location(position.dump.line.file, frame.at), shown(frame), why, rebuilt=True)]
