"""Finds where the waiting begins among the recorded calls of all ranks, and who is to blame.

In this order: calls in which ranks differ; ranks that wait nowhere and are missed; calls that all have joined and
that do not end; calls that wait for each other in a circle; ranks without a dump that are missed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hangscope.align.collectives import Parting, StuckCall
from hangscope.align.recorder_neighbours import find_lead
from hangscope.align.recorder_programs import Departure, Program, find_shift
from hangscope.align.recorder_stands import NodeId, Stand, Stands, find_cycles
from hangscope.align.recorder_tracks import COALESCED, Members, Track, torch_name
from hangscope.align.recorder_trouble import Fault, Trouble
from hangscope.model import Evidence
from hangscope.parse.recorder.recording import State

_MOST_ASKED = 64
"""So many ranks are compared with their own past at most; the one to blame is among the fewest in a circle."""

_MOST_STUCK = 2000
_LAG_NS = 10_000_000_000
"""A call that completed on some ranks completes on the others within this time, or hangs there."""


class Finder:
    """Looks for the faults of one job."""

    def __init__(self, tracks: Mapping[int, Track], members: Members) -> None:
        self._tracks = tracks
        self._members = members
        self._stands = Stands(tracks, members)
        self._programs: dict[int, Program] = {}
        self._newest = max((track.recording.last_time_ns for track in tracks.values()), default=0)

    def find(self) -> tuple[tuple[Trouble, ...], tuple[StuckCall, ...]]:
        """The faults, and all stuck calls, those of the faults first."""
        troubles = self._differing() or self._missed() or self._all_joined() or self._circles() or self._without_dump()
        if not troubles:
            return (), ()
        calls = {trouble.call.group + f"/{trouble.call.seq}": trouble.call for trouble in troubles}
        for stand in self._by_time(self._stands.nodes.values())[:_MOST_STUCK]:
            if stand.blockers or stand.unknown:
                call = self._call(stand)
                calls.setdefault(call.group + f"/{call.seq}", call)
        return tuple(troubles), tuple(calls.values())

    def _program(self, rank: int) -> Program:
        if rank not in self._programs:
            self._programs[rank] = Program(self._tracks[rank])
        return self._programs[rank]

    def _first_time(self, stand: Stand) -> int:
        return min(self._tracks[rank].time_ns(at) for rank, at in stand.arrived.items())

    def _by_time(self, stands: Iterable[Stand]) -> list[Stand]:
        return sorted(stands, key=lambda stand: (self._first_time(stand), str(stand.node)))

    # --- calls that differ ------------------------------------------------------------------------------

    def _differing(self) -> list[Trouble]:
        found = []
        for stand in self._by_time(self._stands.nodes.values()):
            trouble = None if stand.is_p2p else self._difference(stand)
            if trouble is not None:
                found.append(trouble)
        return found

    def _difference(self, stand: Stand) -> Trouble | None:
        places = {**stand.passed, **stand.queued, **stand.arrived}
        here = {rank: at for rank, at in places.items() if at is not None}
        calls = {
            rank: (self._tracks[rank].shape(at).op, self._tracks[rank].shape(at).signature) for rank, at in here.items()
        }
        if len(set(calls.values())) < 2:
            return None
        odd, tie = self._odd(calls, here)
        normal = tuple(sorted(set(calls) - set(odd)))
        right, wrong = calls[normal[0]], calls[odd[0]]
        skipped = self._skip_here(stand, odd, normal)
        if skipped is not None:
            return self._skip_trouble(stand, odd, *skipped)
        fault = Fault.OPERATION if right[0] != wrong[0] else Fault.SIZE
        expected, seen = self._words(normal[0], here[normal[0]]), self._words(odd[0], here[odd[0]])
        differing = {rank: self._words(rank, here[rank]) for rank in odd}
        call = self._call(stand, odd=odd, differing=differing, reference=normal[0])
        parting = Parting.OPERATION if fault is Fault.OPERATION else Parting.SIZE
        call = replace(call, parting=parting, tie=tie, expected=expected, found=seen)
        where = self._tracks[odd[0]].where(here[odd[0]])
        return self._trouble(fault, call, odd, last_seen=seen, last_where=where)

    def _odd(self, calls: Mapping[int, tuple[str, int]], here: Mapping[int, int]) -> tuple[tuple[int, ...], bool]:
        """The ranks whose call is not that of most, or that left their own pattern; and whether that is a guess."""
        votes = Counter(calls.values()).most_common()
        if votes[0][1] > sum(count for _, count in votes[1:]):
            return tuple(sorted(rank for rank, call in calls.items() if call != votes[0][0])), False
        sides = [tuple(sorted(r for r, call in calls.items() if call == side)) for side, _ in votes]
        strange = [side for side in sides if self._leaves_pattern(side[0], here[side[0]])]
        if len(strange) == 1:
            return strange[0], False
        first = calls[min(calls)]
        return tuple(sorted(rank for rank, call in calls.items() if call != first)), True

    def _leaves_pattern(self, rank: int, at: int) -> bool:
        departure = self._program(rank).departure()
        return departure is not None and departure.at <= at

    def _skip_here(self, stand: Stand, odd: tuple[int, ...], normal: tuple[int, ...]) -> tuple[int, int] | None:
        """Whether the odd ranks' call is the one that follows in the group: they left this one out."""
        one, peer = self._tracks[odd[0]], self._tracks[normal[0]]
        departure = self._program(odd[0]).departure()
        at = stand.arrived.get(odd[0], stand.queued.get(odd[0]))
        if departure is None:
            return find_shift(one, peer, stand.group, one.last.get(stand.group, -1))
        numbers = self._program(odd[0]).expected_numbers(departure)
        if departure.left_out and numbers is not None and departure.group == stand.group:
            return numbers
        if departure.at == at and departure.skipped and not self._came_back(odd[0], departure):
            return numbers or (stand.number, stand.number)
        return None

    def _came_back(self, rank: int, departure: Departure) -> bool:
        """Whether it made the expected call later on."""
        track = self._tracks[rank]
        expected = track.recording.shape[departure.expected]
        return any(track.recording.shape[at] == expected for at in range(departure.at, len(track.recording)))

    def _skip_trouble(self, stand: Stand, ranks: tuple[int, ...], first: int, last: int) -> Trouble:
        """A call left out, which may lie before the one in which the peers now wait."""
        reference = next((r for r in sorted(stand.arrived) if r not in ranks), None)
        if reference is None:
            reference = next(r for r in sorted({**stand.queued, **stand.passed}) if r not in ranks)
        peer = self._tracks[reference]
        at = peer.find((stand.group, first))
        call = self._call(stand, odd=ranks, reference=reference)
        if at is not None and first != stand.number:
            call = replace(
                call,
                seq=first,
                op=torch_name(peer.shape(at)),
                where=peer.where(at),
                evidence=(peer.evidence(at, f"rank {reference} made this call"), *call.evidence),
            )
        call = replace(call, parting=Parting.SKIPPED, missing=tuple(sorted({*call.missing, *ranks})), differing={})
        seen, where = self._last_seen(ranks[0])
        expected = peer.describe(at).split(", ", 2)[-1] if at is not None else call.expected
        return self._trouble(
            Fault.SKIPPED, replace(call, expected=expected), ranks, last_seen=seen, last_where=where, last_seq=last
        )

    # --- ranks that wait nowhere ------------------------------------------------------------------------

    def _missed(self) -> list[Trouble]:
        candidates: dict[int, list[Stand]] = defaultdict(list)
        for stand in self._by_time(self._stands.nodes.values()):
            for rank in sorted(stand.missing):
                if self._stands.idle(rank) and rank not in self._stands.stale:
                    candidates[rank].append(stand)
        chosen: dict[NodeId, list[int]] = defaultdict(list)
        for rank, stands in candidates.items():
            chosen[self._first_missed(rank, stands).node].append(rank)
        return [self._missing(self._stands.nodes[node], tuple(sorted(ranks))) for node, ranks in chosen.items()]

    def _first_missed(self, rank: int, stands: list[Stand]) -> Stand:
        """The call that the rank should have made first: by its own past, else the one that others made first."""
        upcoming = self._program(rank).expected_next()
        if upcoming is not None:
            track = self._tracks[rank]
            group = track.group(upcoming)
            for stand in stands:
                if stand.group == group and stand.is_p2p == track.is_p2p(upcoming):
                    return stand
        return stands[0]

    def _missing(self, stand: Stand, ranks: tuple[int, ...]) -> Trouble:
        last = self._tracks[ranks[0]].last.get(stand.group, 0)
        if not stand.is_p2p and len(ranks) == 1:
            shift = self._shift(stand, ranks[0], last)
            if shift is not None:
                return self._skip_trouble(stand, ranks, *shift)
        call = self._call(stand)
        seen, where = self._last_seen(ranks[0])
        fault = Fault.LEFT_EARLY if all(self._left(rank, stand) for rank in ranks) else Fault.MISSING
        return self._trouble(fault, call, ranks, last_seen=seen, last_where=where)

    def _shift(self, stand: Stand, rank: int, last: int) -> tuple[int, int] | None:
        reference = next((r for r in sorted({**stand.arrived, **stand.queued}) if r != rank), None)
        if reference is None or not self._tracks[rank].recording.has_frames:
            return None
        return find_shift(self._tracks[rank], self._tracks[reference], stand.group, last)

    def _left(self, rank: int, stand: Stand) -> bool:
        """Whether it made whole steps and the others wait in the first call of the next."""
        program = self._program(rank)
        upcoming = program.expected_next()
        if upcoming is None or program.ends_a_step() is not True:
            return False
        mine = self._tracks[rank].shape(upcoming)
        if stand.is_p2p:
            return self._tracks[rank].group(upcoming) == stand.group
        return any(
            (theirs.op, theirs.signature) == (mine.op, mine.signature)
            for other, at in stand.arrived.items()
            for theirs in [self._tracks[other].shape(at)]
        )

    # --- calls that all have joined ---------------------------------------------------------------------

    def _all_joined(self) -> list[Trouble]:
        found = []
        for stand in self._by_time(self._stands.nodes.values()):
            if stand.blockers or stand.unknown or len(stand.arrived) + len(stand.passed) < 2:
                continue
            if stand.passed and self._newest - self._first_time(stand) < _LAG_NS:
                continue  # it completes on one rank after the other
            ranks = tuple(sorted(stand.arrived)) if stand.passed and not stand.is_p2p else ()
            found.append(self._trouble(Fault.ALL_JOINED, self._call(stand), ranks))
        return found[:1]

    # --- circles ----------------------------------------------------------------------------------------

    def _circles(self) -> list[Trouble]:
        return [self._circle([self._stands.nodes[node] for node in ring]) for ring in find_cycles(self._stands)]

    def _circle(self, ring: list[Stand]) -> Trouble:
        nodes = {stand.node for stand in ring}
        crossing: dict[NodeId, tuple[int, ...]] = {}
        for stand in ring:
            crossing[stand.node] = tuple(sorted(r for r in stand.blockers if self._stands.of_rank.get(r) in nodes))
        sides = sorted(
            (ranks for ranks in crossing.values() if ranks), key=lambda side: (len(side), tuple(-r for r in side))
        )
        asked = list(dict.fromkeys(rank for side in sides for rank in side))[:_MOST_ASKED]
        for rank in asked:
            departure = self._program(rank).departure()
            if departure is not None:
                return self._departed(ring, crossing, rank, departure)
        for rank in asked:
            trouble = self._shifted(ring, crossing, rank)
            if trouble is not None:
                return trouble
        stand = next(s for s in self._by_time(ring) if crossing[s.node] == sides[0])
        p2p = next((s for s in self._by_time(ring) if s.is_p2p), None)
        if p2p is not None and all(s.is_p2p for s in ring):
            both = tuple(sorted({rank for s in ring if s.is_p2p for rank in s.arrived}))
            return self._ring_trouble(Fault.P2P, ring, p2p, both if len(both) <= 2 else sides[0])
        return self._ring_trouble(Fault.P2P if p2p else Fault.ORDER, ring, p2p or stand, sides[0])

    def _departed(
        self, ring: list[Stand], crossing: Mapping[NodeId, tuple[int, ...]], rank: int, departure: Departure
    ) -> Trouble:
        """The rank that left its own pattern: it made a call too early, or left one out."""
        track = self._tracks[rank]
        lacked = track.is_p2p(departure.expected)
        missed = [s for s in self._by_time(ring) if rank in crossing[s.node]]
        stand = next((s for s in missed if s.group == departure.group and s.is_p2p == lacked), missed[0])
        if departure.left_out and not departure.early:
            if lacked or stand.is_p2p:
                return self._ring_trouble(Fault.P2P, ring, stand, (rank,))
            numbers = self._program(rank).expected_numbers(departure)
            return self._skip_trouble(stand, (rank,), *(numbers or (stand.number, stand.number)))
        if lacked and stand.is_p2p and (not departure.early or all(other.is_p2p for other in ring)):
            return self._ring_trouble(Fault.P2P, ring, stand, (rank,))
        return self._ring_trouble(Fault.ORDER, ring, stand, (rank,))

    def _shifted(self, ring: list[Stand], crossing: Mapping[NodeId, tuple[int, ...]], rank: int) -> Trouble | None:
        for stand in self._by_time(ring):
            if rank in stand.missing and rank in crossing[stand.node] and not stand.is_p2p:
                shift = self._shift(stand, rank, self._tracks[rank].last.get(stand.group, 0))
                if shift is not None:
                    return self._skip_trouble(stand, (rank,), *shift)
        return None

    def _ring_trouble(self, fault: Fault, ring: list[Stand], stand: Stand, ranks: tuple[int, ...]) -> Trouble:
        call = self._call(stand, odd=ranks)
        parting = Parting.P2P if fault is Fault.P2P else Parting.MISSING
        groups = tuple(dict.fromkeys([stand.group, *sorted(s.group for s in ring)]))
        evidence = list(call.evidence)
        instead, where = "", ""
        for rank in ranks[:2]:
            at = self._tracks[rank].front
            if at is not None:
                evidence.insert(0, self._tracks[rank].evidence(at, f"rank {rank} waits here"))
                instead, where = self._words(rank, at), self._tracks[rank].where(at)
        call = replace(call, parting=parting, evidence=tuple(evidence[:12]))
        return self._trouble(fault, call, ranks, last_seen=instead, last_where=where, groups=groups)

    # --- ranks without a dump ---------------------------------------------------------------------------

    def _without_dump(self) -> list[Trouble]:
        """The first call in which nobody is missed but ranks of which there is no dump (or only an old one)."""
        found = []
        for stand in self._by_time(self._stands.nodes.values()):
            gone = tuple(sorted(rank for rank in stand.unknown if rank not in self._tracks))
            if gone and not stand.blockers:
                found.append((stand, gone))
        if len(found) > 1:
            found.sort(key=lambda pair: find_lead(pair[0], self._tracks, self._members))
        return [self._trouble(Fault.NO_DUMP, self._call(stand), gone) for stand, gone in found[:1]]

    # --- calls as the report shows them -----------------------------------------------------------------

    def _trouble(
        self,
        fault: Fault,
        call: StuckCall,
        ranks: tuple[int, ...],
        *,
        last_seen: str = "",
        last_where: str = "",
        last_seq: int = -1,
        groups: tuple[str, ...] = (),
    ) -> Trouble:
        return Trouble(
            fault,
            call,
            ranks,
            last_seen,
            last_where,
            last_seq=max(last_seq, call.seq),
            groups=groups,
            waits=len(self._stands.of_rank),
        )

    def _words(self, rank: int, at: int) -> str:
        track = self._tracks[rank]
        shape = track.shape(at)
        name = torch_name(shape, is_p2p=track.is_p2p(at))
        return f"{name} of {shape.sizes}" if shape.sizes else name

    def _last_seen(self, rank: int) -> tuple[str, str]:
        """A rank's last call in words, and its line of code."""
        track = self._tracks[rank]
        at = track.last_call
        return ("", "") if at is None else (track.describe(at).partition(", ")[2], track.where(at))

    def _call(
        self,
        stand: Stand,
        *,
        odd: tuple[int, ...] = (),
        differing: Mapping[int, str] | None = None,
        reference: int | None = None,
    ) -> StuckCall:
        here = reference if reference is not None else min(r for r in stand.arrived)
        track = self._tracks[here]
        at = next(
            place
            for place in (stand.arrived.get(here), stand.queued.get(here), stand.passed.get(here))
            if place is not None
        )
        members = self._members.of(stand.group)
        changed = dict(differing or {})
        arrived = tuple(sorted({*stand.arrived, *stand.queued} - set(odd if changed else ())))
        missing = tuple(sorted({*stand.missing, *stand.unknown} - set(changed)))
        started = tuple(sorted(r for r, p in stand.arrived.items() if self._tracks[r].state(p) == State.STARTED))
        return StuckCall(
            group=stand.group,
            group_size=len(members) or None,
            members=members,
            seq=track.recording.seq[at],
            op=self._op(track, at),
            arrived=arrived,
            missing=missing,
            differing=changed,
            parting=Parting.P2P if stand.is_p2p else Parting.MISSING,
            odd=odd or missing,
            expected=self._words(here, at),
            source="recorder",
            evidence=self._evidence(stand, odd, here, at),
            description=self._members.descriptions.get(stand.group, ""),
            where=track.where(at) or next((self._tracks[r].where(p) for r, p in stand.arrived.items()), ""),
            started=started,
        )

    def _op(self, track: Track, at: int) -> str:
        if track.shape(at).op == COALESCED and track.is_p2p(at):
            part = track.shape(track.parts(at)[0])
            return part.way or COALESCED
        return torch_name(track.shape(at))

    def _evidence(self, stand: Stand, odd: tuple[int, ...], here: int, at: int) -> tuple[Evidence, ...]:
        found = []
        blamed = odd or tuple(sorted(stand.missing))
        for rank in blamed[:4]:
            track = self._tracks.get(rank)
            if track is None:
                continue
            place = stand.arrived.get(rank, stand.queued.get(rank))
            if place is not None:
                found.append(track.evidence(place, f"what rank {rank} called"))
            elif track.last_call is not None:
                found.append(track.evidence(track.last_call, f"the last call of rank {rank}"))
        found.append(self._tracks[here].evidence(at, f"rank {here} made the call"))
        found += [
            self._tracks[rank].evidence(stand.arrived[rank], f"rank {rank} waits in the call")
            for rank in sorted(stand.arrived)[:4]
            if rank not in (here, *blamed)
        ]
        return tuple(found)
