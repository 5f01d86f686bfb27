"""Call lines that are read many at a time: the same as one by one, whatever stands between them and in their fields."""

from __future__ import annotations

import io
import random

import pytest

from hangscope.parse import bulk
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource

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


def what_it_says(source: ParsedSource) -> tuple[object, ...]:
    columns = source.calls
    rows = [
        (
            columns.shapes[shape][2:],
            columns.ops[columns.shapes[shape].op],
            columns.writers[columns.shapes[shape].writer],
        )
        for shape in columns.shape
    ]
    writers = [(one.key, one.lines, one.last_call_line, one.first_line, one.last_line) for one in source.writers]
    by_key = sorted(writers, key=lambda writer: str(writer[0]))
    return source.record, source.events, rows, columns.op_count, columns.line, by_key, source.block_buffered


@pytest.mark.parametrize("odd", ODD)
def test_a_block_with_odd_lines_gives_what_its_lines_give_one_by_one(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_with(ODD[odd])
    at_once = read_stream("job.log", io.BytesIO(log))
    monkeypatch.setattr(bulk, "_WORTH_A_BLOCK", 1 << 40)
    one_by_one = read_stream("job.log", io.BytesIO(log))
    assert what_it_says(at_once) == what_it_says(one_by_one)
    assert len(at_once.calls) >= CALLS


def test_writers_are_numbered_in_the_order_of_their_lines() -> None:
    rng = random.Random(2)  # noqa: S311 - made-up logs, no secret
    lines = [call(0, rng)] * 500 + [call(0, rng, host=f"host{number % 40:02d}") for number in range(4000)]
    source = read_stream("job.log", io.BytesIO("\n".join([*lines, ""]).encode()))
    hosts = [key.host for key in source.calls.writers]
    assert hosts == ["node01", *(f"host{number:02d}" for number in range(40))]
