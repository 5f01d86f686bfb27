"""Decoding: bytes of any kind become clean, numbered, bounded lines."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangscope.sources import decode
from hangscope.sources.decode import CUT_MARK, MAX_TEXT, RawLine, clean, read_raw_lines


def lines(data: bytes) -> list[RawLine]:
    return list(read_raw_lines(io.BytesIO(data)))


def texts(data: bytes) -> list[str]:
    return [line.text for line in lines(data)]


class Dribble(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = data
        self._step = step
        self._at = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        del size
        piece = self._data[self._at : self._at + self._step]
        self._at += len(piece)
        return piece


def test_numbers_offsets_and_ends_follow_the_bytes() -> None:
    assert lines(b"one\n\nthree\n") == [
        RawLine(1, 0, "one", 4),
        RawLine(2, 4, "", 5),
        RawLine(3, 5, "three", 11),
    ]


def test_a_last_line_without_newline_is_incomplete() -> None:
    *_, last = lines(b"one\nhost:1:1 [0] NCCL IN")
    assert last == RawLine(2, 4, "host:1:1 [0] NCCL IN", 24, complete=False)


def test_no_bytes_no_lines() -> None:
    assert lines(b"") == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\n", ["a", "b"]),
        (b"\r\n", [""]),
        (b"a\x00b\x00\n", ["ab"]),
        (b"\x1b[32mgreen\x1b[0m \x1b[1;31mred\x1b[m\n", ["green red"]),
        (b"\x1b]0;title\x07text\n", ["text"]),
        (b"\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\\n", ["link"]),
        (b"\x1b[2K\x1b[1Gline\x1b[A\n", ["line"]),
        (b"bell\x07 back\x08\n", ["bell\\x07 back\\x08"]),
        (b"a lone \x1b]escape stays\nnext\n", ["a lone escape stays", "next"]),
        (b"\xff\xfe is no start of text here\xff"[2:] + b"\n", [" is no start of text here\ufffd"]),
        (b"\xef\xbb\xbfwith a mark\n", ["with a mark"]),
        ("é ✓ 完了\n".encode(), ["é ✓ 完了"]),
        ("right\u202eleft\n".encode(), ["right\\u202eleft"]),
        (b"\xc2\x9b31mred\n", ["red"]),
    ],
)
def test_cleaning(data: bytes, expected: list[str]) -> None:
    assert texts(data) == expected


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_with_a_byte_order_mark(encoding: str) -> None:
    data = ("\ufeff" + "node01:1:1 [0] NCCL INFO ✓\r\nsecond\r\n").encode(encoding)
    assert texts(data) == ["node01:1:1 [0] NCCL INFO ✓", "second"]


def test_utf16_without_a_mark_is_still_readable() -> None:
    assert texts("plain text".encode("utf-16-le")) == ["plain text"]


def test_carriage_return_segments_share_their_line() -> None:
    made = lines(b"first\rsecond\nthird\n")
    assert [(line.number, line.offset, line.text) for line in made] == [
        (1, 0, "first"),
        (1, 0, "second"),
        (2, 13, "third"),
    ]


def test_a_progress_bar_is_one_line_and_what_it_hides_is_kept() -> None:
    bar = b"".join(b"%3d%%|###  | %d/100 [00:01<00:09, 9.9it/s]\r" % (step, step) for step in range(100))
    # GIVEN a bar of a hundred updates with an error in its middle
    data = bar[: len(bar) // 2] + b"\rRuntimeError: boom\r" + bar[len(bar) // 2 :] + b"\ndone\n"
    made = texts(data)
    # THEN the updates before and after it are one line each
    assert len(made) == 4
    assert made[1:2] == ["RuntimeError: boom"]
    assert made[2].startswith(" 99%|")
    assert made[3] == "done"


def test_a_header_glued_to_a_progress_bar_is_not_progress() -> None:
    data = b" 5%|# | 1/20 [00:01<00:20]node01:1:1 [0] NCCL INFO hello\r 6%|# | 2/20 [00:02<00:20]\n"
    assert len(texts(data)) == 2


def test_a_long_line_is_cut_and_says_so() -> None:
    first, second = lines(b"x" * (MAX_TEXT * 20) + b"\nnext\n")
    assert first.cut
    assert first.text == "x" * MAX_TEXT + CUT_MARK
    assert first.end == second.offset == MAX_TEXT * 20 + 1
    assert second == RawLine(2, first.end, "next", first.end + 5)


def test_memory_stays_bounded_by_a_line_without_end() -> None:
    class Endless:
        """Gives 64 MiB of one line and watches that nobody asks for more than a chunk."""

        left = 256

        def read(self, size: int) -> bytes:
            assert 0 < size <= decode.CHUNK
            self.left -= 1
            return b"y" * decode.CHUNK if self.left >= 0 else b""

    (line,) = read_raw_lines(Endless())
    assert len(line.text) <= MAX_TEXT + len(CUT_MARK)
    assert line.end == 256 * decode.CHUNK
    assert not line.complete


def test_a_bar_longer_than_every_chunk_stays_one_line() -> None:
    bar = b"".join(b" %d/300000 [00:01<00:09, 9.9it/s]\r" % step for step in range(80000))
    assert len(bar) > 2 * decode.CHUNK
    assert texts(bar + b"\n") == [" 79999/300000 [00:01<00:09, 9.9it/s]"]


@given(st.binary(max_size=600))
def test_any_bytes_give_ordered_printable_lines(data: bytes) -> None:
    made = lines(data)
    numbers = [line.number for line in made]
    assert numbers == sorted(numbers)
    assert all(before.end <= after.end for before, after in itertools.pairwise(made))
    assert all(before.offset <= after.offset for before, after in itertools.pairwise(made))
    for line in made:
        assert "\n" not in line.text
        assert "\r" not in line.text
        assert "\x1b" not in line.text
        assert "\0" not in line.text
    if made and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        assert numbers[-1] == data.count(b"\n") + (not data.endswith(b"\n"))
        assert made[-1].end == len(data)
        assert made[-1].complete == data.endswith(b"\n")


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\x1b[1m", "é".encode(), b"\xff", b"50%|x| 1/2 ", b"NCCL "]),
        max_size=60,
    ),
    st.integers(1, 7),
)
def test_how_the_bytes_arrive_does_not_matter(parts: list[bytes], step: int) -> None:
    data = b"".join(parts)
    whole = lines(data)
    assert list(read_raw_lines(Dribble(data, step))) == whole


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_clean_is_idempotent_once_nothing_hides(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
