"""Numbering calls per communicator object, and saying what a call is."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hangscope.align.job import Job
from hangscope.align.member_rows import rows_by_member
from nccl_logs import Rank, job_of_ranks, ranks


def numbers(job: Job, rank: int) -> list[tuple[str, int]]:
    """Operation and number of each call of a rank."""
    frame = job.calls.frame
    mine = frame[frame["process"] == job.processes.index(job.ranks[rank])]
    return list(zip(mine["op"].astype(str), mine["seq"].tolist(), strict=True))


def test_calls_are_numbered_for_each_communicator_object() -> None:
    log = Rank(0, 2).init().init(comm=0x10, comm_id=5).call().call("AllGather", comm=0x10).call().call(comm=0x10)
    assert numbers(job_of_ranks([log]), 0) == [("AllReduce", 0), ("AllGather", 0), ("AllReduce", 1), ("AllReduce", 1)]


def test_op_count_has_no_part_in_the_numbering() -> None:
    # GIVEN 2.27 and later: opCount of one node stands still, ranks differ, one plan shares one
    logs = ranks(2)
    logs[0].call(op_count=0).call(op_count=0).call(op_count=7)
    logs[1].call(op_count=3).call(op_count=4).call(op_count=5)
    job = job_of_ranks(logs)
    assert numbers(job, 0) == numbers(job, 1)
    assert job.stuck == ()


def test_sends_and_receives_are_numbered_apart_for_each_peer_and_direction() -> None:
    log = Rank(0, 4).init()
    log.call("Send", root=1).call("AllReduce").call("Recv", root=1).call("Send", root=2).call("Send", root=1)
    assert numbers(job_of_ranks([log]), 0) == [("Send", 0), ("AllReduce", 0), ("Recv", 0), ("Send", 0), ("Send", 1)]


def test_pointer_used_again_after_destroy_starts_at_zero() -> None:
    log = Rank(0, 2).init().call().call().end().init(comm_id=0x77).call()
    assert numbers(job_of_ranks([log]), 0) == [("AllReduce", 0), ("AllReduce", 1), ("AllReduce", 0)]


def test_communicators_of_which_only_calls_are_known_are_joined_by_size() -> None:
    # GIVEN logs whose beginning is lost
    logs = [Rank(r, 2).call().call("AllGather") for r in range(2)]
    job = job_of_ranks(logs)
    assert [(group.name, len(group.members)) for group in job.groups] == [("communicator 1 of size 2", 2)]


def test_same_pointer_in_two_processes_is_two_objects() -> None:
    logs = [Rank(r, 2, comm=0x1000 - r * 0x100000 + 0x100000).init().call() for r in range(2)]
    job = job_of_ranks(logs)
    assert len({member.comm for member in job.communicators}) == 1
    assert job.calls.frame["seq"].tolist() == [0, 0]


def test_equal_calls_have_equal_signatures_and_others_have_not() -> None:
    log = Rank(0, 2).init()
    log.call().call().call("AllGather").call(count=2).call(dtype=6).call(redop=2).call(root=1)
    signatures = job_of_ranks([log]).calls.frame["signature"].to_numpy()
    assert signatures[0] == signatures[1]
    assert len(np.unique(signatures)) == 6


def test_all_gather_in_bytes_of_old_versions_equals_all_gather_in_elements() -> None:
    # GIVEN 2.19 (bytes, datatype 0) and 2.27 (elements) in one job
    old, new = Rank(0, 2).say("NCCL version 2.19.3+cuda12.2"), Rank(1, 2).say("NCCL version 2.27.7+cuda12.8")
    old.init().call("AllGather", 4096, dtype=0).call()
    new.init().call("AllGather", 1024, dtype=7).call()
    job = job_of_ranks([old, new])
    assert job.versions.nccl == ("2.19.3", "2.27.7")
    assert job.stuck == ()


def test_all_gather_of_another_size_differs_in_mixed_versions_too() -> None:
    old, new = Rank(0, 2).say("NCCL version 2.19.3+cuda12.2"), Rank(1, 2).say("NCCL version 2.27.7+cuda12.8")
    old.init().call("AllGather", 4096, dtype=0)
    new.init().call("AllGather", 2048, dtype=7)
    assert [call.parting for call in job_of_ranks([old, new]).stuck] == ["size"]


def test_call_is_described_in_pytorch_s_words() -> None:
    log = Rank(0, 2).init().call("Broadcast", 4096, root=1).call("AllReduce", 8, dtype=9, redop=2).call("AllGather", 3)
    table = job_of_ranks([log]).calls
    assert [table.call(row).describe() for row in range(3)] == [
        "broadcast of 4096 float32, root 1",
        "all_reduce of 8 bfloat16, max",
        "all_gather of 3 float32",
    ]


def test_unknown_datatype_and_operation_are_shown_as_printed() -> None:
    table = job_of_ranks([Rank(0, 2).init().call("AlltoAllv", 3, dtype=77)]).calls
    assert table.call(0).describe() == "AlltoAllv of 3 datatype 77"


@pytest.mark.parametrize(("count", "names"), [(1, 1), (5, 100_000), (200, 3), (70_000, 69_999)])
def test_rows_are_sorted_by_member_however_many_members_there_are(count: int, names: int) -> None:
    rng = random.Random(1)  # noqa: S311  (no secret)
    members = [rng.randrange(names) for _ in range(count)]
    rows = sorted(rng.sample(range(2 * count), count))
    expected: dict[int, list[int]] = {}
    for member, row in zip(members, rows, strict=True):
        expected.setdefault(member, []).append(row)
    found = rows_by_member(np.array(members, dtype=np.int32), np.array(rows))
    assert [(member, own.tolist()) for member, own in found] == sorted(expected.items())
