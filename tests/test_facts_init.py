"""Facts about communicators whose init never ended: who came, who did not."""

from __future__ import annotations

from collections.abc import Iterable

from hangscope.facts import init
from hangscope.model import Fact
from nccl_logs import Rank, job_of, job_of_ranks, ranks

BEGUN = ("Init START",)


def only(facts: Iterable[Fact]) -> Fact:
    (fact,) = facts
    return fact


def begun(*numbers: int, world: int = 4) -> list[Rank]:
    return [Rank(rank, world).say("Using network Socket").init(BEGUN) for rank in numbers]


def test_rank_that_never_came_to_the_init_of_the_world_is_named() -> None:
    fact = only(init.find(job_of_ranks(begun(0, 1, 3))))
    assert (fact.kind, fact.ranks, fact.affected) == ("init_rank_absent", (2,), (0, 1, 3))
    assert (fact.fields["absent"], fact.fields["came"], fact.fields["size"]) == ((2,), 3, 4)


def test_host_of_an_absent_rank_is_named_when_its_neighbours_are_of_one_host() -> None:
    logs = [Rank(rank, 8, host=f"node{rank // 4 + 1:02d}").init(BEGUN) for rank in range(8) if rank != 5]
    assert only(init.find(job_of_ranks(logs))).hosts == ("node02",)
    between = [Rank(rank, 8, host=f"node{rank // 4 + 1:02d}").init(BEGUN) for rank in range(8) if rank != 4]
    assert only(init.find(job_of_ranks(between))).hosts == ()


def test_all_came_and_nobody_completed() -> None:
    fact = only(init.find(job_of_ranks(begun(0, 1, 2, 3))))
    assert (fact.kind, fact.ranks, fact.fields["came"]) == ("init_stuck", (), 4)


def test_some_completed_and_one_did_not() -> None:
    logs = [*ranks(4)[:3], *begun(3)]
    fact = only(init.find(job_of_ranks(logs)))
    assert (fact.kind, fact.ranks, fact.affected) == ("init_partly_complete", (3,), (0, 1, 2))
    assert fact.hosts == ("node02",)


def test_absent_rank_of_a_smaller_communicator_is_no_global_rank() -> None:
    # GIVEN nothing but one rank of a pair inside a world of which nobody knows more
    log = Rank(2, 4).say("WORLD_SIZE=4").init(BEGUN, comm=0x9000, rank=0, size=2, comm_id=0x99)
    fact = only(init.find(job_of({"rank2.log": ["RANK=2 WORLD_SIZE=4", *log.lines]})))
    assert (fact.kind, fact.ranks, fact.fields["absent"], fact.affected) == ("init_rank_absent", (), (1,), (2,))


def test_processes_whose_last_word_is_the_network_wait_in_the_bootstrap() -> None:
    # GIVEN 2.18 to 2.22, where START comes after the bootstrap
    logs = [Rank(rank, 4).say("Bootstrap : Using eth0:10.0.0.1<0>").say("Using network Socket") for rank in range(3)]
    fact = only(init.find(job_of_ranks(logs)))
    assert (fact.kind, fact.fields["processes"], fact.hosts) == ("init_silent", 3, ("node01", "node02"))


def test_rank_that_left_other_lines_is_not_absent() -> None:
    # GIVEN rank 2, known by its file's name, whose log ends before START
    files = {f"{log.rank}.log": log.lines for log in begun(0, 1, 3)}
    files["rank2.log"] = Rank(2, 4).say("Bootstrap : Using eth0:10.0.0.1<0>").lines
    assert list(init.find(job_of(files))) == []


def test_process_of_unknown_rank_may_be_the_missing_one() -> None:
    logs = [*begun(0, 1, 3), Rank(2, 4).say("Bootstrap : Using eth0:10.0.0.1<0>")]
    assert list(init.find(job_of_ranks(logs))) == []


def test_split_that_a_present_rank_has_not_entered_yet_names_nobody_absent() -> None:
    logs = ranks(4)
    logs[2].init(BEGUN, comm=0x9000, rank=0, size=2, comm_id=0x99)
    assert list(init.find(job_of_ranks(logs))) == []


def test_completed_init_gives_no_fact() -> None:
    assert list(init.find(job_of_ranks(ranks(4)))) == []


def test_log_without_nccl_gives_no_fact() -> None:
    assert list(init.find(job_of({"a.log": ["loss 0.3", "loss 0.2"]}))) == []
