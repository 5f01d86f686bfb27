"""Compares the calls of two jobs, group by group and rank by rank, up to where they part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hangscope.align.call_book import CallBook, GroupBook
from hangscope.align.history import books_of
from hangscope.align.job import Job
from hangscope.model import Location
from hangscope.model.difference import CallDifference, Called, CallsCompared
from hangscope.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_AT_ONCE = 1 << 20
"""So many calls, over all ranks of a group, are compared at once."""
_NONE = -1
"""The code of a rank that made no call."""


def compare_calls(good: Job, bad: Job) -> CallsCompared:
    """Where the calls of two jobs part: of each group that both have, the first call that is not the same on each rank.

    Calls come from NCCL's call lines or from flight recorders, whichever both jobs have. A call that one job did not
    reach is no difference, unless others of its ranks did. Sends and receives are not compared.
    """
    before, after = books_of(good), books_of(bad)
    # the source that the bad job's stuck calls are of comes first
    source = next((source for source in after if source in before), None)
    if source is None:
        return CallsCompared()
    one, other = before[source], after[source]
    pairs, only_good, only_bad = _pairs(one.groups, other.groups)
    words = _Words()
    cut = (_cut_off(good), _cut_off(bad)) if source == "calls" else (frozenset[int](), frozenset[int]())
    compared = [_Pair(one, mine, other, theirs, words, *cut).compare() for mine, theirs in pairs]
    return CallsCompared(
        source=source,
        groups=len(pairs),
        equal=sum(equal for equal, _ in compared),
        differences=tuple(found for _, found in compared if found is not None),
        only_good=tuple(group.name for group in only_good),
        only_bad=tuple(group.name for group in only_bad),
    )


def _cut_off(job: Job) -> frozenset[int]:
    """Ranks whose last lines are known to be lost: they may have made more calls than are printed."""
    return frozenset(rank for rank, process in job.ranks.items() if not job.lost_tails.isdisjoint(process.files))


def _pairs(
    good: Sequence[GroupBook], bad: Sequence[GroupBook]
) -> tuple[list[tuple[GroupBook, GroupBook]], list[GroupBook], list[GroupBook]]:
    """Groups that are each other's counterpart, in the order of the bad job, and those of each that have none.

    Names and ids of communicators are new with every start: groups of the same ranks are each other's, the first the
    first's, and then those of the same name and size.
    """
    paired: dict[int, GroupBook] = {}
    free = dict(enumerate(good))
    for alike in (_by_ranks, _by_name):
        waiting: dict[object, list[int]] = defaultdict(list)
        for number, group in sorted(free.items(), key=lambda item: (item[1].begin, item[0])):
            waiting[alike(group)].append(number)
        for number, group in enumerate(bad):
            if number not in paired and (candidates := waiting.get(alike(group))):
                paired[number] = free.pop(candidates.pop(0))
    left = [group for number, group in enumerate(bad) if number not in paired]
    return [(paired[number], bad[number]) for number in sorted(paired)], list(free.values()), left


def _by_ranks(group: GroupBook) -> object:
    return group.ranks, group.description


def _by_name(group: GroupBook) -> object:
    return group.description or group.name, len(group.ranks)


class _Words:
    """One number for each wording of a call, in both jobs."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._of_book: dict[int, Ints] = {}

    def codes(self, book: CallBook, kinds: npt.NDArray[np.int32]) -> Ints:
        """The numbers of these kinds of a book."""
        known = self._of_book.get(id(book))
        if known is None or len(known) < len(book.kinds):
            numbers = [self._numbers.setdefault(kind.words, len(self._numbers)) for kind in book.kinds]
            known = self._of_book[id(book)] = np.array(numbers, dtype=np.int64)
        return known[kinds] if len(kinds) else np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A group of the good job and its counterpart in the bad one.

    Attributes:
        good_cut, bad_cut: ranks of each job whose last lines are lost.
    """

    good_book: CallBook
    good: GroupBook
    bad_book: CallBook
    bad: GroupBook
    words: _Words
    good_cut: frozenset[int]
    bad_cut: frozenset[int]

    def compare(self) -> tuple[int, CallDifference | None]:
        """How many calls are equal, and the first that is not."""
        ranks = [rank for rank in self.bad.ends if rank in self.good.ends]
        if not ranks:
            return 0, None
        # of a ring buffer the older calls are gone
        start = max(max(group.first.get(rank, 0) for rank in ranks) for group in (self.good, self.bad))
        # where a whole job ends, there is nothing to compare
        end = min(max(group.ends[rank] for rank in ranks) for group in (self.good, self.bad))
        step = max(_AT_ONCE // len(ranks), 1)
        for first in range(start, end, step):
            last = min(first + step, end)
            mine = self._window(self.good_book, self.good, ranks, first, last)
            theirs = self._window(self.bad_book, self.bad, ranks, first, last)
            unequal = np.flatnonzero(((mine != theirs) & ~self._lost(ranks, mine, theirs)).any(axis=0))
            if len(unequal):
                seq = first + int(unequal[0])
                return seq - start, self._difference(ranks, seq, seq - start)
        return max(end - start, 0), None

    def _window(self, book: CallBook, group: GroupBook, ranks: Sequence[int], first: int, last: int) -> Ints:
        """The calls of each rank, a row a rank and a column a number."""
        codes = np.full((len(ranks), last - first), _NONE, dtype=np.int64)
        for row, rank in enumerate(ranks):
            calls = group.read(rank, first, last)
            codes[row, calls.seq - first] = self.words.codes(book, calls.kind)
        return codes

    def _lost(self, ranks: Sequence[int], mine: Ints, theirs: Ints) -> npt.NDArray[np.bool_]:
        """Where a call is missing in one job that may have been among the lines that are lost."""
        in_good = np.array([rank in self.good_cut for rank in ranks])[:, None]
        in_bad = np.array([rank in self.bad_cut for rank in ranks])[:, None]
        lost: npt.NDArray[np.bool_] = (in_good & (mine == _NONE)) | (in_bad & (theirs == _NONE))
        return lost

    def _difference(self, ranks: Sequence[int], seq: int, equal: int) -> CallDifference:
        return CallDifference(
            group=self.bad.name,
            size=self.bad.size,
            description=self.bad.description,
            seq=seq,
            equal_before=equal,
            good=_called(self.good_book, self.good, ranks, seq),
            bad=_called(self.bad_book, self.bad, ranks, seq),
        )


def _called(book: CallBook, group: GroupBook, ranks: Sequence[int], seq: int) -> tuple[Called, ...]:
    together: dict[str, list[tuple[int, str, Location | None]]] = defaultdict(list)
    for rank, words, where, at in _calls_at(book, group, ranks, seq):
        together[words].append((rank, where, at))
    found = [
        Called(words, tuple(sorted(rank for rank, _, _ in made)), made[0][1], made[0][2])
        for words, made in together.items()
    ]
    return tuple(sorted(found, key=lambda one: (-len(one.ranks), one.ranks)))


def _calls_at(
    book: CallBook, group: GroupBook, ranks: Sequence[int], seq: int
) -> Iterator[tuple[int, str, str, Location | None]]:
    """Rank, call, line of code and place of the call that each rank made at a number."""
    for rank in sorted(ranks):
        calls = group.read(rank, seq, seq + 1)
        if not len(calls.seq):
            yield rank, "", "", None
            continue
        kind, line = book.kinds[calls.kind[0]], int(calls.line[0])
        yield rank, kind.words, kind.where, Location(book.files[calls.file[0]], line or None)
