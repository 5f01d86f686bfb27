"""Whatever stands in a file, reading stacks never fails, stays within bounds and is quick."""

from __future__ import annotations

import time
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangscope.parse.stacks import builder
from hangscope.parse.stacks.headers import read_header
from hangscope.parse.stacks.tools import all_tools
from stack_dumps import parse, read, read_one
from test_parse_stacks_faulthandler import MAIN, WORKER
from test_parse_stacks_native import GDB, PY_BT, PYSTACK
from test_parse_stacks_pyspy import ONE, OTHER

HEADERS = """\
=== Rank 2: http://node01:1/handler/dump_traceback? ===
Error: 500
PARTIAL DATA: 1/2 workers responded
  Rank 1: gone
~~~ Stack of M (12) ~~~
# rank 3
"""
ALL = f"{ONE}\n{OTHER}\n{WORKER}\n{MAIN}\n{GDB}\n{PY_BT}\n{PYSTACK}\n{HEADERS}"
LINES = ALL.splitlines()


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=40), max_size=60))
def test_lines_in_any_order(lines: list[str]) -> None:
    for dump in read("\n".join(lines)):
        assert dump.threads or dump.error
        assert all(len(thread.frames) <= builder.MAX_FRAMES for thread in dump.threads)


@given(st.binary(max_size=300), st.integers(0, len(ALL)), st.integers(0, len(ALL)))
def test_bytes_in_the_middle_of_dumps(data: bytes, start: int, end: int) -> None:
    parse(ALL[:start] + data.decode("utf-8", "surrogateescape") + ALL[end:])


@given(st.sampled_from([begin for tool in all_tools() for begin in tool.BEGINS]), st.text(max_size=80))
def test_what_only_begins_like_a_dump(begin: str, rest: str) -> None:
    parse(f"{begin}{rest}\n    {rest}\n{begin}{rest}\n")


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("#=-<> ()[]:@rankpidhost0123456789"), max_size=120))
def test_headers_never_fail(text: str) -> None:
    read_header(text)


def test_bounds() -> None:
    threads = "".join(f"Thread 0x{n:x} (most recent call first):\n" for n in range(1, 3000))
    [dump] = read(threads)
    assert len(dump.threads) == builder.MAX_THREADS
    frames = "".join(f"    f{n} (t.py:{n})\n" for n in range(5000))
    [thread] = read_one(f'Thread 7 (idle): "MainThread"\n{frames}').threads
    assert len(thread.frames) == builder.MAX_FRAMES
    assert (thread.frames[0].function, thread.frames[-1].function) == ("f0", "f4999")


@pytest.mark.parametrize(
    "line",
    [
        f'Thread 7 (idle): "{"x" * 60_000}"',
        f"    {'a(' * 20_000} (t.py:3)",
        f"    {' (' * 20_000})",
        f"    {'f (' * 200}{')' * 20_000}",
        f"#0  0x00007f in {'(' * 20_000} ()",
        f"#0  0x00007f in f{'()' * 20_000} at x",
        f'  File "{"a" * 50_000}", line 3 in f',
        f'  File "{"a" * 50_000}", line 3, in f',
        f'    (C) File "x", line 0, in {"(" * 30_000}',
        f'    (C) File "x", line 0, in {" (inlined)" * 3_000}',
        f"            rank: {'9' * 50_000}",
        f"Thread 1 (Thread 0x7f ({'(' * 30_000}",
        f'Thread 1 (Thread 0x7f (LWP 1) "{chr(34) * 30_000}',
        f"=== {'rank ' * 10_000} ===",
        f"=== {'@a' * 140} ===",
        f"Stack dump for {'root ' * 10_000}",
        f"[{'user@' * 60}]# py-spy dump",
        f"{'hread ' * 10_000}Thread 0x7f (most recent call first)",
        f"Traceback for thread 1 {'(' * 20_000} [] (most recent call last):",
        f"~~~ Stack of {'(1) ~~~ ' * 5_000}",
        f"# Thread: {'(1' * 20_000}",
    ],
)
def test_gigantic_lines_take_no_time(line: str) -> None:
    heads = (LINES[3], MAIN.splitlines()[0], PYSTACK.splitlines()[0], LINES[0])
    text = "\n".join(part for head in heads for part in (head, line, line, line)) + "\n"
    begin = time.process_time()
    for dump in read(text):
        assert len(dump.command) <= builder.MAX_COMMAND
        for thread in dump.threads:
            assert len(thread.name) <= builder.MAX_NAME
            assert all(len(frame.function) <= builder.MAX_NAME for frame in thread.frames)
    assert time.process_time() - begin < 2


def test_time_grows_with_the_length() -> None:
    lines = LINES * 40
    lines.sort(key=lambda line: zlib.crc32(line.encode()))
    times = []
    for repeat in (1, 4):
        begin = time.process_time()
        read("\n".join(lines * repeat))
        times.append(time.process_time() - begin)
    assert times[1] < times[0] * 12 + 0.5
