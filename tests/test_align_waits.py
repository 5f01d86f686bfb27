"""Who waits for whom: the ranks at the ends of the graph, and circles of groups."""

from __future__ import annotations

import pytest

from hangscope.align.collectives import Parting, StuckCall
from hangscope.align.waits import follow_waits
from nccl_logs import Rank, job_of_ranks, ranks


def waits_in(
    group: str, arrived: tuple[int, ...], missing: tuple[int, ...], parting: Parting = Parting.MISSING
) -> StuckCall:
    members = tuple(sorted(arrived + missing))
    return StuckCall(group, len(members), members, 0, "all_reduce", arrived, missing, {}, parting, odd=missing)


def test_rank_that_is_missing_and_waits_nowhere_is_a_root() -> None:
    call = waits_in("world", (0, 1, 2), (3,))
    assert follow_waits([call]).roots == ((call, (3,)),)
    assert follow_waits([call]).cycles == ()


def test_rank_that_is_missing_because_it_waits_elsewhere_is_no_root() -> None:
    # GIVEN rank 1, missing in the world, waiting in a pair for rank 3
    world, pair = waits_in("world", (0, 2), (1, 3)), waits_in("pair", (1,), (3,))
    waits = follow_waits([world, pair])
    assert [ranks for _, ranks in waits.roots] == [(3,), (3,)]


def test_two_groups_entered_in_different_order_are_a_cycle_without_a_root() -> None:
    a, b = waits_in("a", (0, 1, 2), (3,)), waits_in("b", (3,), (0, 1, 2))
    waits = follow_waits([a, b])
    assert waits.roots == ()
    assert waits.cycles == (((a, b), (3,)),), "the smaller side stands crosswise"


def test_ring_of_three_groups_is_one_cycle() -> None:
    calls = [waits_in("a", (0,), (1,)), waits_in("b", (1,), (2,)), waits_in("c", (2,), (0,))]
    waits = follow_waits(calls)
    assert waits.roots == ()
    assert [len(ring) for ring, _ in waits.cycles] == [3]


def test_call_that_only_leads_to_a_cycle_is_no_part_of_it() -> None:
    a, b = waits_in("a", (0,), (1,)), waits_in("b", (1,), (0,))
    tail = waits_in("c", (2,), (0,))
    waits = follow_waits([tail, a, b])
    assert [ring for ring, _ in waits.cycles] == [(a, b)]


def test_rank_in_a_mismatch_waits_there_and_is_no_root_elsewhere() -> None:
    mismatch = waits_in("a", (1, 2), (), Parting.OPERATION)
    call = waits_in("b", (0,), (1,))
    assert follow_waits([mismatch, call]).roots == ()


def test_no_stuck_calls_no_waits() -> None:
    waits = follow_waits([])
    assert (waits.roots, waits.cycles) == ((), ())


def test_long_chain_of_waits_ends_at_its_last_rank() -> None:
    calls = [waits_in(f"pair {n}", (n,), (n + 1,)) for n in range(300)]
    waits = follow_waits(calls)
    assert [ranks for _, ranks in waits.roots] == [(300,)]
    assert waits.cycles == ()


@pytest.mark.parametrize("odd", [1, 2])
def test_ab_ba_deadlock_is_seen_in_logs(odd: int) -> None:
    # GIVEN two communicators of all ranks, which one rank enters the other way round
    logs = ranks(4)
    for log in logs:
        log.init(comm=0x9000 + log.rank, comm_id=0x99)
        for _ in range(3):
            log.call().call("AllGather", comm=0x9000 + log.rank)
    for log in logs:
        if log.rank == odd:
            log.call("AllGather", comm=0x9000 + log.rank)
        else:
            log.call()
    waits = job_of_ranks(logs).waits
    assert waits.roots == ()
    assert [ranks for _, ranks in waits.cycles] == [(odd,)]


def test_pipeline_waits_lead_to_the_stage_that_stopped() -> None:
    # GIVEN stages 0 > 1 > 2 > 3 in pairs, and stage 2 that never received its second batch
    logs: list[Rank] = ranks(4)
    for left, right in ((0, 1), (1, 2), (2, 3)):
        logs[left].call("Send", root=right)
        logs[right].call("Recv", root=left)
    logs[0].call("Send", root=1)
    logs[1].call("Recv", root=0).call("Send", root=2)
    logs[3].call("Recv", root=2)
    roots = job_of_ranks(logs).waits.roots
    assert {rank for _, ranks in roots for rank in ranks} == {2}
