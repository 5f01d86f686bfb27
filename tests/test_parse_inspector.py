"""NCCL's Inspector: the last operations of each rank, who lies behind, and lines that are none of it."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.facts import inspector
from hangscope.model import Fact
from hangscope.parse.reader import read_stream
from nccl_logs import job_of

START_US = 1748030377748202


def done(
    rank: int, number: int, *, at_s: float = 0.0, call: str = "AllReduce", comm: str = "0x9bf1", size: int = 4
) -> str:
    value = {
        "header": {"id": comm, "comm_name": "world", "rank": rank, "n_ranks": size, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0",
            "dump_timestamp_us": START_US + int(at_s * 1e6),
            "hostname": "node01",
            "pid": 100 + rank,
        },
        "coll_perf": {"coll": call, "coll_sn": number, "coll_msg_size_bytes": 64, "coll_exec_time_us": 61974},
    }
    return json.dumps(value)


def facts(ends: list[tuple[int, float]], size: int = 4) -> list[Fact]:
    files = {
        f"node01-pid{100 + rank}.log": [done(rank, n, at_s=at, size=size) for n in range(1, last + 1)]
        for rank, (last, at) in enumerate(ends)
    }
    return list(inspector.find(job_of(files)))


def test_last_operation_of_each_kind_is_kept() -> None:
    lines = [done(0, 1), done(0, 2), done(0, 1, call="AllGather"), done(0, 7, comm="0xab"), done(0, 3)]
    source = read_stream("a.log", io.BytesIO("\n".join(lines).encode()))
    told = [(e.fields["call"], e.fields["comm_hash"], e.fields["sn"], e.line.number) for e in source.events]
    assert told == [("AllGather", 0x9BF1, 1, 3), ("AllReduce", 0xAB, 7, 4), ("AllReduce", 0x9BF1, 3, 5)]
    assert (source.record.kind, source.record.lines, source.record.unrecognized) == ("inspector", 5, 0)
    assert [(writer.key.host, writer.key.pid) for writer in source.writers] == [("node01", 100)]


def test_rank_that_completed_less_is_behind() -> None:
    (fact,) = facts([(9, 60), (9, 61), (7, 60), (9, 60)])
    assert (fact.kind, fact.ranks, fact.fields["sn"], fact.fields["others"]) == ("inspector_behind", (2,), 7, 9)


def test_rank_that_wrote_no_more_has_stopped() -> None:
    (fact,) = facts([(9, 60), (9, 61), (7, 10), (9, 60)])
    assert (fact.kind, fact.ranks, fact.fields["stopped_s"]) == ("inspector_stopped", (2,), 50.0)


@pytest.mark.parametrize(
    ("ends", "size"),
    [([(9, 60)] * 4, 4), ([(9, 60), (9, 60), (8, 60)], 4), ([(9, 60), (8, 60), (8, 60), (8, 60)], 4)],
    ids=["equal", "a file is missing", "most are behind"],
)
def test_nobody_is_accused(ends: list[tuple[int, float]], size: int) -> None:
    assert facts(ends, size) == []


def test_point_to_point_and_broken_lines() -> None:
    lines = [
        done(0, 1),
        '{"header": {"id": "0x1", "rank": 0}, "p2p_perf": {"p2p": "Send", "p2p_sn": 4}}',
        '{"header": {"id"',
    ]
    source = read_stream("a.log", io.BytesIO("\n".join(lines).encode()))
    assert (len(source.events), source.record.unrecognized) == (1, 1)


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=6),
        lambda inner: (
            st.dictionaries(
                st.sampled_from(["header", "coll_perf", "metadata", "rank", "coll_sn", "pid", "id", "hostname"]),
                inner,
                max_size=5,
            )
            | st.lists(inner, max_size=2)
        ),
        max_leaves=10,
    ),
    st.binary(max_size=40),
)
def test_any_value_is_read(value: object, noise: bytes) -> None:
    text = json.dumps({"header": value, "coll_perf": value, "metadata": value}).encode()
    deep = b'{"coll_perf": ' + b"[" * 100_000
    for data in (text + b"\n" + noise, text[:30] + noise, deep):
        assert read_stream("a.log", io.BytesIO(data)).record.file == "a.log"
