"""Horovod's stall reports of both ages: who is absent, and who waits for something else."""

from __future__ import annotations

import io

from hangscope.align.job import align
from hangscope.facts import horovod
from hangscope.model import Fact
from hangscope.parse.reader import read_stream

STALL = "Tensors were submitted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds."


def facts(*lines: str) -> list[Fact]:
    text = "\n".join(lines) + "\n"
    return list(horovod.find(align([read_stream("job.log", io.BytesIO(text.encode()))])))


def test_who_is_ready_tells_who_is_not() -> None:
    found = facts(f"WARNING: {STALL} Stalled ops: a.weight [ready ranks: 5, 1, 4], a.bias [ready ranks: 5, 1, 4]")
    assert [fact.ranks for fact in found] == [(0,), (2,), (3,)]


def test_a_rank_that_submitted_some_is_not_named_beside_one_that_submitted_none() -> None:
    found = facts(f"WARNING: {STALL} Stalled ops: a [ready ranks: 2], b [ready ranks: 2, 3], c [ready ranks: 1, 2, 3]")
    assert [fact.ranks for fact in found] == [(0,)]


def test_each_side_waits_for_what_the_other_did_not_submit() -> None:
    (fact,) = facts(f"WARNING: {STALL} Stalled ops: loss [ready ranks: 3], grad [ready ranks: 2, 0, 1]")
    assert (fact.kind, fact.ranks, fact.affected) == ("horovod_submitted_apart", (3,), (0, 1, 2))


def test_missing_ranks_with_their_tensors() -> None:
    found = facts(f"[2020-12-30: W stall_inspector.cc:105] {STALL}", "Missing ranks:", "1: [grad.a, grad.b ...]")
    assert [(fact.kind, fact.ranks) for fact in found] == [("horovod_not_submitted", (1,))]


def test_a_job_without_stalls_has_nothing_to_tell() -> None:
    assert facts("Horovod has been shut down.") == []
