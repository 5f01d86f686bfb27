"""Tells dumps of the last moment from older ones: of an earlier run, or of the same run a good while before.

torch writes a rank's dump over the last one. Who died without a dump leaves the one of the run before, and it lies
among those of this run as if it were one of them. Three things cannot be in dumps of one moment: worlds of different
sizes; a call that needs all its members, completed on one and never made on another; and calls of one number that
one rank completed long before the other made any of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hangscope.align.recorder_ranks import parse_ranks
from hangscope.align.recorder_stands import find_stale
from hangscope.align.recorder_tracks import Members, Track, needs_all
from hangscope.parse.recorder.recording import State

APART_NS = 60_000_000_000
"""Dumps of one moment may show a rank that stands since long, but none that completed what another lacks; what is
nearer than this is a healthy job, whose dumps were taken one after the other."""

_MOST_US = (1 << 32) - 1
"""An age as large as a column of ages can hold may be more."""

_MOMENT_NS = 10_000_000_000
_FEW_CALLS = 256
"""What a job does between its first dump and its last, when somebody asks all its ranks for theirs."""

_COMMON = 4
"""So many calls a rank may have queued on its device, and then have stood in no other, before its peers began."""


def find_older(tracks: Mapping[int, Track]) -> tuple[int, ...]:
    """The ranks whose dumps cannot be of the moment of the youngest ones.

    Args:
        tracks: rank -> its calls.

    Returns:
        Ranks, sorted; empty when all dumps can be of one moment, or when they tell no times.
    """
    timed = sorted(
        (track for track in tracks.values() if track.recording.last_time_ns > 0),
        key=lambda track: (-track.recording.last_time_ns, track.rank),
    )
    older = []
    made: dict[str, Track] = {}
    done: dict[str, Track] = {}
    for track in timed:
        groups = sorted(track.last)
        if any(_apart(track, held, name) for name in groups for held in _held(name, made, done)):
            older.append(track.rank)
            continue
        for name in groups:
            if name not in made or track.last[name] < made[name].last[name]:
                made[name] = track
            if name in track.done and (name not in done or track.done[name] > done[name].done[name]):
                done[name] = track
    return tuple(sorted(older))


def find_lagging(tracks: Mapping[int, Track], members: Members) -> tuple[int, ...]:
    """The ranks for which others wait in vain, or so it looks, although their dumps lack what was completed with them.

    A healthy job looks like that too, when dumps are taken one after the other: then a call waits for a moment only,
    and the dumps are few calls apart.
    """
    stale = find_stale(tracks, members)
    if not stale:
        return ()
    newest_ns = max(track.recording.last_time_ns for track in tracks.values())
    done: dict[str, int] = {}
    for track in tracks.values():
        for name, seq in track.done.items():
            done[name] = max(seq, done.get(name, -1))
    found: set[int] = set()
    for track in tracks.values():
        if (at := track.front) is None or (key := track.key(at)) is None:
            continue
        name, seq = key
        behind = {rank for rank in stale.intersection(members.of(name)) if tracks[rank].last.get(name, -1) < seq}
        long = track.state(at) is State.FAILED or newest_ns - track.time_ns(at) > _MOMENT_NS
        found |= {rank for rank in behind if long or done.get(name, -1) - tracks[rank].last.get(name, 0) > _FEW_CALLS}
    return tuple(sorted(found))


def _held(name: str, made: Mapping[str, Track], done: Mapping[str, Track]) -> tuple[Track, ...]:
    """Of the younger dumps, the one that came least far in a group, and the one that completed most."""
    return tuple({id(track): track for track in (made.get(name), done.get(name)) if track is not None}.values())


def _apart(old: Track, young: Track, name: str) -> bool:
    """Whether two dumps, the first of which is not younger, are of different moments, by one group of both."""
    gap_ns = young.recording.last_time_ns - old.recording.last_time_ns
    if gap_ns <= APART_NS:
        return False
    if 0 < _size(old, name) != _size(young, name) > 0:
        return True
    if young.done.get(name, -1) > old.last[name] or old.done.get(name, -1) > young.last[name]:
        return True
    return _before(old, young, name)


def _size(track: Track, name: str) -> int:
    """How many members a dump gives a group; 0 for groups other than the world, whose names may come again."""
    for group in track.recording.groups:
        if group.name == name and (name == "0" or group.description == "default_pg"):
            return len(parse_ranks(group.ranks)) if group.ranks else 0
    return 0


def _before(old: Track, young: Track, name: str) -> bool:
    """Whether one completed calls of a group that the other made only long after the former's last call of all."""
    reached_us = (young.recording.last_time_ns - old.recording.last_time_ns - APART_NS) // 1000
    completed = {seq for seq, _ in _calls(old, name, completed=True)}
    late = {seq for seq, age_us in _calls(young, name, completed=False) if age_us < min(reached_us, _MOST_US)}
    return len(completed & late) >= _COMMON


def _calls(track: Track, name: str, *, completed: bool) -> Iterator[tuple[int, int]]:
    """Number and age of the collectives of a group that a dump holds, which need all members to complete."""
    recording = track.recording
    shapes = {
        number
        for number, shape in enumerate(recording.shapes)
        if recording.groups[shape.group].name == name and needs_all(shape)
    }
    for seq, shape, state, age_us in zip(
        recording.seq, recording.shape, recording.state, recording.time_us, strict=True
    ):
        if shape in shapes and state != State.PART and (state == State.DONE or not completed):
            yield seq, age_us
