"""Call lines that are read many at a time: the same as one by one, whatever stands between them and in their fields."""

from __future__ import annotations

import io
import math
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangscope.parse import bulk
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource
from wrapped_calls import WRAPS, wrapped
from wrapped_calls import call as call_of

CALLS = 3000
ODD = {
    "control characters": "\x1b[31mnode01:100:120 [0] NCCL INFO Connected all rings\x1b[0m",
    "a progress bar": "  1%|#| 1/300\r 99%|#| 299/300\rloss 0.1",
    "umlauts": "Wörter — and a tab\there",
    "a long line": "x" * 70_000,
    "a call behind a carriage return": "\r{call}",
    "a call cut short": "{cut}",
    "a count that is none": "{count}",
    "an opCount in capitals": "{capitals}",
    "an opCount that is none": "{no_digits}",
    "a host that is none": "{host}",
    "an error": "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1, unhandled system error",
}


OTHERS = (
    " NCCL INFO Connected all rings",
    " NCCL INFO transport/net.cc:1034 -> 6",
    " NCCL WARN Call to connect returned Connection refused",
    " NCCL INFO AllReduce: opCount 3 sendbuff 0x1",
)
SLOW = frozenset({"another program's text"})
"""What no launcher puts there makes a damaged line of a call, and such lines are looked at one by one."""


def call(number: int, rng: random.Random, host: str = "node01") -> str:
    op = rng.choice(("AllReduce", "AllGather", "Broadcast"))
    return (
        f"{host}:{100 + number % 3}:120 [{number % 3}] NCCL INFO {op}: opCount {number:x} "
        f"sendbuff 0x7f{rng.randrange(16**6):06x} recvbuff 0x7f{rng.randrange(16**6):06x} "
        f"count {rng.choice((1, 77, 4096))} datatype 7 op 0 root 0 comm 0x7f10{number % 3} [nranks=3] stream 0x55"
    )


def log_with(odd: str) -> bytes:
    rng = random.Random(1)  # noqa: S311 - made-up logs, no secret
    lines = []
    for number in range(CALLS):
        line = call(number + 0x1A0, rng)
        lines.append(line)
        if number > 1000 and number % 97 == 0:
            lines.append(
                odd.format(
                    call=line,
                    cut=line[: rng.randrange(len(line))],
                    count=line.replace("count ", "count z")[:-1],
                    capitals=line.replace("opCount ", "opCount A"),
                    no_digits=line.replace("opCount ", "opCount o"),
                    host=line.replace("node01", "node[1"),
                )
            )
    return "\n".join([*lines, ""]).encode()


def what_it_says(source: ParsedSource) -> tuple[Any, ...]:
    columns = source.calls
    times = [None] * len(columns) if columns.times is None else [None if math.isnan(t) else t for t in columns.times]
    rows = [
        (
            columns.shapes[shape][2:],
            columns.ops[columns.shapes[shape].op],
            columns.writers[columns.shapes[shape].writer],
        )
        for shape in columns.shape
    ]
    return (
        *(source.record, source.events, rows, columns.op_count, columns.line, times, columns.devices),
        *(source.writers, source.block_buffered),
    )


def one_by_one(log: bytes) -> ParsedSource:
    with mock.patch.object(bulk, "WORTH_A_BLOCK", 1 << 40):
        return read_stream("job.log", io.BytesIO(log))


@pytest.mark.parametrize("odd", ODD)
def test_a_block_with_odd_lines_gives_what_its_lines_give_one_by_one(odd: str) -> None:
    log = log_with(ODD[odd])
    at_once = read_stream("job.log", io.BytesIO(log))
    assert what_it_says(at_once) == what_it_says(one_by_one(log))
    assert len(at_once.calls) >= CALLS


@pytest.mark.parametrize(
    ("count", "comm", "nranks"), [(123456, "0x2b34c80", 8), (1, "0x7f3b5c000d60", 1024)], ids=["early", "late"]
)
def test_numbers_of_other_widths_in_lines_of_one_length_are_told_apart(count: int, comm: str, nranks: int) -> None:
    rng = random.Random(6)  # noqa: S311 - made-up logs, no secret
    pointers = ("0x2b34c80", "0x7f3b5c000d60", "0x7f4b5c000d60", "0x7f3c5c000d60", "0x7f4c5c000d60")
    others = [
        (rng.choice((1, 123456, 134217728)), rng.randrange(3), rng.choice(pointers), rng.choice((8, 1024)))
        for _ in range(CALLS)
    ]
    # the layout is that of the first line, in which the communicator begins elsewhere than in others as long
    calls = [(count, 0, comm, nranks), *others]
    log = "".join(
        f"node01:100:120 [0] NCCL INFO Broadcast: opCount {number:04x} sendbuff 0x7f00 recvbuff 0x7f00 "
        f"count {elements} datatype 7 op 0 root {root} comm {pointer} [nranks={size}] stream 0x55\n"
        for number, (elements, root, pointer, size) in enumerate(calls)
    ).encode()
    assert what_it_says(read_stream("job.log", io.BytesIO(log))) == what_it_says(one_by_one(log))


def test_threads_do_not_share_what_they_learn() -> None:
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(bulk._finder).result()
    assert theirs is not bulk._finder()
    assert bulk._finder() is bulk._finder()


# --- with something around the calls -------------------------------------------------------------------------


def taken_from_blocks(log: bytes) -> tuple[ParsedSource, int]:
    """What a log says, and how many lines of it were not read one by one."""
    taken = 0

    def counted(self: bulk.CallReader, block: bytes, first_line: int, offset: int) -> object:
        nonlocal taken
        found = take(self, block, first_line, offset)
        taken += 0 if found is None else found[0] - len(found[1])
        return found

    take = bulk.CallReader.take_block
    with mock.patch.object(bulk.CallReader, "take_block", counted):
        return read_stream("job.log", io.BytesIO(log)), taken


@pytest.mark.parametrize("name", WRAPS)
def test_calls_with_something_around_them_are_read_many_at_a_time(name: str) -> None:
    rng = random.Random(4)  # noqa: S311 - made-up logs, no secret
    lines = [wrapped(name, number, rank, call_of(number, rank, rng)) for number in range(300) for rank in range(8)]
    log = "\n".join([*lines, ""]).encode()
    source, taken = taken_from_blocks(log)
    assert what_it_says(source) == what_it_says(one_by_one(log))
    assert len(source.calls) == len(lines)
    if name not in SLOW:
        assert taken == len(lines)


MIXES = {
    "seed": st.integers(0, 1 << 30),
    "names": st.lists(st.sampled_from(sorted(WRAPS)), min_size=1, max_size=3, unique=True),
    "end": st.sampled_from(("\n", "\r\n", "mixed")),
    "torn": st.sampled_from((0.0, 0.01, 0.1)),
    "others": st.sampled_from((0.0, 0.05, 0.5)),
}


@settings(max_examples=30, deadline=None)
@given(**MIXES)
def test_blocks_of_any_mix_give_what_their_lines_give_one_by_one(
    seed: int, names: list[str], end: str, torn: float, others: float
) -> None:
    log = mixed_log(seed, names, end, torn, others, whole_headers=True)
    assert what_it_says(read_stream("job.log", io.BytesIO(log))) == what_it_says(one_by_one(log))


@settings(max_examples=15, deadline=None)
@given(**MIXES)
def test_blocks_with_torn_headers_give_the_calls_that_their_lines_give(
    seed: int, names: list[str], end: str, torn: float, others: float
) -> None:
    log = mixed_log(seed, names, end, torn, others, whole_headers=False)
    at_once, slowly = (what_it_says(source) for source in (read_stream("job.log", io.BytesIO(log)), one_by_one(log)))
    # whose a torn name is, may be known better by whom has seen the lines behind it
    calls, slow_calls = ([row[:2] for row in rows] for rows in (at_once[2], slowly[2]))
    assert (at_once[0], calls, at_once[3:6]) == (slowly[0], slow_calls, slowly[3:6])


def mixed_log(seed: int, names: list[str], end: str, torn: float, others: float, *, whole_headers: bool) -> bytes:
    """Lines of eight ranks in one stream, with one of these around them, some of them torn or no calls."""
    rng = random.Random(seed)  # noqa: S311 - made-up logs, no secret
    pieces: list[str] = []
    for number in range(1200):
        rank = rng.randrange(8)
        text = call_of(number // 8, rank, rng)
        if rng.random() < others:
            text = text[: text.index(" NCCL ")] + rng.choice(OTHERS)
        line = wrapped(names[rank % len(names)], number, rank, text)
        if number > 600 and rng.random() < torn:
            # a buffer's block ends here, and another process's begins; names of hosts are known well by now
            at = rng.randrange(line.index(" NCCL ") if whole_headers else 0, len(line))
            line = line[:at] + pieces[-1] + line[at:]
        pieces.append(line + (rng.choice(("\n", "\r\n")) if end == "mixed" else end))
    return "".join(pieces).encode()


def test_writers_are_numbered_in_the_order_of_their_lines() -> None:
    rng = random.Random(2)  # noqa: S311 - made-up logs, no secret
    lines = [call(0, rng)] * 500 + [call(0, rng, host=f"host{number % 40:02d}") for number in range(4000)]
    source = read_stream("job.log", io.BytesIO("\n".join([*lines, ""]).encode()))
    hosts = [key.host for key in source.calls.writers]
    assert hosts == ["node01", *(f"host{number:02d}" for number in range(40))]
