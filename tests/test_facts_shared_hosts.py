"""Machines that NCCL takes for one host, and ranks by the list that nccl-tests prints."""

from __future__ import annotations

import io

import pytest

from hangscope.align.job import Job, align
from hangscope.facts import shared_hosts
from hangscope.parse.reader import read_stream


def job_of(text: str) -> Job:
    """A job of one file with these lines."""
    return align([read_stream("job.log", io.BytesIO(text.encode()))])


def edge(source: str, target: str, transport: str = "P2P/IPC", host: str = "node01") -> str:
    return f"{host}:7:7 [0] NCCL INFO Channel 00 : {source} -> {target} via {transport}\n"


def test_a_gpu_that_two_ranks_have_is_in_two_hosts() -> None:
    (fact,) = shared_hosts.find(job_of(edge("2[2]", "3[3]") + edge("6[6]", "10[2]")))
    assert fact.fields == {"gpu": "2", "first_rank": 2, "second_rank": 10}
    assert (fact.hosts, [one.at.line for one in fact.evidence]) == (("node01",), [2, 1])


@pytest.mark.parametrize(
    "text",
    [
        edge("2[2]", "3[3]") + edge("6[6]", "10[2]", "NET/IB/0"),
        edge("2[2]", "3[3]") + edge("6[6]", "10[2]", host="node02"),
        edge("0[0]", "1[0]") + edge("1[0]", "2[0]"),
        edge("0[0]", "1[1]") + edge("0[2]", "1[3]"),
        edge("2[2]", "3[3]") + edge("2[2]", "10[3]").replace(":7:7", ":8:8"),
    ],
    ids=["over the network", "of another host", "each sees one GPU", "two communicators", "two jobs"],
)
def test_these_are_no_two_hosts(text: str) -> None:
    assert not list(shared_hosts.find(job_of(text)))


def test_the_head_of_nccl_tests_says_who_is_which_rank() -> None:
    head = "".join(f"#  Rank  {rank} Group  0 Pid  {70 + rank} on node0{rank} device  0 [0x4c] H\n" for rank in (0, 1))
    job = job_of(head + "node01:71:80 [0] NCCL INFO Using network IB\nnode00:70:80 [0] NCCL INFO Using network IB\n")
    assert {rank: process.host for rank, process in job.ranks.items()} == {0: "node00", 1: "node01"}


def test_a_process_of_several_ranks_is_none_of_them() -> None:
    head = "".join(f"#  Rank  {rank} Group  0 Pid  70 on node01 device  {rank} [0x4c] H\n" for rank in (0, 1))
    assert not job_of(head + "node01:70:80 [0] NCCL INFO Using network IB\n").ranks
