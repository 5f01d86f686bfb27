"""Lines that a terminal broke at its width."""

from __future__ import annotations

from hangscope.sources.decode import RawLine
from hangscope.sources.wrapped import join_wrapped, width_of

WIDTH = 100
HEAD = "[rank{}]:[E424 01:11:21.160832730 ProcessGroupNCCL.cpp:629] "
TEXT = "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=BROADCAST) ran for 1800010"


def broken(ranks: int, width: int = WIDTH) -> list[str]:
    pieces = []
    for rank in range(ranks):
        text = HEAD.format(rank) + TEXT.format(rank)
        pieces += [text[at : at + width] for at in range(0, len(text), width)]
    return pieces


def raw(texts: list[str]) -> list[RawLine]:
    return [RawLine(number, 0, text, 0) for number, text in enumerate(texts, 1)]


def test_pieces_of_a_message_are_put_together_again() -> None:
    texts = [*broken(3), "training goes on"]
    assert width_of(texts) == WIDTH
    joined = list(join_wrapped(raw(texts), WIDTH))
    assert [line.text for line in joined[:3]] == [HEAD.format(rank) + TEXT.format(rank) for rank in range(3)]
    assert [line.number for line in joined] == [1, 3, 5, 7]


def test_whole_lines_of_different_lengths_were_not_broken() -> None:
    texts = [HEAD.format(rank) + TEXT.format(rank) + "0" * rank for rank in range(4)]
    assert width_of(texts) == 0


def test_lines_of_one_length_that_each_begin_with_a_header_were_not_broken() -> None:
    assert width_of([HEAD.format(rank) + TEXT.format(rank) for rank in range(4)]) == 0


def test_one_longer_line_shows_that_nothing_was_broken() -> None:
    assert width_of([*broken(3), "x" * (WIDTH + 1)]) == 0


def test_what_begins_by_itself_is_no_continuation() -> None:
    full = (HEAD.format(0) + TEXT.format(0))[:WIDTH]
    joined = list(join_wrapped(raw([full, "Traceback (most recent call last):"]), WIDTH))
    assert len(joined) == 2
