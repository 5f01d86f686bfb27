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


def test_who_has_begun_after_the_bootstrap_proves_that_all_ranks_came() -> None:
    text = (
        "node01:7:7 [0] NCCL INFO comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1c000 commId 0x65 - Init START\n"
    )
    kinds = {fact.kind for fact in init.find(job_of({"job.log": text}))}
    assert "init_stuck" in kinds
    assert "init_rank_absent" not in kinds


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
    partly, behind = init.find(job_of_ranks(logs))
    assert (partly.kind, partly.ranks, partly.affected) == ("init_partly_complete", (3,), (0, 1, 2))
    assert partly.hosts == ("node02",)
    assert (behind.kind, behind.ranks, behind.fields["reached"]) == ("init_rank_behind", (3,), "Init COMPLETE")


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
    fact = only(init.find(job_of(files)))
    assert (fact.kind, fact.ranks, fact.fields["stage"]) == ("init_rank_behind", (2,), "NCCL loaded")


def test_process_of_unknown_rank_may_be_the_missing_one() -> None:
    logs = [*begun(0, 1, 3), Rank(2, 4).say("Bootstrap : Using eth0:10.0.0.1<0>")]
    fact = only(init.find(job_of_ranks(logs)))
    assert (fact.kind, fact.ranks) == ("init_rank_behind", (2,))


def test_of_two_processes_of_unknown_rank_none_is_named() -> None:
    logs = [*begun(0, 1), *(Rank(rank, 4).say("Bootstrap : Using eth0:10.0.0.1<0>") for rank in (2, 3))]
    assert list(init.find(job_of_ranks(logs))) == []


def test_split_that_a_present_rank_has_not_entered_yet_names_nobody_absent() -> None:
    logs = ranks(4)
    logs[2].init(BEGUN, comm=0x9000, rank=0, size=2, comm_id=0x99)
    assert list(init.find(job_of_ranks(logs))) == []


def test_completed_init_gives_no_fact() -> None:
    assert list(init.find(job_of_ranks(ranks(4)))) == []


def test_log_without_nccl_gives_no_fact() -> None:
    assert list(init.find(job_of({"a.log": ["loss 0.3", "loss 0.2"]}))) == []


BOOTSTRAPPED = "Bootstrap timings total 0.021 (create 0.000, send 0.001, recv 0.012, ring 0.003, delay 0.000)"
LAYOUT = "comm 0x7f10 rank {} nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0"
EDGE = "Channel 00/0 : {}[0] -> {}[0] via P2P/CUMEM"


def at_layout(*numbers: int) -> list[Rank]:
    return [log.say(BOOTSTRAPPED).say(LAYOUT.format(log.rank)) for log in begun(*numbers)]


def behind_in(logs: list[Rank]) -> list[Fact]:
    return [fact for fact in init.find(job_of_ranks(logs)) if fact.kind == "init_rank_behind"]


def test_the_one_rank_that_came_less_far_is_behind() -> None:
    (late,) = begun(3)
    fact = only(behind_in([*at_layout(0, 1, 2), late.say(BOOTSTRAPPED)]))
    assert (fact.ranks, fact.hosts, fact.affected) == ((3,), ("node02",), (0, 1, 2))
    assert (fact.fields["stage"], fact.fields["reached"]) == ("bootstrap done", "rings and trees laid out")
    assert "bootstrap done" not in str(fact.fields["waiting_for"])


def test_two_ranks_of_different_hosts_are_not_behind_together() -> None:
    assert behind_in([*at_layout(0, 2), *begun(1, 3)]) == []


def test_the_host_that_came_less_far_than_two_others_is_behind() -> None:
    logs = [*at_layout(0, 1, 2, 3), *(Rank(rank, 6).init(BEGUN) for rank in (4, 5))]
    assert only(behind_in(logs)).ranks == (4, 5)
    assert behind_in([*at_layout(0, 1), *begun(2, 3)]) == []


def test_who_lays_out_while_others_connect_is_not_behind() -> None:
    # GIVEN ranks that are all joining their neighbours, of whom one has printed no edge yet
    logs = at_layout(0, 1, 2, 3)
    for log in logs[:3]:
        log.say(EDGE.format(log.rank, (log.rank + 1) % 4))
    assert behind_in(logs) == []


def test_all_at_one_step_say_what_they_wait_for() -> None:
    fact = only(init.find(job_of_ranks([log.say(BOOTSTRAPPED) for log in begun(0, 1, 2, 3)])))
    assert (fact.kind, fact.fields["stage"]) == ("init_stuck", '"bootstrap done"')
    assert "all-gather" in str(fact.fields["waiting_for"])


def test_start_comes_after_the_bootstrap_up_to_2_22() -> None:
    logs = begun(0, 1, 2, 3)
    for log in logs:
        log.lines.insert(0, f"{log.host}:{log.pid}:{log.pid} [0] NCCL INFO NCCL version 2.22.3+cuda12.5")
    assert only(init.find(job_of_ranks(logs))).fields["stage"] == '"bootstrap done"'


def test_host_that_has_no_affinity_to_set_is_not_behind() -> None:
    logs = [log.say(BOOTSTRAPPED) for log in (Rank(rank, 6).init(BEGUN) for rank in range(6))]
    for log in logs[:4]:
        log.say("Setting affinity for GPU 0 to 0-1")
    assert behind_in(logs) == []
    logs[4].say("Setting affinity for GPU 0 to 0-1")
    assert only(behind_in(logs)).ranks == (5,)
