"""Where the ranks of a group part: who is missing, who left a call out, who called something else."""

from __future__ import annotations

import dataclasses

import pytest

from hangscope.align.collectives import Parting, StuckCall
from hangscope.align.job import Job, align
from hangscope.parse.source import ParsedSource
from nccl_logs import Rank, job_of_ranks, parse, ranks

STEPS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AllReduce", "AllGather")


def run(logs: list[Rank], steps: tuple[str, ...] = STEPS, *, leave_out: dict[int, int] | None = None) -> list[Rank]:
    """Every rank makes these calls, of different sizes; a rank may leave one out."""
    for log in logs:
        for number, op in enumerate(steps):
            if (leave_out or {}).get(log.rank) != number:
                log.call(op, 1024 + number)
    return logs


def only(job: Job) -> StuckCall:
    (call,) = job.stuck
    return call


# --- no difference ----------------------------------------------------------------------------------------


def test_equal_calls_are_not_stuck() -> None:
    assert job_of_ranks(run(ranks(4))).stuck == ()


def test_one_rank_alone_shows_nothing() -> None:
    assert job_of_ranks(run(ranks(4)[:1])).stuck == ()


def test_behind_by_some_calls_after_all_destroyed_the_communicator_is_lost_lines_only() -> None:
    logs = ranks(2)
    logs[0].call().call().end()
    logs[1].call().end()
    assert job_of_ranks(logs).stuck == ()


# --- missing ----------------------------------------------------------------------------------------------


def test_rank_that_made_fewer_calls_is_missing_in_the_first_it_did_not_make() -> None:
    logs = run(ranks(4))
    logs[2].lines = logs[2].lines[:-3]
    call = only(job_of_ranks(logs))
    assert (call.parting, call.seq, call.op) == (Parting.MISSING, 4, "reduce")
    assert (call.arrived, call.missing, call.odd) == ((0, 1, 3), (2,), (2,))
    assert call.members == (0, 1, 2, 3)
    assert call.reliable
    assert call.evidence[0].why == "rank 2's last call here"


def test_rank_that_completed_its_init_and_called_nothing_is_missing_in_call_0() -> None:
    logs = ranks(4)
    run(logs[:3])
    call = only(job_of_ranks(logs))
    assert (call.seq, call.missing) == (0, (3,))


def test_rank_without_any_log_is_not_called_missing() -> None:
    # GIVEN three of four logs: of the fourth rank nobody knows what it called
    assert job_of_ranks(run(ranks(4)[:3])).stuck == ()


def test_several_ranks_at_different_calls_part_at_the_earliest() -> None:
    logs = run(ranks(4))
    logs[1].lines = logs[1].lines[:-1]
    logs[3].lines = logs[3].lines[:-4]
    call = only(job_of_ranks(logs))
    assert (call.seq, call.missing, call.arrived) == (3, (3,), (0, 1, 2))


# --- lost beginnings --------------------------------------------------------------------------------------


def without_head(log: Rank, lines: int) -> None:
    log.lines = log.lines[lines:]


def test_rank_whose_log_begins_late_is_not_compared_with_the_others() -> None:
    logs = run(ranks(4))
    without_head(logs[2], 4)
    assert job_of_ranks(logs).stuck == ()


def test_difference_among_the_others_is_still_found() -> None:
    logs = run(ranks(4))
    without_head(logs[2], 4)
    logs[3].lines.pop()
    assert only(job_of_ranks(logs)).missing == (3,)


@pytest.mark.parametrize("sign", ["teardown", "opCount"])
def test_logs_that_all_begin_late_are_not_compared(sign: str) -> None:
    logs = ranks(2)
    for log in logs:
        for number, op in enumerate(STEPS):
            log.call(op, op_count=number if sign == "opCount" else 0)
        if sign == "teardown":
            log.end()
    without_head(logs[0], 4)
    without_head(logs[1], 5)
    assert job_of_ranks(logs).stuck == ()


def test_logs_of_nothing_but_calls_are_compared() -> None:
    # GIVEN NCCL_DEBUG_SUBSYS=COLL, and torch's prefix for the ranks
    logs = run(ranks(4))
    logs[2].lines.pop()
    for log in logs:
        log.lines = [f"[rank{log.rank}]: {line}" for line in log.lines[2:]]
    call = only(job_of_ranks(logs))
    assert (call.missing, call.seq) == ((2,), 6)


# --- block-buffered output --------------------------------------------------------------------------------


def job_with_lost_tail(logs: list[Rank], rank: int) -> Job:
    """The file of one rank ends as block-buffered output does."""
    sources: list[ParsedSource] = []
    for log in logs:
        source = parse(log.lines, f"{log.rank}.txt")
        sources.append(dataclasses.replace(source, block_buffered=log.rank == rank))
    return align(sources)


def test_missing_by_a_file_whose_tail_is_lost_is_not_reliable() -> None:
    logs = run(ranks(4))
    logs[2].lines = logs[2].lines[:-3]
    assert not only(job_with_lost_tail(logs, 2)).reliable
    assert only(job_with_lost_tail(logs, 0)).reliable


def test_call_of_another_kind_is_reliable_whatever_tail_is_lost() -> None:
    logs = run(ranks(4), leave_out={2: 1})
    assert only(job_with_lost_tail(logs, 2)).reliable


# --- skipped and extra ------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_out", [0, 1, 3])
def test_rank_that_left_out_one_call_and_went_on(left_out: int) -> None:
    call = only(job_of_ranks(run(ranks(4), leave_out={2: left_out})))
    assert (call.parting, call.seq, call.odd) == (Parting.SKIPPED, left_out, (2,))
    assert call.arrived == (0, 1, 3)
    assert set(call.differing) == {2}


def test_rank_that_made_one_call_more() -> None:
    logs = ranks(4)
    for log in logs:
        log.call("AllReduce", 1)
        if log.rank == 1:
            log.call("AllReduce", 99)
        log.call("AllGather", 2).call("ReduceScatter", 3).call("Broadcast", 4)
    call = only(job_of_ranks(logs))
    assert (call.parting, call.seq, call.odd) == (Parting.EXTRA, 1, (1,))


def test_of_two_ranks_the_one_that_left_a_call_out_is_odd_whichever_it_is() -> None:
    for rank in (0, 1):
        call = only(job_of_ranks(run(ranks(2), leave_out={rank: 2})))
        assert (call.parting, call.odd, call.tie) == (Parting.SKIPPED, (rank,), True)


# --- other calls ------------------------------------------------------------------------------------------


def parted(rank: int, world: int, **other: int | str) -> StuckCall:
    """The stuck call when one rank's last call is another than all others'."""
    logs = ranks(world)
    for log in logs:
        log.call("AllGather", 7)
        if log.rank == rank:
            log.call(str(other.get("op", "Broadcast")), **{k: int(v) for k, v in other.items() if k != "op"})
        else:
            log.call("Broadcast")
    return only(job_of_ranks(logs))


def test_other_operation() -> None:
    call = parted(3, 4, op="Reduce")
    assert (call.parting, call.odd, call.op, call.tie) == (Parting.OPERATION, (3,), "broadcast", False)
    assert (call.expected, call.found) == ("broadcast of 1024 float32, root 0", "reduce of 1024 float32, root 0")
    assert call.differing == {3: "reduce of 1024 float32, root 0"}


def test_other_root_is_another_operation() -> None:
    assert parted(1, 4, root=2).parting is Parting.OPERATION


def test_other_count_or_data_type_is_another_size() -> None:
    assert parted(0, 4, count=4096).parting is Parting.SIZE
    assert parted(0, 4, dtype=6).parting is Parting.SIZE


def test_two_ranks_that_disagree_are_a_tie() -> None:
    assert parted(1, 2, count=4096).tie


def test_evidence_shows_the_odd_rank_first() -> None:
    call = parted(3, 4, op="Reduce")
    assert call.evidence[0].why == "rank 3 called this instead"
    assert call.evidence[0].at.file == "d3.log"
    assert [e.why for e in call.evidence[1:]] == ["call 1 of rank 0", "call 1 of rank 1", "call 1 of rank 2"]


def test_difference_counts_from_its_first_call_on_only() -> None:
    logs = ranks(4)
    for log in logs:
        for number in range(50):
            log.call("AllReduce", 100 + number + (1 if log.rank == 2 and number >= 30 else 0))
    assert only(job_of_ranks(logs)).seq == 30


# --- point to point ---------------------------------------------------------------------------------------


def test_send_without_a_recv_at_its_peer() -> None:
    logs = ranks(4)
    logs[0].call("Send", root=1).call("Send", root=1)
    logs[1].call("Recv", root=0)
    call = only(job_of_ranks(logs))
    assert (call.parting, call.op, call.seq) == (Parting.P2P, "send", 1)
    assert (call.arrived, call.missing, call.odd) == ((0,), (1,), (0, 1))


def test_recv_without_a_send_at_its_peer() -> None:
    logs = ranks(2)
    logs[1].call("Recv", root=0)
    call = only(job_of_ranks(logs))
    assert (call.op, call.arrived, call.missing) == ("recv", (1,), (0,))


def test_peers_of_a_child_group_are_named_by_their_global_ranks() -> None:
    # GIVEN a group of global ranks 2 and 3, in which they are 0 and 1
    logs = ranks(4)
    for log in logs[2:]:
        log.split(0x5000 + log.rank, log.rank - 2, 2, 1, count=1)
    logs[2].call("Send", root=1, comm=0x5002, nranks=2)
    call = only(job_of_ranks(logs))
    assert (call.group, call.arrived, call.missing) == ("split 1, color 1 of world", (2,), (3,))


def test_matched_sends_and_receives_of_a_ring_are_not_stuck() -> None:
    logs = ranks(4)
    for _ in range(3):
        for log in logs:
            log.call("Send", root=(log.rank + 1) % 4).call("Recv", root=(log.rank - 1) % 4)
    assert job_of_ranks(logs).stuck == ()


# --- groups beside each other -----------------------------------------------------------------------------


def test_pipeline_of_three_groups_whose_ranks_call_in_different_order_is_healthy() -> None:
    # GIVEN tensor, data and world groups, each rank calling them interleaved in its own way
    logs = ranks(4)
    for log in logs:
        log.split(0x5000 + log.rank, log.rank % 2, 2, log.rank // 2, count=1)
        log.split(0x6000 + log.rank, log.rank // 2, 2, log.rank % 2, count=2)
    for _ in range(5):
        for log in logs:
            first, second = (0x5000, 0x6000) if log.rank % 2 else (0x6000, 0x5000)
            log.call(comm=first + log.rank, nranks=2).call(comm=second + log.rank, nranks=2).call("AllGather")
    assert job_of_ranks(logs).stuck == ()


def test_each_group_has_a_stuck_call_of_its_own() -> None:
    logs = ranks(4)
    for log in logs:
        log.split(0x5000 + log.rank, log.rank % 2, 2, log.rank // 2, count=1)
    logs[0].call(comm=0x5000, nranks=2)
    logs[3].call(comm=0x5003, nranks=2)
    assert [(call.group, call.arrived, call.missing) for call in job_of_ranks(logs).stuck] == [
        ("split 1, color 0 of world", (0,), (1,)),
        ("split 1, color 1 of world", (3,), (2,)),
    ]


def test_thousand_ranks_are_aligned() -> None:
    logs = run(ranks(1024))
    logs[700].lines = logs[700].lines[:-2]
    call = only(job_of_ranks(logs))
    assert call.missing == (700,)
    assert len(call.arrived) == 1023
    assert len(call.evidence) < 20
