"""The small words of a report: folded numbers, times, and text made harmless."""

from __future__ import annotations

import pytest

from hangscope.report.printable import one_line, printable, shorten_middle
from hangscope.report.proof import drop_noise
from hangscope.report.spans import (
    confidence_word,
    count_words,
    fold_hosts,
    hosts_words,
    rank_numbers,
    rank_words,
    size_words,
)
from hangscope.report.times import duration_words, iso_time, seconds_between, split_time


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (["node02", "node01"], "node[01,02]"),
        (["node9", "node10", "node11"], "node[9-11]"),
        (["node09", "node10", "node11", "node7"], "node7, node[09-11]"),
        (["a-3.local", "a-1.local", "a-2.local", "login"], "a-[1-3].local, login"),
        (["10.0.0.4", "10.0.0.5"], "10.0.0.4, 10.0.0.5"),
        (["node01"], "node01"),
        ([], ""),
    ],
)
def test_hosts_fold(hosts: list[str], words: str) -> None:
    assert fold_hosts(hosts) == words


def test_many_hosts_are_counted() -> None:
    hosts = ["node01", "node02", "node02"]
    assert [hosts_words(hosts), hosts_words(hosts[:1]), hosts_words([])] == ["node[01,02] (2 hosts)", "node01", ""]


def test_ranks_are_named_within_bounds() -> None:
    assert rank_words([5]) == "rank 5"
    assert rank_words([5, 6, 7]) == "ranks 5-7"
    assert rank_words([]) == "no rank"
    assert [rank_numbers(ranks) for ranks in ([5], [5, 6, 7], [])] == ["5", "5-7", ""]
    assert rank_words([n * n for n in range(50)], most=10) == "ranks 0,1,4,9,... (50 in all)"


def test_amounts() -> None:
    assert count_words(1, "file") == "1 file"
    assert count_words(1024, "rank") == "1,024 ranks"
    assert [size_words(size) for size in (0, 999, 1500, 2_000_000_000, 5 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "1.5 kB",
        "2.0 GB",
        "5.0 TB",
    ]
    assert [confidence_word(value) for value in (0.8, 0.79, 0.5, 0.49)] == ["high", "medium", "medium", "low"]


def test_times() -> None:
    assert iso_time(None) is None
    assert iso_time(0.0) == "1970-01-01T00:00:00"
    assert iso_time(1777636987.221) == "2026-05-01T12:03:07.221"
    assert iso_time(1e30) is None
    assert iso_time(float("nan")) is None
    assert split_time("2026-05-01T12:03:07") == ("2026-05-01", "12:03:07")
    assert split_time(None) == ("", "")
    assert seconds_between("2026-05-01T12:00:00", "2026-05-01T12:00:01.500") == 1.5
    assert seconds_between(None, "2026-05-01T12:00:00") is None
    assert [duration_words(s) for s in (0.25, 4.2, 602, 11_100, -1.5)] == [
        "250 ms",
        "4.2 s",
        "10 min 2 s",
        "3 h 5 min",
        "-1.5 s",
    ]


def test_printable_escapes_once_and_keeps_words() -> None:
    text = "\x1b[2J\x00\x9b\u202e\u200b\udc80 [bold] ünïcode 漢\tx\n"
    safe = printable(text)
    assert safe == "\\x1b[2J\\x00\\x9b\\u202e\\u200b\\udc80 [bold] ünïcode 漢\tx\\n"
    assert printable(safe) == safe
    assert one_line("a\tb\nc") == "a    b\\nc"


def test_shortening_keeps_both_ends() -> None:
    assert shorten_middle("short", 10) == "short"
    text = "begin " + "x" * 1000 + " end"
    short = shorten_middle(text, 40)
    assert len(short) <= 40
    assert short.startswith("begin")
    assert short.endswith("end")
    assert len(shorten_middle("y" * 1000, 40)) == 40


def test_the_numbers_of_a_dump_signal_stand_before_torch_s_advice() -> None:
    said = "[Rank 7] Received a dump signal. Last enqueued NCCL work: 9, last completed NCCL work: 8."
    advice = "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, etc. "
    assert drop_noise(said + advice, "~") == f"{said} ~"
    assert drop_noise(said, "~") == said
    assert drop_noise("sendbuff 0x7f8a12345678 recvbuff 0x7f8a1234abcd", "~") == "sendbuff 0x~5678 recvbuff 0x~abcd"
