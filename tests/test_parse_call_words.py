"""What is read eight bytes at once is what Python reads in each text by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.parse.call_codes import CodeSlots, distinct
from hangscope.parse.call_words import MOST_DIGITS, decimal, hexadecimal, masks, width_of, words

TEXTS = st.lists(st.text("0123456789abcdefxX -\x00\x7f", max_size=MOST_DIGITS + 2), min_size=1, max_size=20)
NUMBERS = st.lists(st.integers(0, 10 ** (MOST_DIGITS + 1)), min_size=1, max_size=20)


def laid_out(texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts with a blank behind each; where they begin, and how wide they are."""
    data = np.frombuffer("".join(f"{text} " for text in texts).encode() + b"\0" * 40, dtype=np.uint8)
    widths = np.array(list(map(len, texts)), dtype=np.int64)
    return data, np.cumsum(widths + 1) - widths - 1, widths


@given(TEXTS)
def test_a_width_is_that_up_to_the_first_blank(texts: list[str]) -> None:
    data, places, _ = laid_out(texts)
    found = width_of(words(data, places, 3), ord(" "))
    assert found.tolist() == [min(f"{text} ".index(" "), 24) for text in texts]


@given(TEXTS | NUMBERS.map(lambda numbers: [str(number) for number in numbers]))
def test_decimal_numbers_are_those_that_python_reads(texts: list[str]) -> None:
    numbers, good = decimal(*laid_out(texts))
    expected = [text.isdecimal() and len(text) <= MOST_DIGITS and str(int(text)) == text for text in texts]
    assert good.tolist() == expected
    assert numbers[good].tolist() == [int(text) for text, one in zip(texts, expected, strict=True) if one]


@given(TEXTS | NUMBERS.map(lambda numbers: [f"{number:x}" for number in numbers]))
def test_hexadecimal_numbers_are_those_that_python_reads(texts: list[str]) -> None:
    numbers, good = hexadecimal(*laid_out(texts))
    digits = set("0123456789abcdef")
    expected = [
        bool(text) and set(text) <= digits and len(text) <= MOST_DIGITS and f"{int(text, 16):x}" == text
        for text in texts
    ]
    assert good.tolist() == expected
    assert numbers[good].tolist() == [int(text, 16) for text, one in zip(texts, expected, strict=True) if one]


def test_masks_have_the_bits_of_so_many_bytes() -> None:
    assert [row.tobytes() for row in masks(9)] == [b"\xff" * width + b"\0" * (16 - width) for width in range(10)]


@given(st.lists(st.integers(0, 9)))
def test_distinct_keys_are_numbered_in_the_order_in_which_they_come(values: list[int]) -> None:
    firsts, which = distinct(np.array(values, dtype=np.uint64))
    order = list(dict.fromkeys(values))
    assert which.tolist() == [order.index(value) for value in values]
    assert firsts.tolist() == [values.index(value) for value in order]


@pytest.mark.parametrize("most", [50, 5000, 200_000])
def test_keys_have_the_same_number_however_many_there_are(most: int) -> None:
    rng = np.random.default_rng(5)
    kept = rng.integers(1, 1 << 63, most, dtype=np.uint64) * 2
    slots, said = CodeSlots(), []

    for _ in range(6):
        keys = kept[rng.integers(0, most, 5000)]

        def read(lines: np.ndarray, keys: np.ndarray = keys) -> np.ndarray:
            assert len(set(keys[lines].tolist())) == len(lines)
            said.extend(keys[lines].tolist())
            return np.arange(len(said) - len(lines), len(said), dtype=np.int32)

        codes = slots.codes(keys, read)
        # a key whose slot another one took is read again, and has another number that stands for it
        assert [said[code] for code in codes.tolist()] == keys.tolist()
