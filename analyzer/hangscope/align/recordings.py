"""Aligns flight-recorder dumps: which call of which group each rank is at, and where the waiting begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from hangscope.align.collectives import StuckCall
from hangscope.align.identity import Identity
from hangscope.align.recorder_faults import Finder
from hangscope.align.recorder_ranks import of_other_sets, one_for_each_rank, world_of
from hangscope.align.recorder_runs import find_lagging, find_older
from hangscope.align.recorder_tracks import Track, find_members, make_track
from hangscope.align.recorder_trouble import Fault, Trouble
from hangscope.parse.source import ParsedSource
from hangscope.ranges import rank_words
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class Recordings:
    """What the flight recorders of all ranks say together.

    Attributes:
        stuck: the calls that cannot complete, those at which faults show first.
        ranks: ranks that left a dump.
        tracks: rank -> its calls; without those of `older`.
        troubles: the faults.
        empty: ranks whose dump holds no calls though others', or the counters, tell of calls; or all ranks.
        off: no dump holds any call: the recorder was off.
        pending: ranks that stood in a call when they were dumped.
        world: how many ranks the dumps speak of.
        backend: of the communication, "" when unknown.
        older: rank -> its calls, where its dump is of an earlier run or moment than the youngest ones: nothing is
            compared with them.
        apart_ns: by how much the youngest of `older` is older than the youngest dump of all.
        enough: the dumps of one moment are more than those of `older`: who waits for whom can be said.
    """

    stuck: tuple[StuckCall, ...] = ()
    ranks: tuple[int, ...] = ()
    tracks: dict[int, Track] | None = None
    troubles: tuple[Trouble, ...] = ()
    empty: tuple[int, ...] = ()
    off: bool = False
    pending: tuple[int, ...] = ()
    world: int = 0
    backend: str = ""
    older: dict[int, Track] = field(default_factory=dict)
    apart_ns: int = 0

    @property
    def enough(self) -> bool:
        return len(self.tracks or ()) > len(self.older)


def align_recordings(sources: Sequence[ParsedSource], identity: Identity) -> Recordings:
    """Lines up the dumps of all ranks, per group and call."""
    recordings = one_for_each_rank(sources)
    if not recordings:
        return Recordings()
    ranks = tuple(recordings)
    silent = tuple(rank for rank, recording in recordings.items() if not len(recording))
    if len(silent) == len(ranks):
        return Recordings(ranks=ranks, empty=silent, off=True, world=identity.world_size or len(ranks))
    unrecorded = {rank for rank in silent if any(g.enqueued > 0 for g in recordings[rank].groups)}
    every = {rank: make_track(rank, recordings[rank]) for rank in ranks if rank not in unrecorded}
    older = {rank: every[rank] for rank in sorted({*of_other_sets(sources, recordings), *find_older(every)})}
    tracks = {rank: track for rank, track in every.items() if rank not in older}
    world = max(world_of(sources), identity.world_size or 0, ranks[-1] + 1)
    members = find_members(tracks.values(), world)
    troubles, stuck = Finder(tracks, members).find()
    if not troubles and not older:
        # where ranks wait for those whose dumps lack what is done, nothing can be said of either
        older = {rank: tracks.pop(rank) for rank in find_lagging(tracks, members)}
    if len(tracks) <= len(older):
        # most have no dump of this moment: that a few of them wait for the rest accuses nobody
        troubles = tuple(trouble for trouble in troubles if trouble.fault is not Fault.NO_DUMP)
    backend = next((r.backend for r in recordings.values() if r.backend), "")
    pending = tuple(rank for rank, track in tracks.items() if track.pending)
    return Recordings(
        stuck,
        ranks,
        tracks,
        troubles,
        tuple(sorted(unrecorded)),
        pending=pending,
        world=world,
        backend=backend,
        older=older,
        apart_ns=_newest(tracks) - _newest(older) if older else 0,
    )


def describe_older(recordings: Recordings) -> Iterator[str]:
    """The warning about dumps that are left out."""
    if recordings.older:
        yield (
            f"the flight-recorder dumps of {rank_words(recordings.older)} are of an earlier run or moment than the "
            "others: they are left out"
        )


def _newest(tracks: Mapping[int, Track]) -> int:
    return max(track.recording.last_time_ns for track in tracks.values())
