"""Lines in front of a dump that say whose it is."""

from __future__ import annotations

import pytest

from hangscope.parse.stacks.headers import Header, read_header
from stack_dumps import parse, read, read_one

SPY = 'Process 77: python t.py\nPython v3.11.7 (/usr/bin/python3)\n\nThread 77 (idle): "MainThread"\n    f (t.py:3)\n'
FAULT = 'Current thread 0x00007f00 (most recent call first):\n  File "t.py", line 3 in <module>\n'


@pytest.mark.parametrize(
    ("text", "rank", "pid", "host"),
    [
        ("=== Rank 2: http://node01:43577/handler/dump_traceback? ===", 2, None, "node01"),
        ("=== Rank 2: http://node01:43577 ===", 2, None, "node01"),
        ("== pid 77 ==", None, 77, None),
        ("### node02 rank=21", 21, None, "node02"),
        ("===== node01 pid 25539 rank 0 =====", 0, 25539, "node01"),
        ("# rank 0", 0, None, None),
        ("--- rank 3 (node01) ---", 3, None, "node01"),
        ("Pyspy dump for PID 88693:", None, 88693, None),
        ("rank 3:", 3, None, None),
        ("Rank 3 (pid 123, host alpha):", 3, 123, "alpha"),
        (">>> global_rank: 7, local_rank: 3, host=gpu-a", 7, None, "gpu-a"),
        ("[root@node01 workspace]# py-spy dump --pid 17212", None, 17212, "node01"),
        ("$ sudo py-spy dump --full-filenames -p 17408", None, 17408, None),
        ("+ gdb -p 4711 -batch -ex bt", None, 4711, None),
        ("$ pystack remote 4712", None, 4712, None),
        ("==> node02/rank5.txt <==", 5, None, "node02"),
        ("rank: 5, local_rank: 1, host: foo", 5, None, "foo"),
        ("Failed to execute [py-spy dump -p 99]", None, 99, None),
        ("*** worker-3 ***", None, None, "worker-3"),
    ],
)
def test_headers(text: str, rank: int | None, pid: int | None, host: str | None) -> None:
    header = read_header(text)
    assert header is not None
    assert (header.rank, header.pid, header.host) == (rank, pid, host)


@pytest.mark.parametrize(
    "text",
    [
        "rank 3: loss 0.5",
        "rank 1: [{'rank': 0}, {'rank': 1}]",
        "[rank3] step 5 of 10",
        "INFO rank=3 saved checkpoint",
        "step 12",
        "Saving model on node02",
        "x" * 5000,
    ],
)
def test_log_lines_are_no_headers(text: str) -> None:
    assert read_header(text) is None


def test_a_rule_says_nothing() -> None:
    assert read_header("-" * 40) == Header()


@pytest.mark.parametrize(
    "date",
    [
        "Sun Nov 29 17:10:21 UTC 2026",
        "Sun Nov 29 05:10:21 PM UTC 2026",
        "Sun 29 Nov 2026 05:10:21 PM UTC",
        "### 2026-11-29T17:10:21",
    ],
)
def test_dates(date: str) -> None:
    header = read_header(date)
    assert header is not None
    assert header.time == 1795972221.0
    first, second = read(f"{date}\ngpu-node-17\n{SPY}\n{SPY.replace('77', '78')}")
    assert (first.time, first.line.host) == (second.time, second.line.host) == (1795972221.0, "gpu-node-17")


def test_twelve_o_clock() -> None:
    headers = [read_header(f"Sun Nov 29 12:10:21 {half} UTC 2026") for half in ("AM", "PM")]
    assert [header and header.time for header in headers] == [1795911021.0, 1795954221.0]


def test_times() -> None:
    assert read_one(f"=== 2026-11-29 17:10:21 rank 4 ===\n{SPY}").time == 1795972221.0
    assert read_one(SPY, "stacks_20261129_171021.txt").time == 1795972221.0


def test_a_section_names_the_host_of_all_its_dumps() -> None:
    text = f"##### node02 #####\n# rank 8\n{SPY}\n# rank 9\n{SPY.replace('77', '78')}\n##### node03 #####\n\n{SPY}"
    places = [(dump.line.host, dump.line.rank, dump.line.rank_source, dump.pid) for dump in read(text)]
    assert places == [("node02", 8, "dump-header", 77), ("node02", 9, "dump-header", 78), ("node03", None, "", 77)]


def test_ray() -> None:
    line = "root  1234  5.0  0.3 123456 78901 ?  Sl  16:12  0:31 ray::RolloutWorker.sample()"
    dump = read_one(f"Stack dump for {line}\n{FAULT}")
    assert (dump.pid, dump.line.pid, dump.command) == (1234, 1234, "ray::RolloutWorker.sample()")


def test_a_dump_in_a_log_takes_no_rank_from_the_line_before() -> None:
    assert read_one(f"rank 3: step 5 done\n{FAULT}").line.rank is None


def test_what_the_launcher_says_counts_more() -> None:
    dump = read_one(
        f"[1,5]<stdout>:# rank 3\n{''.join(f'[1,5]<stdout>:{line}' + chr(10) for line in FAULT.splitlines())}"
    )
    assert (dump.line.rank, dump.line.rank_source) == (5, "mpirun")


def test_debug_pages() -> None:
    page = (
        "PARTIAL DATA: 2/3 workers responded\n  Rank 1: timed out\n\n"
        "=== Rank 0: http://node01:50215/handler/dump_traceback? ===\n"
        "Current thread 0x00007f696e7fc6c0 (most recent call first):\n  <no Python frame>\n\n"
        'Thread 0x00007f699426bb80 (most recent call first):\n  File "t.py", line 3 in all_reduce\n'
        '  File "t.py", line 9 in <module>\n\n'
        "=== Rank 2: http://node02:1/handler/dump_traceback? ===\nError: 500\n"
    )
    silent, first, failed = parse(page * 2).dumps[:3]
    assert (silent.line.rank, silent.tool, silent.error) == (1, "faulthandler", "no answer: timed out")
    assert (first.line.rank, first.line.host, first.line.rank_source) == (0, "node01", "dump-header")
    assert [len(thread.frames) for thread in first.threads] == [0, 2]
    assert (failed.line.rank, failed.line.host, failed.error) == (2, "node02", "Error: 500")


def test_pages_of_other_things_are_no_dumps() -> None:
    assert read("=== Rank 0: http://node01:1/handler/wait_counters? ===\nError: 404\n", "wait_counters_1.txt") == []
