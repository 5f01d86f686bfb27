"""A big file that several processes read together gives what one process makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hangscope.parse import split
from hangscope.parse.reader import read_input
from hangscope.parse.run import read_inputs
from hangscope.sources import decode
from hangscope.sources.inputs import Input
from test_parse_call_blocks import call, what_it_says
from wrapped_calls import WRAPS, wrapped

CHUNK = 1 << 15
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/job/train.py", line 7, in step',
    "    loss.backward()",
    "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1, unhandled system error",
]
STACK = [
    "Thread 0x00007f0000000001 (most recent call first):",
    '  File "/job/train.py", line 7 in step',
    '  File "/job/train.py", line 99 in <module>',
]
CHAIN = "node01:100:120 [0] NCCL INFO transport/net.cc:1034 -> 6"


def job(lines: int = 12_000) -> list[str]:
    rng = random.Random(3)  # noqa: S311 - made-up logs, no secret
    made = [call(0, rng)] * 500
    for number in range(lines):
        made.append(call(number, rng, host=f"host{number * 7 % 16:02d}"))
        if number % 7 == 0:
            made.append(CHAIN)
        if number % 31 == 0:
            made.extend(TRACEBACK)
        if number % 101 == 0:
            made.extend(STACK)
        if number % 45 == 0:
            made.append(f"1: {made[-1]}")
        if number % 5 == 0:
            made.append(wrapped(sorted(WRAPS)[number // 5 % len(WRAPS)], number, number % 16, call(number, rng)))
    return made


def with_progress(lines: list[str]) -> list[str]:
    """Some MB without a call in the middle."""
    middle = len(lines) // 2
    return [*lines[:middle], *(f"step {step} loss 0.{step}" for step in range(20_000)), *lines[middle:]]


LOGS: dict[str, Callable[[list[str]], bytes]] = {
    "calls and errors": lambda lines: "\n".join([*lines, ""]).encode(),
    "no newline at the end": lambda lines: "\n".join([*lines, "RuntimeError: NCCL err"]).encode(),
    "long blocks without calls": lambda lines: "\n".join([*with_progress(lines), ""]).encode(),
    "a line of a megabyte": lambda lines: "\n".join(
        [*lines[:8000], "x" * 1_000_000, *lines[8000:], "y" * 1_000_000]
    ).encode(),
    "a line of many chunks": lambda lines: "\n".join([*lines[:8000], "x" * 7 * CHUNK, *lines[8000:], ""]).encode(),
    "carriage returns": lambda lines: "\r\n".join([*lines, ""]).encode(),
    "a byte order mark": lambda lines: b"\xef\xbb\xbf" + "\n".join([*lines, ""]).encode(),
    "UTF-16": lambda lines: "\n".join([*lines, ""]).encode("utf-16"),
}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decode, split):
        monkeypatch.setattr(module, "CHUNK", CHUNK)
    monkeypatch.setattr(split, "UNIT", 3)
    monkeypatch.setattr("hangscope.parse.reader.WORTH_SPLITTING", 1 << 18)
    monkeypatch.setattr("hangscope.parse.run.WORTH_SPLITTING", 1 << 18)


def written(folder: Path, data: bytes) -> Input:
    path = folder / "job.log"
    path.write_bytes(data)
    return Input("job.log", str(path), len(data))


@pytest.mark.parametrize("kind", LOGS)
def test_a_file_is_read_the_same_by_one_process_and_by_several(kind: str, tmp_path: Path) -> None:
    item = written(tmp_path, LOGS[kind](job()))
    whole, parts = read_input(item), read_input(item, 2)
    assert what_it_says(parts) == what_it_says(whole)
    assert parts.calls.shapes == whole.calls.shapes
    assert parts.calls.writers == whole.calls.writers
    assert [writer.key for writer in parts.writers] == [writer.key for writer in whole.writers]
    assert parts.dumps == whole.dumps


def test_other_processes_do_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = []
    take = split.Codes.take

    def told(self: split.Codes, rows: split.Rows, first_line: int, offset: int) -> None:
        blocks.append(rows.count)
        take(self, rows, first_line, offset)

    monkeypatch.setattr(split.Codes, "take", told)
    (source,) = read_inputs([written(tmp_path, LOGS["calls and errors"](job()))], jobs=2)
    assert sum(blocks) > source.record.lines * 0.8


def test_what_a_worker_that_is_gone_has_not_read_is_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: split._Worker, first: int) -> split.Unit | None:
        if first > 5 * split.UNIT:
            raise EOFError
        return unit(self, first)

    unit = split._Worker.unit
    item = written(tmp_path, LOGS["calls and errors"](job()))
    whole = read_input(item)
    monkeypatch.setattr(split._Worker, "unit", killed)
    assert what_it_says(read_input(item, 2)) == what_it_says(whole)
