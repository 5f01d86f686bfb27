"""Opens flight recorders' dumps as a book of calls, by torch's own numbers of the calls of each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hangscope.align.call_book import (
    DONE,
    MADE,
    STARTED,
    CallBook,
    CallKind,
    GroupBook,
    Ints,
    RankCalls,
    Read,
    stuck_by_group,
)
from hangscope.align.recorder_stands import find_stale
from hangscope.align.recorder_tracks import COALESCED, Track, find_members, torch_name
from hangscope.align.recordings import Recordings
from hangscope.parse.recorder.recording import State

_REACHED = np.array([MADE, STARTED, MADE, DONE, MADE], dtype=np.uint8)
"""By `State`: what the watchdog gave up had not completed."""


def open_recorded(recordings: Recordings, shifts_s: Mapping[int, float]) -> CallBook:
    """The book of the dumps.

    Args:
        recordings: the dumps, lined up.
        shifts_s: rank -> seconds to add to the times of its dump.
    """
    book = CallBook("recorder")
    tracks = recordings.tracks or {}
    if not tracks:
        return book
    stuck = stuck_by_group(recordings.stuck, "recorder")
    members = find_members(tracks.values(), recordings.world)
    reader = _Reader(book, tracks, shifts_s)
    lags = find_stale(tracks, members)
    for name, callers in reader.callers.items():
        here = stuck.get(name)
        ranks = tuple(sorted({*members.of(name), *callers}))
        lowest = min(int(held.seq[0]) for held in callers.values())
        # a rank that made no call here is missed where the waiting begins
        none_made = lowest if here is None else here.seq
        first = {rank: none_made for rank in ranks if rank in tracks}
        ends = dict(first)
        for rank, held in callers.items():
            first[rank], ends[rank] = int(held.seq[0]), int(held.seq[-1]) + 1
        book.groups.append(
            GroupBook(
                name=name,
                description=members.descriptions.get(name, ""),
                size=len(members.of(name)) or None,
                ranks=ranks,
                first=first,
                ends=ends,
                stuck=here,
                lags=lags,
                tells_state=True,
                read=reader.of_group(name),
            )
        )
    book.sort(stuck)
    return book


@dataclass(frozen=True, slots=True)
class _Held:
    """The collectives of one rank in one group: their numbers, ascending, and their places in the recording."""

    seq: Ints
    places: Ints


_NOTHING = _Held(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class _Reader:
    """Reads the calls of all dumps.

    Attributes:
        callers: group's name -> rank -> its collectives there.
    """

    def __init__(self, book: CallBook, tracks: Mapping[int, Track], shifts_s: Mapping[int, float]) -> None:
        self.callers: dict[str, dict[int, _Held]] = defaultdict(dict)
        self._book = book
        self._tracks = tracks
        self._shifts_s = shifts_s
        self._shapes: dict[tuple[int, int], tuple[int, int]] = {}
        self._agreements: dict[tuple[str, int], int] = {}
        for rank, track in tracks.items():
            for name, held in _collectives(track).items():
                self.callers[name][rank] = held

    def of_group(self, name: str) -> Read:
        """Reads the calls of one group."""
        callers = self.callers[name]
        return lambda rank, first, last: self._read(rank, callers.get(rank, _NOTHING), first, last)

    def _read(self, rank: int, held: _Held, first: int, last: int) -> RankCalls:
        low, high = np.searchsorted(held.seq, (first, last)).tolist()
        seq, places = held.seq[low:high], held.places[low:high]
        recording = self._tracks[rank].recording
        shapes = np.array(recording.shape, dtype=np.int64)[places]
        looks = dict(zip(shapes[::-1].tolist(), places[::-1].tolist(), strict=True))
        numbers = {code: self._number(rank, code, at) for code, at in looks.items()}
        codes = shapes.tolist()
        ages_s = np.array(recording.time_us, dtype=np.float64)[places] / 1e6
        known = recording.last_time_ns > 0
        shift_s = self._shifts_s.get(rank, 0.0)
        return RankCalls(
            seq=seq,
            kind=np.array([numbers[code][0] for code in codes], dtype=np.int32),
            agreement=np.array([numbers[code][1] for code in codes], dtype=np.int64),
            reached=_REACHED[np.frombuffer(recording.state, dtype=np.uint8)[places]],
            time=recording.last_time_ns / 1e9 - ages_s + shift_s if known else np.full(len(seq), np.nan),
            file=np.full(len(seq), self._book.file_number(recording.file), dtype=np.int32),
            line=np.array(recording.lines, dtype=np.int32)[places]
            if recording.lines
            else np.zeros(len(seq), dtype=np.int32),
        )

    def _number(self, rank: int, code: int, at: int) -> tuple[int, int]:
        """Number of the kind, and of the agreement, of a shape, of which the entry at a place is one."""
        known = self._shapes.get((rank, code))
        if known is None:
            track = self._tracks[rank]
            shape = track.recording.shapes[code]
            op = torch_name(shape)
            kind = CallKind(op, shape.sizes, track.where(at), f"{op} of {shape.sizes}" if shape.sizes else op)
            agreement = self._agreements.setdefault((shape.op, shape.signature), len(self._agreements))
            known = self._shapes[rank, code] = self._book.kind_number(kind), agreement
        return known


def _collectives(track: Track) -> dict[str, _Held]:
    """Group's name -> the collectives that a rank recorded there; of several with one number the last one counts."""
    recording = track.recording
    if not len(recording):
        return {}
    shapes = np.array(recording.shape, dtype=np.int64)
    states = np.frombuffer(recording.state, dtype=np.uint8)
    seqs = np.array(recording.seq, dtype=np.int64)
    p2p = np.array([bool(shape.way) for shape in recording.shapes])[shapes]
    block = np.array([shape.op == COALESCED for shape in recording.shapes])[shapes]
    part = states == State.PART
    # a block of sends and receives is closed behind the last of them
    closes_p2p = np.zeros(len(shapes), dtype=np.bool_)
    closes_p2p[1:] = block[1:] & part[:-1] & p2p[:-1]
    mine = np.flatnonzero(~(p2p | part | closes_p2p))
    names: dict[str, int] = {}
    group_of = np.array([names.setdefault(group.name, len(names)) for group in recording.groups])
    groups = group_of[np.array([shape.group for shape in recording.shapes])[shapes[mine]]]
    found = {}
    for name, number in names.items():
        places = mine[groups == number]
        if len(places):
            order = np.argsort(seqs[places], kind="stable")
            ordered = seqs[places][order]
            last = np.append(ordered[1:] != ordered[:-1], [True])
            found[name] = _Held(ordered[last], places[order][last])
    return found
