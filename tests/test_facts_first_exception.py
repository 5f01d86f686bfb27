"""Which of several unlike exceptions came first: by clock, by the launcher, or unknown."""

from __future__ import annotations

from collections.abc import Collection

from hangscope.align.clocks import Clocks
from hangscope.facts.first_exception import Raised, find_later

KEY, ZERO, VALUE = ("KeyError", "a.py:1"), ("ZeroDivisionError", "b.py:2"), ("ValueError", "c.py:3")


def _later(*raised: Raised, first: Collection[int] = (), clocks: Clocks | None = None) -> list[int]:
    return sorted(find_later(raised, first, clocks))


def test_the_earlier_one_is_first() -> None:
    one, other = Raised(KEY, 3, "a", 100.0), Raised(ZERO, 6, "b", 130.0)
    assert _later(one, other) == [1]
    assert _later(other, one) == [0]
    assert _later(one, other, Raised(KEY, 4, "a", 140.0), Raised(VALUE, 5, "b", 150.0)) == [1, 3]


def test_ranks_that_raise_the_same_have_one_fault() -> None:
    assert _later(Raised(KEY, 3, "a", 100.0), Raised(KEY, 6, "b", 130.0)) == []


def test_without_a_time_on_each_the_launcher_tells() -> None:
    one, other = Raised(KEY, 3, "a", None), Raised(ZERO, 6, "b", 130.0)
    assert _later(one, other) == []
    assert _later(one, other, first=[6]) == [0]
    # each of two agents names its own first failure
    assert _later(one, other, first=[3, 6]) == []


def test_clocks_decide_how_close_is_too_close() -> None:
    one, other = Raised(KEY, 3, "a", 100.0), Raised(ZERO, 6, "b", 103.0)
    assert _later(one, other) == [1]
    assert _later(one, other, clocks=Clocks()) == []
    assert _later(one, Raised(ZERO, 6, "a", 103.0), clocks=Clocks()) == [1]
    assert _later(one, Raised(ZERO, 6, "a", 100.2), clocks=Clocks()) == []
