"""Facts about jobs that ended well or run, and how much of a job the evidence covers."""

from __future__ import annotations

import dataclasses

from hangscope.align.job import Job, align
from hangscope.facts import endings
from hangscope.facts.coverage import coverage
from nccl_logs import job_of, job_of_ranks, parse, ranks


def kinds(job: Job) -> list[str]:
    return [fact.kind for fact in endings.find(job)]


def test_every_rank_destroyed_its_communicator() -> None:
    (fact,) = endings.find(job_of_ranks([log.call().end() for log in ranks(4)]))
    assert (fact.kind, fact.fields["ended"], fact.fields["size"]) == ("job_ended_well", 4, 4)
    assert fact.evidence[0].why == "the communicator ended in order"


def test_every_rank_completed_and_calls_alike() -> None:
    (fact,) = endings.find(job_of_ranks([log.call() for log in ranks(4)]))
    assert (fact.kind, fact.fields["ranks_ready"]) == ("job_runs_well", 4)


def test_ranks_of_two_communicators_of_all_count_once() -> None:
    logs = ranks(4)
    for log in logs:
        log.init(comm=0x9000, comm_id=0x77).call().call(comm=0x9000)
    (fact,) = endings.find(job_of_ranks(logs))
    assert (fact.kind, fact.fields["ranks_ready"]) == ("job_runs_well", 4)


def test_abort_is_no_good_end() -> None:
    assert "job_ended_well" not in kinds(job_of_ranks([log.end("Abort") for log in ranks(4)]))


def test_rank_that_did_not_destroy_the_communicator_others_did() -> None:
    logs = ranks(4)
    for log in logs:
        log.call()
        if log.rank != 3:
            log.end()
    (fact,) = endings.find(job_of_ranks(logs))
    assert (fact.kind, fact.ranks, fact.affected) == ("teardown_incomplete", (3,), (0, 1, 2))


def test_rank_whose_last_lines_are_lost_is_not_accused_of_its_teardown() -> None:
    sources = []
    for log in ranks(4):
        log.call()
        if log.rank != 3:
            log.end()
        sources.append(dataclasses.replace(parse(log.lines, f"{log.rank}.txt"), block_buffered=log.rank == 3))
    assert kinds(align(sources)) == ["job_runs_well"]


def test_stuck_job_is_not_called_well() -> None:
    logs = [log.call() for log in ranks(4)]
    logs[0].call()
    assert kinds(job_of_ranks(logs)) == []


def test_job_with_a_silent_rank_is_not_called_well() -> None:
    assert "job_runs_well" not in kinds(job_of_ranks(ranks(8)[:7]))


def test_ranks_without_evidence_are_counted_below_three_quarters_only() -> None:
    (fact,) = endings.find(job_of_ranks(ranks(8)[:5]))
    assert (fact.kind, fact.fields["size"], fact.affected) == ("ranks_without_evidence", 8, (5, 6, 7))
    assert kinds(job_of_ranks(ranks(8)[:6])) == []


def test_program_s_own_last_words_count_when_every_rank_says_them() -> None:
    words = "training has finished"
    assert kinds(job_of({f"rank{r}.log": [words] for r in range(2)})) == ["job_said_done"]
    assert kinds(job_of({"rank0.log": [words], "rank1.log": ["loss 0.3"]})) == []


def test_coverage_is_the_share_of_ranks_with_lines() -> None:
    assert coverage(job_of_ranks(ranks(4))) == 1.0
    assert coverage(job_of_ranks(ranks(8)[:2])) == 0.25
    assert coverage(job_of({"a.log": ["loss"]})) == 1.0, "nobody says how many there are"
    assert coverage(job_of({"a.log": ["WORLD_SIZE=8"], "b.log": ["x"]})) >= 0.5


def test_lines_in_turned_order_accuse_nobody() -> None:
    # GIVEN an export with the newest line first: each process seems to end one communicator and to begin another
    logs = {f"{log.rank}.log": log.call().end().lines[::-1] for log in ranks(2)}
    assert "teardown_incomplete" not in kinds(job_of(logs))
