"""The wait-for graph of recorded calls: in which call each rank stands, and for whom every such call waits.

A node is a collective, or the point-to-point batch of one rank, at which at least one rank's device stands. So the cost
grows with the ranks and the sizes of their groups, not with their product: a rank is looked at once in each group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field

from hangscope.align.recorder_tracks import Key, Members, Track
from hangscope.parse.recorder.recording import State
from hangscope.records import dataclass

NodeId = Key | tuple[str, int, int]
"""A collective (group, number), or a point-to-point call (group, rank, place)."""


@dataclass(slots=True)
class Stand:
    """One call that has not completed, and its group's ranks.

    Attributes:
        node: its identity.
        group: name of the group.
        arrived: rank -> place of the call in its recording, for ranks that stand here.
        queued: the same for ranks that have made it and stand in an earlier call.
        passed: ranks for which it completed -> its place, None when the ring holds it no more.
        missing: ranks that have not made it.
        unknown: ranks without a dump, or whose dump is older than what the others have done with them.
        is_p2p: it is a point-to-point call; `missing` are then the peers without the other half.
    """

    node: NodeId
    group: str
    arrived: dict[int, int] = field(default_factory=dict)
    queued: dict[int, int] = field(default_factory=dict)
    passed: dict[int, int | None] = field(default_factory=dict)
    missing: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    is_p2p: bool = False

    @property
    def blockers(self) -> set[int]:
        """The ranks that this call waits for, as far as they are known."""
        return self.missing | self.queued.keys()

    @property
    def number(self) -> int:
        return self.node[1] if len(self.node) == 2 else -1


class Stands:
    """All calls at which ranks stand."""

    def __init__(self, tracks: Mapping[int, Track], members: Members) -> None:
        self._tracks = tracks
        self._members = members
        self.stale = find_stale(tracks, members)
        self.of_rank: dict[int, NodeId] = {}
        self.nodes: dict[NodeId, Stand] = {}
        for rank, track in tracks.items():
            if track.front is not None:
                self._stand(rank, track, track.front)
        for stand in self.nodes.values():
            if stand.is_p2p:
                self._look_at_peers(stand)
            else:
                self._look_at_members(stand)

    def idle(self, rank: int) -> bool:
        """Whether the rank waits in no recorded call."""
        return rank in self._tracks and rank not in self.of_rank

    def next_nodes(self, stand: Stand) -> set[NodeId]:
        """The calls in which those stand that this call waits for."""
        return {self.of_rank[rank] for rank in stand.blockers if rank in self.of_rank}

    def _stand(self, rank: int, track: Track, at: int) -> None:
        key = track.key(at)
        node: NodeId = key if key is not None else (track.group(at), rank, at)
        stand = self.nodes.get(node)
        if stand is None:
            stand = self.nodes[node] = Stand(node, node[0], is_p2p=key is None)
        stand.arrived[rank] = at
        self.of_rank[rank] = node

    def _look_at_members(self, stand: Stand) -> None:
        key = (stand.group, stand.number)
        for rank in self._members.of(stand.group):
            if rank in stand.arrived:
                continue
            track = self._tracks.get(rank)
            if track is None:
                stand.unknown.add(rank)
                continue
            if track.last.get(stand.group, -1) < stand.number:
                (stand.unknown if rank in self.stale else stand.missing).add(rank)
                continue
            at = track.find(key)
            if at is None or track.state(at) == State.DONE:
                stand.passed[rank] = at
            else:
                stand.queued[rank] = at

    # --- point to point ---------------------------------------------------------------------------------

    def _look_at_peers(self, stand: Stand) -> None:
        (rank, at), *_ = stand.arrived.items()
        track = self._tracks[rank]
        for part in track.parts(at):
            shape = track.shape(part)
            peer = self._members.global_rank(stand.group, shape.peer)
            if peer is None:
                continue
            other = self._tracks.get(peer)
            if other is None or peer in self.stale:
                stand.unknown.add(peer)
            else:
                self._match(stand, track, part, other)

    def _match(self, stand: Stand, track: Track, part: int, other: Track) -> None:
        """Looks for the other half of a send or receive among the peer's calls."""
        me, wanted = track.shape(part).me, "recv" if track.shape(part).way == "send" else "send"
        mine = find_lane(track, stand.group, track.shape(part).way, track.shape(part).peer, part)
        theirs = find_lane(other, stand.group, wanted, me, len(other.recording) - 1)
        waiting = [at for at in mine if at >= (track.front or 0) or at in track.parts(track.pending[0])]
        pending = {part for at in other.pending if other.is_p2p(at) for part in other.parts(at)}
        open_halves = [at for at in theirs if at in pending]
        nth = max(len(waiting) - 1, 0)
        half = open_halves[nth] if nth < len(open_halves) else self._by_count(track, mine, other, theirs)
        if half is None:
            stand.missing.add(other.rank)
            return
        front = other.front
        if front is not None and half not in other.parts(front) and half in pending:
            stand.queued[other.rank] = half

    def _by_count(self, track: Track, mine: list[int], other: Track, theirs: list[int]) -> int | None:
        """The other half by counting from a collective that both completed: the peer's half may be done."""
        since = find_common(track, other)
        if since is None:
            return None
        nth = sum(at > since[0] for at in mine) - 1
        later = [at for at in theirs if at > since[1]]
        return later[nth] if 0 <= nth < len(later) else None


def find_lane(track: Track, group: str, way: str, peer: int, until: int) -> list[int]:
    """Places of the sends to (or receives from) one peer in one group up to a place, oldest first."""
    recording = track.recording
    numbers = {n for n, other in enumerate(recording.groups) if other.name == group}
    wanted = {
        n for n, s in enumerate(recording.shapes) if s.way == way and s.peer == peer and s.group in numbers
    }  # the same call has a shape for each size and line
    return [at for at in range(until + 1) if recording.shape[at] in wanted]


def find_common(one: Track, other: Track) -> tuple[int, int] | None:
    """Places of the last collective that both completed and that all members had to make."""
    best: tuple[int, int] | None = None
    for name in sorted(one.done.keys() & other.done.keys()):
        key = (name, min(one.done[name], other.done[name]))
        mine, theirs = one.find(key), other.find(key)
        if mine is not None and theirs is not None and (best is None or mine > best[0]):
            best = (mine, theirs)
    return best


def find_stale(tracks: Mapping[int, Track], members: Members) -> frozenset[int]:
    """Ranks whose dumps are older than their peers': a call that needs them completed elsewhere, and they lack it."""
    done: dict[str, int] = defaultdict(lambda: -1)
    for track in tracks.values():
        for name, seq in track.done.items():
            done[name] = max(done[name], seq)
    found = set()
    for name, seq in done.items():
        for rank in members.of(name):
            other = tracks.get(rank)
            if other is not None and other.last.get(name, -1) < seq:
                found.add(rank)
    return frozenset(found)


def find_cycles(stands: Stands) -> list[list[NodeId]]:
    """The sets of calls that wait for each other in a circle (strongly connected, without recursion)."""
    index: dict[NodeId, int] = {}
    low: dict[NodeId, int] = {}
    path: list[NodeId] = []
    on_path: set[NodeId] = set()
    found: list[list[NodeId]] = []
    for start in stands.nodes:
        if start in index:
            continue
        work = [(start, iter(sorted(stands.next_nodes(stands.nodes[start]), key=str)))]
        index[start] = low[start] = len(index)
        path.append(start)
        on_path.add(start)
        while work:
            node, following = work[-1]
            step = next(following, None)
            if step is not None:
                if step not in index:
                    index[step] = low[step] = len(index)
                    path.append(step)
                    on_path.add(step)
                    work.append((step, iter(sorted(stands.next_nodes(stands.nodes[step]), key=str))))
                elif step in on_path:
                    low[node] = min(low[node], index[step])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                group = []
                while True:
                    last = path.pop()
                    on_path.discard(last)
                    group.append(last)
                    if last == node:
                        break
                if len(group) > 1:
                    found.append(sorted(group, key=str))
    return found
