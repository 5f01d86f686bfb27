"""Tells in what order a rank without a dump would have made its calls, by ranks that run the same program beside it.

In a pipeline the ranks at one place of their stage make the same sends and receives, each with its own peer. When one
of these peers has left no dump, the others still show whether such a send comes before or after the collective that
the peers themselves stand in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hangscope.align.recorder_stands import Stand, find_common, find_lane
from hangscope.align.recorder_tracks import Members, Track


def find_lead(stand: Stand, tracks: Mapping[int, Track], members: Members) -> int:
    """Whether neighbours have this call behind them.

    Args:
        stand: a call in which ranks wait for a rank without a dump.
        tracks: rank -> its calls.
        members: who is in which group.

    Returns:
        -1 when neighbours completed their own such call, so that the absent rank would have made it early; 1 when
        they wait in theirs, so that it comes after the collective in which the peers stand; 0 when nothing tells.
    """
    if not stand.is_p2p:
        return 0
    (rank, at), *_ = stand.arrived.items()
    track = tracks[rank]
    part = track.parts(at)[0]
    shape = track.shape(part)
    # who made the latest call together with it keeps step with it; another replica of the model may be far ahead
    beside = [
        (since, other)
        for other in _neighbours(rank, stand.group, shape.me, tracks, members)
        if (since := find_common(track, other)) is not None
    ]
    for since, other in sorted(beside, key=lambda pair: (-pair[0][0], pair[1].rank)):
        group = next(name for name in _like(stand.group, members) if other.rank in members.of(name))
        mine = sum(place > since[0] for place in find_lane(track, stand.group, shape.way, shape.peer, part))
        theirs = find_lane(other, group, shape.way, shape.peer, len(other.recording) - 1)
        later = [place for place in theirs if place > since[1]]
        if 0 < mine <= len(later):
            waits = any(later[mine - 1] in other.parts(place) for place in other.pending)
            return 1 if waits else -1
    return 0


def _neighbours(rank: int, group: str, me: int, tracks: Mapping[int, Track], members: Members) -> Iterator[Track]:
    """The ranks at the same place of groups with the same description."""
    for name in _like(group, members):
        other = members.global_rank(name, me)
        if other is not None and other != rank and other in tracks:
            yield tracks[other]


def _like(group: str, members: Members) -> list[str]:
    """Names of the groups that the job describes alike, and that are as large."""
    about, size = members.descriptions.get(group), len(members.of(group))
    if about is None:
        return []
    return [
        name for name, text in sorted(members.descriptions.items()) if text == about and len(members.of(name)) == size
    ]
