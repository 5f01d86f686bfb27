"""Aligns flight-recorder dumps: which call of which group each rank is at, and where the waiting begins."""

from __future__ import annotations

from collections.abc import Sequence

from hangscope.align.collectives import StuckCall
from hangscope.align.identity import Identity
from hangscope.align.recorder_faults import Finder
from hangscope.align.recorder_ranks import one_for_each_rank, world_of
from hangscope.align.recorder_tracks import Track, find_members, make_track
from hangscope.align.recorder_trouble import Trouble
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class Recordings:
    """What the flight recorders of all ranks say together.

    Attributes:
        stuck: the calls that cannot complete, those at which faults show first.
        ranks: ranks that left a dump.
        tracks: rank -> its calls.
        troubles: the faults.
        empty: ranks whose dump holds no calls though others', or the counters, tell of calls; or all ranks.
        off: no dump holds any call: the recorder was off.
        pending: ranks that stood in a call when they were dumped.
        world: how many ranks the dumps speak of.
        backend: of the communication, "" when unknown.
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
    tracks = {rank: make_track(rank, recordings[rank]) for rank in ranks if rank not in unrecorded}
    world = max(world_of(sources), identity.world_size or 0, ranks[-1] + 1)
    finder = Finder(tracks, find_members(tracks.values(), world))
    troubles, stuck = finder.find()
    backend = next((r.backend for r in recordings.values() if r.backend), "")
    pending = tuple(rank for rank, track in tracks.items() if track.pending)
    return Recordings(
        stuck, ranks, tracks, troubles, tuple(sorted(unrecorded)), pending=pending, world=world, backend=backend
    )
