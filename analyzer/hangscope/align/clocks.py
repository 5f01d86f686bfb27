"""Compares the clocks of the job's hosts, and corrects the times of those that are clearly off.

Every host prints its own time. What must have happened on two hosts at one moment, or within some seconds
(`align.clock_pairs` finds it), bounds how far one clock is ahead of the other. All bounds together give an interval;
a clock is corrected only when that interval leaves no doubt, and what remains in doubt is kept as uncertainty.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hangscope.records import dataclass

UNKNOWN_S = 5.0
"""How far clocks are trusted that nothing compares: hosts of a cluster keep time to milliseconds, logs are late."""

_CLEAR_S = 1.0
"""A clock is off when the whole interval lies beyond this."""

_HALF_HOUR_S = 1800.0
_HOUR_S = 3600.0
_MOST_S = 27 * 3600.0
"""Zones are at most 26 hours apart; what lies further apart is no clock but another run."""

_MOST_INTERVALS = 256
"""Of one pair of hosts; more say no more."""

_NEAR_ZONE_S = 60.0
"""A zone's offset is a multiple of half an hour; the clock itself may be off by so much besides."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How far the clock of one host is ahead of another's, as one pair of lines tells: `least_s` to `most_s`."""

    host: str
    other: str
    least_s: float
    most_s: float
    basis: str


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened on several hosts at one time, give or take `slack_s`.

    Attributes:
        times: host -> what its clock showed, seconds as in `Line.time`.
        basis: what happened, in words that follow "by".
    """

    times: Mapping[str, float]
    slack_s: float
    basis: str


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a host's clock is ahead of the reference's.

    Attributes:
        zone_s: the part of it that is another time zone (a multiple of half an hour).
        skew_s: the rest, 0 where it is not clear that there is one.
        uncertainty_s: how wrong the two may be together.
        basis: what told.
    """

    host: str
    zone_s: float
    skew_s: float
    uncertainty_s: float
    basis: str


@dataclass(frozen=True, slots=True)
class Clocks:
    """What is known of the hosts' clocks.

    Attributes:
        reference: the host by whose clock times are given, or "" when nothing is known.
        offsets: host -> its offset to the reference, which has none.
        kernel_zones: host -> how far its kernel log is ahead of its other logs, a multiple of half an hour.
    """

    reference: str = ""
    offsets: Mapping[str, Offset] = dataclasses.field(default_factory=dict)
    kernel_zones: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def corrected(self) -> tuple[Offset, ...]:
        """The clocks that are off, by host."""
        return tuple(o for _, o in sorted(self.offsets.items()) if o.zone_s or o.skew_s)

    def shift_s(self, host: str | None, *, kernel: bool = False) -> float:
        """What to add to a time of this host, so that it compares with the reference's.

        Args:
            host: as the lines name it.
            kernel: the line is one of the kernel's or of a service of the host, which need not share the zone of the
                job's processes.
        """
        if host is None:
            return 0.0
        offset = self.offsets.get(host)
        skew_s = offset.skew_s if offset else 0.0
        if kernel:
            return -skew_s - self.kernel_zones[host] if host in self.kernel_zones else -skew_s
        return -skew_s - (offset.zone_s if offset else 0.0)

    def uncertainty_s(self, hosts: Iterable[str], others: Iterable[str]) -> float:
        """How far times of two sets of hosts, corrected, may be apart and mean the same moment.

        0 for one and the same host. Clocks that nothing compares, or that look right, are trusted to `UNKNOWN_S`.
        """
        one, two = set(hosts), set(others)
        if one & two:
            return 0.0
        off = [self.offsets[host] for host in one | two if host in self.offsets]
        doubt = [offset.uncertainty_s for offset in off if offset.zone_s or offset.skew_s]
        return max(UNKNOWN_S, sum(sorted(doubt)[-2:]))


def compare_clocks(
    moments: Sequence[Moment],
    bounds: Sequence[Bound],
    first: str | None = None,
    kernel_zones: Mapping[str, float] | None = None,
) -> Clocks:
    """The offsets of all hosts that anything connects with the reference.

    The reference is the host whose clock most others agree with, so that one wrong clock among many is the one that
    is corrected.

    Args:
        moments: what happened on several hosts at once.
        bounds: what one host's line tells about another's.
        first: the reference where as many agree with one as with another (the host of rank 0).
        kernel_zones: as in `Clocks`.
    """
    zones = dict(kernel_zones or {})
    reference = _reference(moments, bounds, first)
    if reference is None:
        return Clocks(kernel_zones=zones)
    pairs = _pairs(moments, bounds, reference)
    neighbours: dict[str, list[str]] = defaultdict(list)
    for host, other in sorted(pairs):
        neighbours[host].append(other)
    reached: dict[str, tuple[float, float, str]] = {reference: (0.0, 0.0, "")}
    waiting = [reference]
    while waiting:
        base = waiting.pop(0)
        least, most, _ = reached[base]
        for host in neighbours[base]:
            found = _agreed(pairs[base, host]) if host not in reached else None
            if found is not None:
                reached[host] = (least + found[0], most + found[1], found[2])
                waiting.append(host)
    offsets = {host: _offset(host, *interval) for host, interval in reached.items() if host != reference}
    return Clocks(reference, offsets, zones)


def describe(clocks: Clocks) -> Iterator[str]:
    """Warnings about the clocks that are off."""
    for zone_s, off in sorted(_by_zone(clocks).items()):
        names = _names([offset.host for offset in off])
        verb = "write" if len(off) > 1 else "writes"
        direction = "ahead of" if zone_s > 0 else "behind"
        yield (
            f"{names} {verb} times of another time zone, {_hours(zone_s)} {direction} {clocks.reference} "
            f"(by {off[0].basis}); their times are given as on {clocks.reference}"
        )
    for offset in clocks.corrected:
        if offset.skew_s:
            direction = "ahead of" if offset.skew_s > 0 else "behind"
            yield (
                f"the clock of {offset.host} is about {_amount(abs(offset.skew_s))} {direction} {clocks.reference}, "
                f"give or take {_amount(offset.uncertainty_s)} (by {offset.basis}); "
                f"its times are given as on {clocks.reference}"
            )
    for host, zone_s in sorted(clocks.kernel_zones.items()):
        direction = "ahead of" if zone_s > 0 else "behind"
        yield (
            f"the kernel log of {host} is written in another time zone, {_hours(zone_s)} {direction} the job's logs; "
            "its times are given as in these"
        )


def zone_of(least_s: float, most_s: float) -> float:
    """The zone difference that an interval of offsets speaks of, in seconds; 0 when it speaks of none.

    A narrow interval has to lie within a minute of a multiple of half an hour; a wide one has to hold one whole hour
    and no other, and not zero.
    """
    middle, half = (least_s + most_s) / 2, (most_s - least_s) / 2
    if half <= _NEAR_ZONE_S:
        zone = round(middle / _HALF_HOUR_S) * _HALF_HOUR_S
        return zone if abs(middle - zone) <= _NEAR_ZONE_S else 0.0
    zone = round(middle / _HOUR_S) * _HOUR_S
    return zone if half < _HALF_HOUR_S and least_s <= zone <= most_s else 0.0


def _by_zone(clocks: Clocks) -> dict[float, list[Offset]]:
    found: dict[float, list[Offset]] = defaultdict(list)
    for offset in clocks.corrected:
        if offset.zone_s:
            found[offset.zone_s].append(offset)
    return found


def _reference(moments: Sequence[Moment], bounds: Sequence[Bound], first: str | None) -> str | None:
    """The host of the moment with the most hosts that most of these agree with."""
    hosts = {host for bound in bounds for host in (bound.host, bound.other)}
    widest = max((moment for moment in moments), key=lambda m: (len(m.times), -m.slack_s), default=None)
    if widest is None:
        return min(hosts, key=lambda host: (host != first, host), default=None)
    agree = Counter[str]()
    ordered = sorted(widest.times.items(), key=lambda item: (item[1], item[0]))
    start = end = 0
    for host, time in ordered:
        while ordered[start][1] < time - widest.slack_s:
            start += 1
        while end < len(ordered) and ordered[end][1] <= time + widest.slack_s:
            end += 1
        agree[host] = end - start
    return min(agree, key=lambda host: (-agree[host], host != first, host))


def _pairs(
    moments: Sequence[Moment], bounds: Sequence[Bound], reference: str
) -> dict[tuple[str, str], list[tuple[float, float, str]]]:
    """(host, other) -> intervals of how far the other is ahead of the host; a moment connects all with one host."""
    found: dict[tuple[str, str], list[tuple[float, float, str]]] = defaultdict(list)
    for moment in moments:
        hub = reference if reference in moment.times else min(moment.times)
        for host, time in moment.times.items():
            ahead = time - moment.times[hub]
            if host != hub and abs(ahead) < _MOST_S:
                found[hub, host].append((ahead - moment.slack_s, ahead + moment.slack_s, moment.basis))
                found[host, hub].append((-ahead - moment.slack_s, -ahead + moment.slack_s, moment.basis))
    for bound in (bound for bound in bounds if max(abs(bound.least_s), abs(bound.most_s)) < _MOST_S):
        found[bound.other, bound.host].append((bound.least_s, bound.most_s, bound.basis))
        found[bound.host, bound.other].append((-bound.most_s, -bound.least_s, bound.basis))
    return found


def _agreed(intervals: Sequence[tuple[float, float, str]]) -> tuple[float, float, str] | None:
    """The part that most intervals share, and the narrowest one's basis; None when no majority agrees."""
    intervals = intervals[:_MOST_INTERVALS]
    begins, ends = sorted(least for least, _, _ in intervals), sorted(most for _, most, _ in intervals)
    # most of them overlap where one begins: those begun by then, less those that ended before
    count, start = max(
        ((bisect.bisect_right(begins, at) - bisect.bisect_left(ends, at), at) for at in begins),
        key=lambda found: (found[0], -found[1]),
    )
    if 2 * count <= len(intervals):
        return None
    members = [interval for interval in intervals if interval[0] <= start <= interval[1]]
    narrowest = min(members, key=lambda interval: (interval[1] - interval[0], interval))
    return max(i[0] for i in members), min(i[1] for i in members), narrowest[2]


def _offset(host: str, least_s: float, most_s: float, basis: str) -> Offset:
    zone_s = zone_of(least_s, most_s)
    least, most = least_s - zone_s, most_s - zone_s
    is_clear = least > _CLEAR_S or most < -_CLEAR_S
    skew_s = (least + most) / 2 if is_clear else 0.0
    return Offset(host, zone_s, skew_s, max(abs(least - skew_s), abs(most - skew_s)), basis)


def _names(hosts: Sequence[str]) -> str:
    if len(hosts) > 4:
        return f"{', '.join(hosts[:4])} and {len(hosts) - 4} more hosts"
    return ", ".join(hosts[:-1]) + f" and {hosts[-1]}" if len(hosts) > 1 else hosts[0]


def _hours(seconds: float) -> str:
    return f"{abs(seconds) / _HOUR_S:g} h"


def _amount(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.1f} h"
