"""Joins candidate facts: which of them take part in at least one combination that shares keys and keeps an order.

The combinations themselves are never listed: facts are bucketed by their shared keys, and what is left in a
bucket is thinned until each fact has partners. So 100,000 facts cost a pass over them, not their product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from hangscope.diagnose.index import Key, shared_values
from hangscope.model import Fact

Columns = list[list[Fact]]
"""One list of candidates for each entry of ``all``, each in order of time."""

Order = Sequence[tuple[int, int]]
"""Pairs of columns: a fact of the first is earlier than its partner in the second."""


def join(columns: Columns, share: Sequence[str], order: Order) -> Columns:
    """The facts of each column that have a partner in every other column; all empty when there is no combination.

    Facts with the same time, or without one, keep any order. Two columns never hold one fact in one combination.
    """
    kept: list[set[int]] = [set() for _ in columns]
    for bucket in _buckets(columns, share):
        for chosen, facts in zip(kept, _thin(bucket, order), strict=True):
            chosen.update(map(id, facts))
    return [[fact for fact in column if id(fact) in chosen] for column, chosen in zip(columns, kept, strict=True)]


def _buckets(columns: Columns, share: Sequence[str]) -> list[Columns]:
    if not share:
        return [columns]
    found: dict[tuple[Key, ...], Columns] = {}
    for number, column in enumerate(columns):
        for fact in column:
            for key in itertools.product(*(shared_values(fact, name) for name in share)):
                if number == 0:
                    found.setdefault(key, [[] for _ in columns])
                if key in found:
                    found[key][number].append(fact)
    return list(found.values())


def _thin(columns: Columns, order: Order) -> Columns:
    columns = _ordered(columns, order)
    if not all(columns):
        return [[] for _ in columns]
    return _distinct(columns, order)


def _ordered(columns: Columns, order: Order) -> Columns:
    """Drops facts that are later than every possible partner, or earlier, until nothing changes."""
    columns = list(columns)
    changed = True
    while changed and all(columns):
        changed = False
        for earlier, later in order:
            latest = max((math.inf if fact.time is None else fact.time for fact in columns[later]), default=-math.inf)
            before = [fact for fact in columns[earlier] if fact.time is None or fact.time <= latest]
            first = min((-math.inf if fact.time is None else fact.time for fact in before), default=math.inf)
            after = [fact for fact in columns[later] if fact.time is None or fact.time >= first]
            changed |= len(before) < len(columns[earlier]) or len(after) < len(columns[later])
            columns[earlier], columns[later] = before, after
    return columns


def _distinct(columns: Columns, order: Order) -> Columns:
    """Drops facts that only fit by standing in two columns at once."""
    kinds = [column[0].kind for column in columns]
    twins = {number for number, kind in enumerate(kinds) if kinds.count(kind) > 1}
    tied = any(earlier in twins or later in twins for earlier, later in order)
    if not twins or (not tied and all(len(column) >= len(columns) for column in columns)):
        return columns
    # As many facts from either end of time as there are columns: if any partner will do, one of these does.
    partners = [_ends(column, len(columns)) for column in columns]
    return [
        [fact for fact in column if _fits([*partners[:number], [fact], *partners[number + 1 :]], order)]
        for number, column in enumerate(columns)
    ]


def _ends(column: list[Fact], count: int) -> list[Fact]:
    timed = [fact for fact in column if fact.time is not None]
    untimed = column[len(timed) :]
    ends = [*untimed[:count], *timed[:count], *timed[-count:]]
    return list({id(fact): fact for fact in ends}.values())


def _fits(columns: Columns, order: Order, chosen: tuple[Fact, ...] = ()) -> bool:
    number = len(chosen)
    if number == len(columns):
        return True
    for fact in columns[number]:
        candidate = (*chosen, fact)
        decided = [pair for pair in order if max(pair) == number]
        is_distinct = all(fact is not other for other in chosen)
        is_ordered = all(_in_order(candidate[earlier], candidate[later]) for earlier, later in decided)
        if is_distinct and is_ordered and _fits(columns, order, candidate):
            return True
    return False


def _in_order(earlier: Fact, later: Fact) -> bool:
    return earlier.time is None or later.time is None or earlier.time <= later.time
