"""What one flight-recorder dump holds, as columns: a job of a thousand ranks has millions of entries."""

from __future__ import annotations

import enum
from array import array
from dataclasses import field, fields
from operator import attrgetter

from hangscope.records import dataclass


class State(enum.IntEnum):
    """How far a recorded call has come.

    `FAILED`: the watchdog gave it up (retired, not completed). `PART`: it belongs to a coalesced block and has no state
    of its own.
    """

    SCHEDULED = 0
    STARTED = 1
    FAILED = 2
    DONE = 3
    PART = 4


@dataclass(frozen=True, slots=True)
class CallShape:
    """What is the same for many calls of a process: it is kept once, and the entries refer to it.

    Attributes:
        group: number of the group in `Recording.groups`.
        op: the operation as torch records it, without the backend ("all_reduce", "coalesced", "send 0->1").
        sizes: sizes and types of its tensors in words.
        signature: number made of the sizes and types; calls of one kind with equal numbers fit together.
        stack: number made of all frames, 0 when the dump has none.
        route: frames of the job's own code, "file:line function", innermost first.
        way: "send" or "recv" for point-to-point calls, else "".
        me, peer: ranks inside the group, of a point-to-point call.
    """

    group: int
    op: str
    sizes: str
    signature: int
    stack: int = 0
    route: tuple[str, ...] = ()
    way: str = ""
    me: int = -1
    peer: int = -1

    def __reduce__(self) -> tuple[type[CallShape], tuple[object, ...]]:
        # dataclass's own way with slots asks for the fields of every object anew: a job has tens of thousands
        return CallShape, _FIELDS(self)

    @property
    def where(self) -> str:
        """The innermost line of the job's own code, or ""."""
        return self.route[0] if self.route else ""


_FIELDS = attrgetter(*(made.name for made in fields(CallShape)))


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """A process group as one process knows it.

    Attributes:
        name: torch's own name of it ("0", "5", a hash); the same on all ranks.
        description: what the job calls it ("default_pg", "DATA_PARALLEL_GROUP"), or "".
        ranks: its global ranks as printed ("[0, 1]"), "" when the dump does not say.
        enqueued: number of its last call enqueued, as torch counts them; -1 when unknown.
    """

    name: str
    description: str = ""
    ranks: str = ""
    enqueued: int = -1


@dataclass(slots=True)
class Recording:
    """The dump of one process, oldest call first.

    Attributes:
        file: the input it was read from.
        rank: global rank, as the file's name or the dump's place in a larger document tells; None when unknown.
        version: (major, minor) of the format; (1, 0) for the bare list of torch 2.2.
        library: version of NCCL, as the dump states it (torch 2.8 on), else "".
        backend: prefix of the operations ("nccl", "gloo", "xccl", ...), "" when nothing was recorded.
        groups: the process groups.
        shapes: what the entries refer to.
        shape, seq, state, time_us: one number an entry: its place in `shapes`, its number in its group
            (`collective_seq_id`), its `State`, and when it was made, in microseconds before the last entry.
        last_time_ns: when the last entry was made, 0 when nothing was recorded.
        lines: number of the line of an entry, for JSON with several lines; else empty.
        has_frames: entries carry stacks.
    """

    file: str
    rank: int | None
    version: tuple[int, int]
    library: str = ""
    backend: str = ""
    groups: tuple[RecordedGroup, ...] = ()
    shapes: tuple[CallShape, ...] = ()
    shape: array[int] = field(default_factory=lambda: array("H"))
    seq: array[int] = field(default_factory=lambda: array("q"))
    state: bytes = b""
    time_us: array[int] = field(default_factory=lambda: array("I"))
    last_time_ns: int = 0
    lines: array[int] = field(default_factory=lambda: array("I"))
    has_frames: bool = False

    def __len__(self) -> int:
        return len(self.seq)

    def call(self, at: int) -> CallShape:
        """What the entry at this place is."""
        return self.shapes[self.shape[at]]
