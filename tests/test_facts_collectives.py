"""Facts about calls that cannot complete, and about ranks that are gone: what they name, and what they leave alone."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hangscope.align.job import Job
from hangscope.facts import collectives, vanished
from hangscope.model import Fact
from nccl_logs import Rank, job_of_ranks, ranks

LOST = "socketProgress: Connection closed by remote peer node02<40123>"


def only(facts: Iterable[Fact], kind: str) -> Fact:
    found = [fact for fact in facts if fact.kind == kind]
    assert len(found) == 1, found
    return found[0]


def kinds(job: Job) -> list[str]:
    return [fact.kind for module in (collectives, vanished) for fact in module.find(job)]


def running(world: int, calls: int = 4) -> list[Rank]:
    """Ranks that completed the init and made some calls."""
    logs = ranks(world)
    for log in logs:
        for number in range(calls):
            log.call("AllReduce", 100 + number)
    return logs


# --- calls ------------------------------------------------------------------------------------------------


def test_missing_rank_is_named_with_its_host_and_those_who_wait() -> None:
    logs = running(4)
    for rank in (0, 1, 3):
        logs[rank].call("AllGather", 7)
    fact = only(collectives.find(job_of_ranks(logs)), "call_missing")
    assert (fact.ranks, fact.hosts, fact.affected, fact.group) == ((2,), ("node02",), (0, 1, 3), "world")
    assert (fact.fields["seq"], fact.fields["op"]) == (4, "all_gather")
    assert (fact.fields["arrived"], fact.fields["missing"]) == ((0, 1, 3), (2,))


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        ([("AllGather", 8), ("Reduce", 9)], "call_skipped"),
        ([("AllReduce", 7), ("AllReduce", 99), ("AllGather", 8), ("Reduce", 9)], "call_extra"),
        ([("Broadcast", 7), ("AllGather", 8), ("Reduce", 9)], "call_op_differs"),
        ([("AllReduce", 70), ("AllGather", 8), ("Reduce", 9)], "call_size_differs"),
    ],
)
def test_difference_is_a_fact_of_its_own_kind(odd: list[tuple[str, int]], kind: str) -> None:
    logs = running(4)
    for log in logs:
        for op, count in odd if log.rank == 3 else [("AllReduce", 7), ("AllGather", 8), ("Reduce", 9)]:
            log.call(op, count)
    job = job_of_ranks(logs)
    assert kinds(job) == [kind]
    assert only(collectives.find(job), kind).ranks == (3,)


def test_groups_entered_crosswise_are_one_cycle_and_no_missing_call() -> None:
    logs = ranks(4)
    for log in logs:
        log.init(comm=0x9000 + log.rank, comm_id=0x99)
        log.call(comm=0x9000 + log.rank if log.rank == 2 else 0)
    job = job_of_ranks(logs)
    assert kinds(job) == ["wait_cycle"]
    fact = only(collectives.find(job), "wait_cycle")
    assert (fact.ranks, fact.affected, fact.fields["size"]) == ((2,), (0, 1, 3), 2)
    assert len(fact.evidence) >= 2


def test_two_ranks_that_both_send_first_are_one_unmatched_pair() -> None:
    logs = ranks(2)
    logs[0].call("Send", root=1)
    logs[1].call("Send", root=0)
    job = job_of_ranks(logs)
    assert set(kinds(job)) == {"p2p_call_unmatched"}
    assert {fact.ranks for fact in collectives.find(job)} == {(0, 1)}


def test_job_of_equal_calls_gives_no_fact() -> None:
    assert kinds(job_of_ranks(running(4))) == []


def test_job_without_call_lines_gives_no_fact() -> None:
    assert kinds(job_of_ranks(ranks(4))) == []


# --- ranks that are gone ----------------------------------------------------------------------------------


def test_rank_that_fell_silent_while_peers_lost_it_has_vanished() -> None:
    logs = running(4)
    for rank in (0, 1, 3):
        logs[rank].call("AllGather", 7)
    logs[3].say(LOST, warn="misc/socket.cc:483")
    fact = only(vanished.find(job_of_ranks(logs)), "rank_vanished")
    assert (fact.ranks, fact.hosts, fact.fields["witnesses"]) == ((2,), ("node02",), (3,))


def test_rank_that_is_behind_without_any_lost_connection_has_not_vanished() -> None:
    logs = running(4)
    for rank in (0, 1, 3):
        logs[rank].call("AllGather", 7)
    assert list(vanished.find(job_of_ranks(logs))) == []


def test_rank_that_is_behind_and_lost_a_peer_itself_is_a_witness() -> None:
    logs = running(4)
    for rank in (0, 1):
        logs[rank].call("AllGather", 7)
    logs[3].say(LOST, warn="misc/socket.cc:483")
    assert only(vanished.find(job_of_ranks(logs)), "rank_vanished").ranks == (2,)


def test_rank_that_said_why_it_ended_has_not_vanished() -> None:
    logs = running(4)
    for rank in (0, 1, 3):
        logs[rank].call("AllGather", 7)
    logs[3].say(LOST, warn="misc/socket.cc:483")
    logs[2].lines += ["Traceback (most recent call last):", '  File "/job/t.py", line 3, in f', "ValueError: bad batch"]
    assert not [fact for fact in vanished.find(job_of_ranks(logs)) if fact.kind == "rank_vanished"]


def test_all_ranks_of_one_host_gone_is_a_host_gone() -> None:
    logs = running(6)
    for rank in (0, 1, 4, 5):
        logs[rank].call("AllGather", 7)
    logs[4].say(LOST, warn="misc/socket.cc:483")
    fact = only(vanished.find(job_of_ranks(logs)), "host_vanished")
    assert (fact.hosts, fact.ranks, fact.affected) == (("node02",), (2, 3), (0, 1, 4, 5))


def test_some_ranks_of_a_host_gone_is_no_host_gone() -> None:
    logs = running(6)
    for rank in (0, 1, 3, 4, 5):
        logs[rank].call("AllGather", 7)
    logs[4].say(LOST, warn="misc/socket.cc:483")
    assert "host_vanished" not in kinds(job_of_ranks(logs))


def test_rank_that_aborted_before_it_lost_anybody_left_by_itself() -> None:
    logs = running(4)
    for rank in (0, 1, 3):
        logs[rank].call("AllGather", 7)
    logs[2].end("Abort")
    fact = only(vanished.find(job_of_ranks(logs)), "rank_aborted")
    assert (fact.ranks, fact.affected) == ((2,), (0, 1, 3))


def test_rank_that_aborted_after_it_lost_a_peer_is_a_victim() -> None:
    logs = running(4)
    for rank in (0, 1):
        logs[rank].call("AllGather", 7)
    logs[3].say(LOST, warn="misc/socket.cc:483").end("Abort")
    assert "rank_aborted" not in kinds(job_of_ranks(logs))
