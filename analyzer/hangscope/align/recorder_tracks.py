"""The recorded calls of one rank, as the alignment asks for them: where it stands, what it made, what it did last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from hangscope.align.recorder_ranks import parse_ranks
from hangscope.expressions import expression
from hangscope.model import Evidence, Location
from hangscope.parse.recorder.recording import CallShape, Recording, State
from hangscope.records import dataclass

_PENDING = expression(b"[\x00-\x02]")
COALESCED = "coalesced"
TORCH_NAMES = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
    "all_reduce_barrier": "barrier",
    "alltoall_base": "all_to_all_single",
    "all_to_all_base": "all_to_all_single",
}
"""What the recorder writes and how it is called in torch.distributed."""

_WORDS = {
    State.SCHEDULED: "scheduled",
    State.STARTED: "started",
    State.FAILED: "timed out",
    State.DONE: "completed",
    State.PART: "part of a batch",
}
Key = tuple[str, int]
"""A collective: name of its group, number in it."""


def torch_name(shape: CallShape, *, is_p2p: bool = False) -> str:
    """The operation as torch.distributed names it."""
    if shape.op == COALESCED and is_p2p:
        return "batch_isend_irecv"
    return shape.way or TORCH_NAMES.get(shape.op, shape.op)


@dataclass(slots=True)
class Track:
    """One rank's calls.

    Attributes:
        rank: global rank.
        recording: its dump.
        pending: places of the calls that have not completed, oldest first; members of batches are not listed.
        last: group's name -> number of its last collective there.
        done: group's name -> number of the last collective there that completed and needed all members for it.
    """

    rank: int
    recording: Recording
    pending: list[int] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    @property
    def front(self) -> int | None:
        """Place of the oldest call that has not completed: there the device stands."""
        return self.pending[0] if self.pending else None

    def shape(self, at: int) -> CallShape:
        return self.recording.call(at)

    def group(self, at: int) -> str:
        """Name of the group that the call at this place is made in."""
        return self.recording.groups[self.shape(at).group].name

    def state(self, at: int) -> State:
        return State(self.recording.state[at])

    def parts(self, at: int) -> list[int]:
        """The sends and receives of a batch, or the call itself."""
        if self.shape(at).op != COALESCED:
            return [at]
        first = at
        while first > 0 and self.recording.state[first - 1] == State.PART:
            first -= 1
        return list(range(first, at)) or [at]

    def is_p2p(self, at: int) -> bool:
        return any(self.shape(part).way for part in self.parts(at)[:1])

    def key(self, at: int) -> Key | None:
        """Group and number of a collective; None for point-to-point calls, which have no common number."""
        return None if self.is_p2p(at) else (self.group(at), self.recording.seq[at])

    def find(self, key: Key) -> int | None:
        """Place of a collective; None when it is not among the recorded calls."""
        name, seq = key
        if self.last.get(name, -1) < seq:
            return None
        recording = self.recording
        numbers = {n for n, group in enumerate(recording.groups) if group.name == name}
        for at in range(len(recording) - 1, -1, -1):
            shape = recording.shapes[recording.shape[at]]
            is_it = recording.seq[at] == seq and shape.group in numbers and recording.state[at] != State.PART
            if is_it and not self.is_p2p(at):
                return at
        return None

    def time_ns(self, at: int) -> int:
        recording = self.recording
        return recording.last_time_ns - recording.time_us[at] * 1000

    def describe(self, at: int) -> str:
        """A call in words: ``rank 3, group 5 (dp), all_reduce 1842, scheduled: /w/train.py:218 train_step``."""
        shape, group = self.shape(at), self.recording.groups[self.shape(at).group]
        about = f" ({group.description})" if group.description else ""
        where = f": {shape.where}" if shape.where else ""
        name = torch_name(shape, is_p2p=self.is_p2p(at))
        parts = ", ".join(dict.fromkeys(self.shape(part).op for part in self.parts(at)[:4] if self.shape(part).way))
        number = "" if parts else f" {self.recording.seq[at]}"
        sizes = f", {shape.sizes}" if shape.sizes else ""
        called = f"{name} {parts}".strip() if parts and name != parts.split()[0] else parts or name
        return f"rank {self.rank}, group {group.name}{about}, {called}{number}, {_WORDS[self.state(at)]}{sizes}{where}"

    def evidence(self, at: int, why: str) -> Evidence:
        """The call as evidence; pickles have no lines, so that the place in the ring stands for the offset."""
        lines = self.recording.lines
        return Evidence(Location(self.recording.file, lines[at] if lines else None, at), self.describe(at), why)

    @property
    def last_call(self) -> int | None:
        """Place of its last call, members of batches left out."""
        states = self.recording.state
        return next((at for at in range(len(states) - 1, -1, -1) if states[at] != State.PART), None)

    def where(self, at: int) -> str:
        """The line of the job's own code that made the call; a batch closes where its members were made."""
        return self.shape(at).where or next((self.shape(p).where for p in self.parts(at) if self.shape(p).where), "")


def make_track(rank: int, recording: Recording) -> Track:
    """Looks through the calls of one rank once, from the end to where every group has been seen."""
    track = Track(rank, recording)
    states = recording.state
    track.pending = [found.start() for found in _PENDING.finditer(states)]
    shapes, groups = recording.shapes, recording.groups
    kinds = [(s.group, bool(s.way), s.op == COALESCED, needs_all(s)) for s in shapes]
    wanted = {shape.group for shape in shapes}
    last_of: dict[int, int] = {}
    done_of: dict[int, int] = {}
    for at in range(len(states) - 1, -1, -1):
        group, is_p2p, is_block, is_whole = kinds[recording.shape[at]]
        state = states[at]
        if is_p2p or group not in wanted or state == State.PART or (is_block and track.is_p2p(at)):
            continue
        last_of.setdefault(group, recording.seq[at])
        if state == State.DONE and is_whole:
            done_of.setdefault(group, recording.seq[at])
            wanted.discard(group)
            if not wanted:
                break
    # groups with point-to-point calls only are looked for in vain: their scan went to the start of the ring
    track.last = {groups[group].name: seq for group, seq in last_of.items()}
    track.done = {groups[group].name: seq for group, seq in done_of.items()}
    return track


def needs_all(shape: CallShape) -> bool:
    """Whether the call can complete on one rank only after all members have made it."""
    return shape.op.startswith(("all_", "_all", "_reduce_scatter", "reduce_scatter", "barrier", "alltoall"))


@dataclass(frozen=True, slots=True)
class Members:
    """Who is in which group.

    Attributes:
        ranks: group's name -> its global ranks.
        descriptions: group's name -> what the job calls it.
    """

    ranks: Mapping[str, tuple[int, ...]]
    descriptions: Mapping[str, str]

    def of(self, name: str) -> tuple[int, ...]:
        return self.ranks.get(name, ())

    def global_rank(self, name: str, inside: int) -> int | None:
        """The global rank of a rank of the group; None when the group's members are not known."""
        ranks = self.ranks.get(name, ())
        return ranks[inside] if 0 <= inside < len(ranks) else None


def find_members(tracks: Iterable[Track], world: int) -> Members:
    """The members of every group: as configured, else all that recorded a call in it (gloo tells no members)."""
    told: dict[str, str] = {}
    callers: dict[str, set[int]] = {}
    descriptions: dict[str, str] = {}
    for track in tracks:
        for number, group in enumerate(track.recording.groups):
            if len(group.ranks) > len(told.get(group.name, "")) and parse_ranks(group.ranks):
                told[group.name] = group.ranks
            if group.description:
                descriptions.setdefault(group.name, group.description)
            if number < len(track.last) or group.name in track.last:
                callers.setdefault(group.name, set()).add(track.rank)
    ranks = {name: parse_ranks(text) for name, text in told.items()}
    everyone = ranks.pop("", ())
    for name, found in callers.items():
        if not ranks.get(name):
            is_world = name == "0" or descriptions.get(name) == "default_pg"
            ranks[name] = (everyone or tuple(range(max(world, max(found) + 1)))) if is_world else tuple(sorted(found))
    return Members(ranks, descriptions)
