"""Ranks whose program ended while others still needed them."""

from __future__ import annotations

import io

from hangscope.align.job import align
from hangscope.facts import departures
from hangscope.model import Fact
from hangscope.parse.reader import read_stream

LEFT = (
    "[rank0]:[W1106 04:13:02.107228334 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been "
    "destroyed before we destruct ProcessGroupNCCL."
)


def late(rank: int, clock: str = "04:43:01") -> str:
    return (
        f"[rank{rank}]:[E1106 {clock}.018941581 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for "
        "1800039 milliseconds before timing out."
    )


def facts(*lines: str) -> list[Fact]:
    text = "\n".join(lines) + "\n"
    return list(departures.find(align([read_stream("job.log", io.BytesIO(text.encode()))])))


def test_the_rank_that_ended_is_named_with_those_that_waited() -> None:
    (fact,) = facts(LEFT, late(1), late(2))
    assert (fact.ranks, fact.affected, fact.fields["waits"]) == ((0,), (1, 2), (1, 2))


def test_who_timed_out_too_did_not_leave_early() -> None:
    assert facts(LEFT, late(0), late(1)) == []


def test_the_end_after_the_timeout_is_its_consequence() -> None:
    assert facts(late(1, "04:13:00"), LEFT) == []
