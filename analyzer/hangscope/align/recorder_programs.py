"""Compares a rank with its own past: training repeats itself, so the call that breaks the pattern is the odd one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from hangscope.align.recorder_tracks import Track
from hangscope.expressions import expression
from hangscope.parse.recorder.recording import CallShape, State
from hangscope.records import dataclass

_MOST_PERIODS = 24
_ENOUGH = 0.85
_PLACE = expression(r"^(?P<file>.*):(?P<line>\d+)(?: (?P<function>.*))?$")

Token = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a rank left its own pattern.

    Attributes:
        at: place of the first call that is not the expected one (in the recording).
        group: name of the group of the call that it should have made.
        expected: that call, as the rank made it a step before (place in the recording).
        early: it made a later call of the pattern first, and the expected one after it, or not yet.
        left_out: the calls after it are those of the pattern without the expected one.
        skipped: how many calls of the pattern stand between the expected and the made one.
    """

    at: int
    group: str
    expected: int
    early: bool
    left_out: bool
    skipped: int


class Program:
    """The calls of one rank in order, a batch as one call, and the period in which they repeat."""

    def __init__(self, track: Track) -> None:
        self.track = track
        states = track.recording.state
        self.places = [at for at in range(len(states)) if states[at] != State.PART]
        self.tokens = self._tokens()
        self.period = find_period(self.tokens)

    def _tokens(self) -> list[int]:
        track = self.track
        numbers: dict[Token, int] = {}
        shapes = track.recording.shape
        found = []
        before = -1
        for at in self.places:
            # a batch is told by its members, which stand between the call before and its own entry
            key = tuple(shapes[before + 1 : at + 1])
            found.append(numbers.setdefault(key, len(numbers)))
            before = at
        return found

    def expected_next(self) -> int | None:
        """Place of the call of the last step that should come next again; None when the pattern does not tell."""
        tokens, period = self.tokens, self.period
        if period is None or len(tokens) < 2 * period or tokens[-period:] != tokens[-2 * period : -period]:
            return None
        return self.places[len(tokens) - period]

    def departure(self) -> Departure | None:
        """The first call of the last step or two that differs from the step before."""
        tokens, period = self.tokens, self.period
        if period is None:
            return None
        start = max(period, len(tokens) - 2 * period)
        at = next((i for i in range(start, len(tokens)) if tokens[i] != tokens[i - period]), None)
        if at is None:
            return None
        expected = tokens[at - period : at]
        made = tokens[at:]
        ahead = expected.index(made[0]) if made[0] in expected else 0
        rest = made[1:]
        early = bool(ahead) and _begins(rest, [*expected[:ahead], *expected[ahead + 1 :]])
        left_out = bool(ahead) and bool(rest) and _begins(rest, expected[ahead + 1 :])
        place = self.places[at - period]
        return Departure(self.places[at], self.track.group(place), place, early, left_out, ahead)

    def expected_numbers(self, departure: Departure) -> tuple[int, int] | None:
        """First and last number that the expected collective can have had: of equal calls in a row any was left out."""
        track, period = self.track, self.period
        key = track.key(departure.expected)
        if key is None or period is None:
            return None
        at = self.places.index(departure.expected)
        count = sum(
            track.key(place) is not None and track.group(place) == key[0] for place in self.places[at : at + period]
        )
        first = at
        while first > 0 and self.tokens[first - 1] == self.tokens[at]:
            first -= 1
        return key[1] + count - (at - first), key[1] + count

    def ends_a_step(self) -> bool | None:
        """Whether its last call ends a step, as far as code or numbers tell; None when they do not."""
        upcoming = self.expected_next()
        if upcoming is None or self.period is None:
            return None
        last = self.track.shape(self.places[-1])
        wraps = goes_back(last, self.track.shape(upcoming))
        return wraps if wraps is not None else self._numbers_fit()

    def _numbers_fit(self) -> bool | None:
        """A job that makes no calls before its first step has made a whole number of steps in every group.

        Sends and receives have no numbers: after them, the numbers do not tell whether they end a step or begin one.
        """
        track, period = self.track, self.period or 0
        if track.key(self.places[-1]) is None:
            return None
        counts = Counter(
            track.group(at) for at in self.places[len(self.places) - period :] if track.key(at) is not None
        )
        if all(count == 1 for count in counts.values()):
            return None
        steps = {divmod(track.last.get(name, 1), count) for name, count in counts.items()}
        return len(steps) == 1 and next(iter(steps))[1] == 0


def _begins(rest: Sequence[int], pattern: Sequence[int]) -> bool:
    shorter = min(len(rest), len(pattern))
    return list(rest[:shorter]) == list(pattern[:shorter])


def find_period(tokens: Sequence[int]) -> int | None:
    """After how many calls the calls repeat; None when they do not."""
    counts = Counter(tokens)
    repeated = [(count, token) for token, count in counts.items() if count > 1]
    if not repeated:
        return None
    tried: set[int] = set()
    best: tuple[float, int] | None = None
    for _, token in sorted(repeated)[:8]:
        places = [at for at, other in enumerate(tokens) if other == token]
        gaps = {b - a for a, b in itertools.pairwise(places)}
        gaps |= {c - a for a, c in zip(places, places[2:], strict=False)}
        for gap in sorted(gaps - tried)[:_MOST_PERIODS]:
            tried.add(gap)
            share = _agreement(tokens, gap)
            if best is None or share > best[0] + 0.02 or (share > best[0] - 0.02 and gap < best[1]):
                best = (share, gap)
    return best[1] if best is not None and best[0] >= _ENOUGH else None


def _agreement(tokens: Sequence[int], gap: int) -> float:
    """Share of calls that equal the one a period before; the last period may be disturbed and is left out."""
    end = len(tokens) - gap
    pairs = end - gap
    if pairs < gap // 2 or pairs < 2:
        end, pairs = len(tokens), len(tokens) - gap
    if pairs < 2:
        return 0.0
    return sum(a == b for a, b in zip(tokens[gap:end], tokens[: end - gap], strict=True)) / pairs


def goes_back(one: CallShape, following: CallShape) -> bool | None:
    """Whether a call is made at an earlier line of the same function than the one before: a loop began anew.

    The stacks are compared from the outside; None when they part in different functions.
    """
    for outer, inner in zip(reversed(one.route), reversed(following.route), strict=False):
        if outer != inner:
            a, b = _PLACE.match(outer), _PLACE.match(inner)
            if a is None or b is None or (a["file"], a["function"]) != (b["file"], b["function"]):
                return None
            return int(b["line"]) < int(a["line"])
    return None


def find_shift(one: Track, peer: Track, group: str, last: int) -> tuple[int, int] | None:
    """Where `one` left out a call of a group that `peer` made: from there on its calls are the peer's, one later.

    Args:
        one: the rank that may have left a call out.
        peer: a rank that made all calls of the group.
        group: name of the group.
        last: number of the last call that `one` made there.

    Returns:
        First and last number that the call left out can have had (calls that look the same cannot be told apart).
    """
    mine, theirs = _recent(one, group), _recent(peer, group)
    seq = last
    while seq in mine and seq + 1 in theirs and mine[seq] == theirs[seq + 1]:
        seq -= 1
    shifted = range(seq + 1, last + 1)
    parting = next((s for s in shifted if s in theirs and mine[s] != theirs[s]), None)
    if parting is None:
        return None
    before = [s for s in mine if s < parting and s in theirs]
    if not before or any(mine[s] != theirs[s] for s in before[-_MOST_COMPARED:]):
        return None
    first = parting
    while first - 1 in theirs and theirs[first - 1] == theirs[parting]:
        first -= 1
    return first, parting


_MOST_COMPARED = 200


def _recent(track: Track, group: str) -> dict[int, Token]:
    """Number -> what was called, of the collectives of one group."""
    recording = track.recording
    numbers = {n for n, other in enumerate(recording.groups) if other.name == group}
    names = {
        n: (s.op, s.signature, s.stack) for n, s in enumerate(recording.shapes) if s.group in numbers and not s.way
    }
    return {
        recording.seq[at]: names[shape]
        for at, shape in enumerate(recording.shape)
        if shape in names and recording.state[at] != State.PART
    }
