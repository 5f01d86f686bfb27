"""Many numbers in few characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.ranges import count_off, fold_numbers


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([1, 0], "0,1"),
        ([0, 1, 2, 3, 6], "0-3,6"),
        ([1, 1, 2, 3, 9, 10], "1-3,9,10"),
        ([5, 5, 7, 8, 9], "5,7-9"),
        ([1, 3, 5], "1,3,5"),
        ([1, 3, 5, 7], "1-7:2"),
        ([0, 1, 2, 10, 18, 26, 34, 40], "0-2,10-34:8,40"),
    ],
)
def test_numbers_fold(numbers: list[int], text: str) -> None:
    assert fold_numbers(numbers) == text


def test_one_series_is_said_in_words() -> None:
    assert count_off(range(523, 764, 8)) == "523-763 (every 8th)"
    assert count_off(range(0, 63, 21)) == "0,21,42"
    assert count_off(range(0, 80, 22)) == "0-66 (every 22nd)"
    assert count_off(range(0, 80, 11)) == "0-77 (every 11th)"
    assert count_off([*range(0, 8, 2), 9]) == "0,2,4,6,9"
    assert count_off([1, 4, 7, 10, 14, 15]) == "1,4,7,10,14,15"
    assert count_off(sorted({*range(3, 1024, 8)} - {515})) == "3-507, 523-1019 (every 8th)"
    assert count_off(sorted({*range(3, 1024, 8)} - {11, 515})) == "3, 19-507, 523-1019 (every 8th)"
    assert count_off([*range(0, 512, 8), *range(512, 1024, 16)]) == "0-512:8,528-1008:16"
    assert count_off([0, 1, 2, *range(100, 1024, 8)]) == "0-2,100-1020:8"


def test_hosts_keep_their_zeros() -> None:
    assert fold_numbers([1, 2, 3, 5], digits=3, strides=False) == "001-003,005"
    assert fold_numbers(range(0, 10, 2), digits=2, strides=False) == "00,02,04,06,08"


@given(st.sets(st.integers(0, 300)))
def test_folded_numbers_say_what_went_in(numbers: set[int]) -> None:
    found: set[int] = set()
    for piece in filter(None, fold_numbers(numbers).split(",")):
        span, _, step = piece.partition(":")
        first, _, last = span.partition("-")
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    assert found == numbers
