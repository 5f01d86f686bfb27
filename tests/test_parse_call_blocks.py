"""Call lines that are read many at a time: the same as one by one, whatever stands between them and in their fields."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangscope.parse import bulk
from hangscope.parse.call_ahead import CallsAhead
from hangscope.parse.call_batches import Batch
from hangscope.parse.reader import read_input, read_stream
from hangscope.parse.run import read_inputs
from hangscope.parse.source import ParsedSource
from hangscope.sources.discover import discover
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
    "a count of 16 digits": "{long_count}",
    "a count of 19 digits": "{longer_count}",
    "a count of 30 digits": "{no_count}",
    "a count with zeros in front": "{zeros}",
    "a root that is none": "{root}",
    "a user's operation": "{user_op}",
    "no communicator": "{nil}",
    "a communicator in capitals": "{capital_comm}",
    "two blanks": "{blanks}",
    "a tab": "{tab}",
    "an operation with a digit": "{op}",
    "an operation of one letter": "{letter}",
    "a long operation": "{long_op}",
    "a word that is another": "{word}",
    "two calls in a line": "{twice}",
    "an address of another width": "{address}",
    "an opCount of nine digits": "{long_op_count}",
    "a word more": "{more}",
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
                    long_count=line.replace(" count ", " count 123456789012345"),
                    longer_count=line.replace(" count ", " count 12345678901234567"[:24]),
                    no_count=line.replace(" count ", f" count {'1' * 30}"),
                    zeros=line.replace(" count ", " count 00"),
                    root=line.replace(" root ", " root -"),
                    user_op=line.replace(" op 0", " op 2147483647"),
                    nil=line.replace("comm 0x7f10", "comm (nil)").replace("(nil)0", "(nil)"),
                    capital_comm=line.replace("comm 0x7f", "comm 0xAF"),
                    blanks=line.replace(" count ", "  count "),
                    tab=line.replace(" count ", "\tcount "),
                    op=line.replace("All", "A11"),
                    letter=line.replace("AllReduce", "A"),
                    long_op=line.replace("AllReduce", "AllReduceOfSomeLongName"),
                    word=line.replace("datatype", "datatipe"),
                    twice=f"{line} {line}",
                    address=line.replace("recvbuff 0x7f", "recvbuff 0x7fffffffffffff"[: 9 + number % 14]),
                    long_op_count=line.replace("opCount ", "opCount 123456"),
                    more=line.replace(" datatype", " bytes datatype"),
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


# --- numbers of all widths, and several files ----------------------------------------------------------------


def any_call(rng: random.Random, host: str, pid: int) -> str:
    """A call whose numbers have any width, or are none."""

    def number(most: int) -> str:
        return str(rng.choice((rng.randrange(10), rng.randrange(10 ** rng.randrange(1, most)), -1)))

    def address() -> str:
        return rng.choice(("(nil)", f"0x{rng.randrange(16 ** rng.randrange(1, 16)):x}"))

    op = rng.choice(("AllReduce", "Send", "ReduceScatter", "AlltoAllv", "Recv"))
    return (
        f"{host}:{pid}:{pid} [0] NCCL INFO {op}: opCount {rng.randrange(16 ** rng.randrange(1, 10)):x} "
        f"sendbuff {address()} recvbuff {address()} "
        f"count {number(19)} datatype {number(4)} op {number(19)} root {number(6)} "
        f"comm {address()} [nranks={number(5)}] stream {address()}"
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 30), st.sampled_from((1, 3)))
def test_calls_with_numbers_of_any_width_are_those_that_are_read_one_by_one(seed: int, writers: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - made-up logs, no secret
    log = "".join(f"{any_call(rng, 'node01', 100 + rng.randrange(writers))}\n" for _ in range(2000)).encode()
    assert what_it_says(read_stream("job.log", io.BytesIO(log))) == what_it_says(one_by_one(log))


def test_a_call_that_is_made_again_in_a_later_block_is_the_same() -> None:
    rng = random.Random(8)  # noqa: S311 - made-up logs, no secret
    calls = [any_call(rng, "node01", 100) for _ in range(300)]
    log = "".join(f"{rng.choice(calls)}\n" for _ in range(20_000)).encode()
    source, taken = taken_from_blocks(log)
    assert taken > 15_000
    assert what_it_says(source) == what_it_says(one_by_one(log))
    assert list(source.calls.shapes) == list(one_by_one(log).calls.shapes)
    assert len(set(source.calls.shapes)) == len(source.calls.shapes)


FILES: dict[str, Callable[[random.Random, int, int], str]] = {
    "of one job": lambda rng, number, line: call(line, rng, host=f"node{number:02d}"),
    "of one host": lambda rng, _number, line: call(line, rng),
    "with other numbers": lambda rng, number, _line: any_call(rng, f"n{number}", 10**number),
    "with times": lambda rng, number, line: wrapped("NCCL's time", line, number % 8, call_of(line, number % 8, rng)),
    "of many kinds": lambda rng, number, line: wrapped(
        sorted(WRAPS)[number * 5 % len(WRAPS)], line, number % 8, call_of(line, number % 8, rng)
    ),
}


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("name", FILES)
def test_small_files_that_are_looked_at_together_say_what_each_says(name: str, end: str, tmp_path: Path) -> None:
    rng = random.Random(name)  # noqa: S311 - made-up logs, no secret
    for number in range(12):
        lines = [FILES[name](rng, number, line) for line in range(rng.choice((450, 700)))]
        head = "\ufeff" if number == 5 else ""
        text = (end or "\n").join([head + "some words", *lines, *lines[:50], ""])
        (tmp_path / f"rank{number:02d}.log").write_bytes((text if end else text[:-1]).encode())
    (tmp_path / "rank03.txt").write_text("no call\n" * 9000)
    (tmp_path / "rank07-again.log").write_bytes((tmp_path / "rank07.log").read_bytes())
    inputs = discover([str(tmp_path)])[0]
    found = 0

    def counted(self: Batch, name: str, block: bytes, offset: int) -> object:
        nonlocal found
        part = find(self, name, block, offset)
        found += part is not None
        return part

    find = Batch.found
    with mock.patch.object(Batch, "found", counted):
        together = read_inputs(inputs, jobs=1)
    assert [what_it_says(source) for source in together] == [what_it_says(read_input(item)) for item in inputs]
    assert found >= 8


def test_a_file_that_was_written_to_is_looked_at_again(tmp_path: Path) -> None:
    rng = random.Random(3)  # noqa: S311 - made-up logs, no secret
    for number in range(3):
        (tmp_path / f"rank{number}.log").write_text("".join(f"{call(line, rng)}\n" for line in range(500)))
    inputs = discover([str(tmp_path)])[0]
    ahead = CallsAhead(inputs)
    read_input(inputs[0], ahead=ahead)
    (tmp_path / "rank1.log").write_text("".join(f"{call(line, rng)}\n" for line in range(600)))
    assert what_it_says(read_input(inputs[1], ahead=ahead)) == what_it_says(read_input(inputs[1]))
    assert len(read_input(inputs[1], ahead=ahead).calls) == 600
