"""Opens flight recorders' dumps as a book of calls, by torch's own numbers of the calls of each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from hangscope.align.call_book import (
    DONE,
    MADE,
    STARTED,
    Bytes,
    CallBook,
    CallKind,
    GroupBook,
    Ints,
    RankCalls,
    RankTransfers,
    Read,
    counted,
    stuck_by_group,
)
from hangscope.align.recorder_stands import find_stale
from hangscope.align.recorder_tracks import COALESCED, Members, Track, find_members, torch_name
from hangscope.align.recordings import Recordings
from hangscope.parse.recorder.recording import Recording, State
from hangscope.records import dataclass

_REACHED = np.array([MADE, STARTED, MADE, DONE, MADE], dtype=np.uint8)
"""By `State`: what the watchdog gave up had not completed."""


def open_recorded(recordings: Recordings, shifts_s: Mapping[int, float]) -> CallBook:
    """The book of the dumps.

    Args:
        recordings: the dumps, lined up.
        shifts_s: rank -> seconds to add to the times of its dump.
    """
    tracks = recordings.tracks or {}
    stuck = stuck_by_group(recordings.stuck, "recorder")
    members = find_members(tracks.values(), recordings.world)
    reader = _Reader(tracks, members, shifts_s)
    book = reader.book
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
                numbers=reader.numbers_in(name),
            )
        )
    book.movers = tuple(rank for rank, track in tracks.items() if any(s.way for s in track.recording.shapes))
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

    def __init__(self, tracks: Mapping[int, Track], members: Members, shifts_s: Mapping[int, float]) -> None:
        self.book = CallBook("recorder", self._transfers)
        self.callers: dict[str, dict[int, _Held]] = defaultdict(dict)
        self._members = members
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

    def numbers_in(self, name: str) -> Callable[[], Ints]:
        """Gives the numbers of the calls of one group."""
        callers = self.callers[name]
        return lambda: np.unique(np.concatenate([held.seq for held in callers.values()]))

    def _read(self, rank: int, held: _Held, first: int, last: int) -> RankCalls:
        low, high = np.searchsorted(held.seq, (first, last)).tolist()
        return self._calls(rank, held.seq[low:high], held.places[low:high])

    def _calls(self, rank: int, seq: Ints, places: Ints) -> RankCalls:
        """The calls at these places of a recording."""
        recording = self._tracks[rank].recording
        shapes = np.array(recording.shape, dtype=np.int64)[places]
        looks = dict(zip(shapes[::-1].tolist(), places[::-1].tolist(), strict=True))
        numbers = {code: self._number(rank, code, at) for code, at in looks.items()}
        codes = shapes.tolist()
        times = np.full(len(seq), np.nan)
        if recording.last_time_ns > 0:
            ages_s = np.array(recording.time_us, dtype=np.float64)[places] / 1e6
            times = recording.last_time_ns / 1e9 - ages_s + self._shifts_s.get(rank, 0.0)
        lines = np.array(recording.lines, dtype=np.int32)[places] if recording.lines else None
        return RankCalls(
            seq=seq,
            kind=np.array([numbers[code][0] for code in codes], dtype=np.int32),
            agreement=np.array([numbers[code][1] for code in codes], dtype=np.int64),
            reached=_REACHED[np.frombuffer(recording.state, dtype=np.uint8)[places]],
            time=times,
            file=np.full(len(seq), self.book.file_number(recording.file), dtype=np.int32),
            line=np.zeros(len(seq), dtype=np.int32) if lines is None else lines,
        )

    def _transfers(self, rank: int, last: int | None) -> RankTransfers:
        recording = self._tracks[rank].recording
        shapes = np.array(recording.shape, dtype=np.int64)
        places = np.flatnonzero(np.array([bool(shape.way) for shape in recording.shapes], dtype=np.bool_)[shapes])
        # (group, direction, other rank inside it) of each shape
        lanes = [(shape.group, shape.way, shape.peer) for shape in recording.shapes]
        numbers = {lane: number for number, lane in enumerate(dict.fromkeys(lanes))}
        seq = counted(np.array([numbers[lane] for lane in lanes], dtype=np.int64)[shapes[places]])
        if last is not None:
            places, seq = places[max(len(places) - last, 0) :], seq[max(len(seq) - last, 0) :]
        names = [group.name for group in recording.groups]
        groups = np.array([self.book.group_number(names[lane[0]]) for lane in lanes], dtype=np.int32)
        peers = [self._members.global_rank(names[group], peer) for group, _, peer in lanes]
        calls = self._calls(rank, seq, places)
        mine = shapes[places]
        return RankTransfers(
            group=groups[mine],
            is_send=np.array([lane[1] == "send" for lane in lanes], dtype=np.bool_)[mine],
            peer=np.array([-1 if peer is None else peer for peer in peers], dtype=np.int64)[mine],
            seq=seq,
            kind=calls.kind,
            reached=_REACHED[_states_of_batches(recording)[places]],
            time=calls.time,
            file=calls.file,
            line=calls.line,
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
            known = self._shapes[rank, code] = self.book.kind_number(kind), agreement
        return known


def _states_of_batches(recording: Recording) -> Bytes:
    """The state of each entry; the members of a batch have that of the entry that closes it."""
    states = np.frombuffer(recording.state, dtype=np.uint8)
    if not len(states):
        return states
    own = np.where(states == State.PART, len(states) - 1, np.arange(len(states)))
    closing = np.minimum.accumulate(own[::-1])[::-1]
    return states[closing]


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
