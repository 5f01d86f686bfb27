"""Reading one input: folding, torn lines, the two ways of call lines, writers, and whatever bytes there may be."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hangscope.parse.columns import CallColumns
from hangscope.parse.reader import read_stream
from nccl_logs import Rank, parse

CALL = (
    "AllReduce: opCount {n:x} sendbuff 0x7f02 recvbuff 0x7f03 count {count} datatype 7 op 0 root 0 "
    "comm 0x7f10 [nranks=4] stream 0x55"
)
HEAD = "node01:100:120 [0] NCCL INFO "
CHAIN = (
    f"{HEAD}transport/net.cc:1034 -> 6\n{HEAD}proxy.cc:679 -> 6\n{HEAD}proxy.cc:858 -> 6 [Progress Thread]\n"
    "node01:100:120 [0] transport/net_socket.cc:493 NCCL WARN NET/Socket : peer 10.0.0.1<4711> message truncated"
    " : receiving 8 bytes instead of 4\n"
)


def rows(columns: CallColumns) -> list[tuple[object, ...]]:
    """The calls without what the way they came in may change: writer and time."""
    found = []
    for code, op_count, line in zip(columns.shape, columns.op_count, columns.line, strict=True):
        _, op, *rest = columns.shapes[code]
        found.append((columns.ops[op], op_count, *rest, line))
    return found


def counts(columns: CallColumns) -> list[int]:
    return [columns.shapes[code].elements for code in columns.shape]


# --- folding ----------------------------------------------------------------------------------------------


def test_an_error_chain_repeated_65000_times_is_four_events_with_their_counts() -> None:
    source = read_stream("job.log", io.BytesIO(CHAIN.encode() * 65_000))
    assert [event.count for event in source.events] == [65_000] * 4
    assert source.record.lines == 260_000


def test_memory_does_not_grow_with_repeated_lines() -> None:
    peaks = []
    for repeats in (4_000, 4_000, 12_000):  # the first fills caches, and more than a chunk
        log = io.BytesIO(CHAIN.encode() * repeats)
        tracemalloc.start()
        read_stream("job.log", log)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1] + (1 << 20)


def test_the_same_words_of_two_processes_stay_two_events() -> None:
    source = parse(CHAIN + CHAIN.replace(":100:", ":101:") + CHAIN)
    assert [(event.pid, event.count) for event in source.events if event.kind == "error_arrow"] == [
        (pid, count) for pid, count in ((100, 2), (101, 1)) for _ in range(3)
    ]


def test_folded_event_keeps_its_first_line() -> None:
    source = parse("nothing\n" + CHAIN * 3)
    assert [event.line.number for event in source.events] == [2, 3, 4, 5]


# --- calls ------------------------------------------------------------------------------------------------


def test_call_lines_give_equal_columns_by_the_fast_and_the_slow_way() -> None:
    calls = [
        HEAD + CALL.format(n=26, count=1 << 40),
        HEAD
        + CALL.format(n=3, count=9).replace("AllReduce", "Send").replace("0x7f02", "(nil)").replace("0x7f10", "0x9f"),
        HEAD
        + CALL.format(n=15, count=4).replace("datatype 7 op 0 root 0", "datatype 9 op 4 root 1")
        + " task 0 globalrank 3",
    ]
    fast = parse(calls)
    slow = parse([f"2026-03-01T10:00:00Z {line}" for line in calls])
    assert rows(fast.calls) == rows(slow.calls)
    assert fast.calls.writers == slow.calls.writers
    assert len(fast.calls) == 3
    times = slow.calls.times
    assert times is not None and set(times) == {times[0]} and times[0] > 0
    assert fast.calls.times is None


def test_two_calls_glued_into_one_line_are_two_calls() -> None:
    source = parse(HEAD + CALL.format(n=1, count=7) + HEAD + CALL.format(n=2, count=8) + "\n")
    assert counts(source.calls) == [7, 8]


def test_warning_glued_to_a_call_is_not_lost() -> None:
    source = parse(HEAD + CALL.format(n=1, count=7) + CHAIN.splitlines()[-1] + "\n")
    assert len(source.calls) == 1
    assert [event.kind for event in source.events] == ["net_message_truncated"]


@pytest.mark.parametrize("cut", range(len(HEAD), len(HEAD + CALL.format(n=1, count=7)) - 1, 7))
def test_torn_call_line_is_no_call_and_harms_no_other(cut: int) -> None:
    line = HEAD + CALL.format(n=1, count=7)
    source = parse([line, line[:cut], line])
    whole = [row[-1] for row in rows(source.calls)]
    assert whole in ([1, 3], [1, 2, 3])
    assert len(whole) == 2 or cut > line.index(" stream 0x"), "nothing of the call may be missing"


def test_numbers_too_large_for_their_column_are_cut_to_its_largest() -> None:
    source = parse(HEAD + CALL.format(n=1, count=10**30) + "\n")
    assert counts(source.calls) == [2**63 - 1]


def test_number_that_python_refuses_costs_only_its_line() -> None:
    hostile = HEAD + CALL.format(n=1, count=int("9" * 4000)).replace("count 9", "count " + "9" * 1000)
    source = parse(
        [hostile, HEAD + CALL.format(n=2, count=7), f"{HEAD}Rank {'9' * 5000} has color with NCCL_SPLIT_NOCOLOR"]
    )
    assert counts(source.calls) == [7]
    assert source.record.error is None
    assert source.record.unrecognized == 2


def test_made_up_operations_do_not_overflow_their_column() -> None:
    names = [f"Op{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
    source = parse([HEAD + CALL.format(n=1, count=7).replace("AllReduce", name) for name in names])
    assert len(source.calls) == 300
    assert max(shape.op for shape in source.calls.shapes) < len(source.calls.ops) <= 127


# --- writers ----------------------------------------------------------------------------------------------


def test_writers_are_told_apart_by_host_and_pid_in_one_stream() -> None:
    source = parse(Rank(0, 4).init().lines + Rank(1, 4).init().lines + Rank(2, 4).init().lines)
    assert [(w.key.host, w.key.pid, w.lines) for w in source.writers] == [
        ("node01", 100, 2),
        ("node01", 101, 2),
        ("node02", 102, 2),
    ]


def test_calls_count_as_lines_of_their_writer() -> None:
    source = parse(Rank(0, 4).init().call().call().lines)
    (writer,) = source.writers
    assert (writer.lines, writer.last_call_line) == (4, 4)


def test_numbers_of_srun_become_ranks_once_the_file_shows_them() -> None:
    lines = [f"{task}: step {step} loss 0.{task}" for step in range(10) for task in range(4)]
    source = parse(lines)
    assert {w.key.rank for w in source.writers} == {0, 1, 2, 3}
    assert {w.key.rank_source for w in source.writers} == {"srun"}


def test_writer_keeps_first_and_last_words_and_times() -> None:
    lines = [f"2026-03-01T10:00:0{s}Z [rank3]: ValueError: {s}" for s in range(3)]
    (writer,) = parse(lines).writers
    assert writer.first_line is not None and writer.first_line.number == 1
    assert writer.last_line is not None and writer.last_line.number == 3
    assert writer.first_time is not None and writer.last_time == writer.first_time + 2


def test_exception_is_an_event_with_the_user_s_frame() -> None:
    source = parse(
        [
            "[rank3]: Traceback (most recent call last):",
            '[rank3]:   File "/job/train.py", line 7, in main',
            "[rank3]:     step(batch)",
            "[rank3]: ValueError: no such batch",
        ]
    )
    (event,) = [e for e in source.events if e.kind == "exception"]
    assert (event.fields["type"], event.fields["where_file"], event.fields["where_line"]) == (
        "ValueError",
        "/job/train.py",
        7,
    )
    assert event.line.rank == 3


# --- what is left over ------------------------------------------------------------------------------------


def test_unrecognized_counts_lines_with_a_known_header_only() -> None:
    lines = ["loss 0.3", f"{HEAD}an unheard-of message", f"{HEAD}another one", *Rank(0, 4).init().lines, ""]
    assert parse(lines).record.unrecognized == 2


@pytest.mark.parametrize(
    ("data", "flag"),
    [
        (b"", False),
        (b"x" * 99 + b"\n", False),
        (b"x" * 4095 + b"\n", True),
        (b"x" * 63 + b"\n" + b"y" * 4031 + b"\n", True),
        (b"one\ntwo", True),
        (b"x" * 8191 + b"\n", True),
    ],
    ids=["empty", "whole lines", "one buffer", "a buffer of two lines", "no newline at the end", "two buffers"],
)
def test_block_buffered_is_a_multiple_of_4096_or_a_torn_last_line(data: bytes, flag: bool) -> None:
    assert parse(data).block_buffered is flag


def test_empty_input_is_empty_and_no_error() -> None:
    source = parse(b"")
    assert source.empty
    assert (source.record.kind, source.record.lines, source.record.error) == ("empty", 0, None)


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF" + bytes(range(256)) * 20, b"\x80\x04\x95" + b"\0" * 4000, b"\x89PNG\r\n\x1a\n" + bytes(4000)],
    ids=["program", "pickle", "picture"],
)
def test_binary_input_gives_no_events(data: bytes) -> None:
    source = parse(data, "core.bin")
    assert source.events == [] and source.record.kind != "log"


FRAGMENTS = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [
            HEAD.encode(),
            CALL.format(n=1, count=3).encode(),
            CHAIN.encode(),
            b"[rank3]: ",
            b"Traceback (most recent call last):\n",
            b'  File "a.py", line 3, in f\n',
            b"\n",
            b"\r",
            b"\0",
            b"\x1b[31m",
            b"3: ",
            b"[default2]:",
            b'{"log":"x\\n","time":"2026-03-01T10:00:00Z"}\n',
            b"RANK=3 WORLD_SIZE=8",
            "\u2028é".encode(),
        ]
    ),
)


@given(st.lists(FRAGMENTS, max_size=30).map(b"".join))
@example(b"\xff\xfe")
@example(HEAD.encode() + CALL.format(n=1, count=3).encode() * 2)
@settings(max_examples=250, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    source = read_stream("any.log", io.BytesIO(data))
    assert source.record.file == "any.log"
    assert len(source.calls) == len(source.calls.op_count)
    assert all(event.line.number <= source.record.lines for event in source.events)
