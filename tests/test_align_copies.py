"""Second copies of a file count for nothing, and files that are only alike are no copies."""

from __future__ import annotations

from hangscope.align.job import Job
from nccl_logs import Rank, job_of, ranks


def left_out(job: Job) -> list[str]:
    return [warning for warning in job.warnings if "copy" in warning]


def test_copy_of_a_rank_s_log_adds_no_calls() -> None:
    logs = {f"{log.rank}.log": log.call().call().lines for log in ranks(2)}
    job = job_of({**logs, "backup/1.log": logs["1.log"]})
    assert job.stuck == () and len(job.tables.calls) == 4
    assert left_out(job) == ["backup/1.log is left out: it is a copy of 1.log"]
    assert [record.file for record in job.sources] == ["0.log", "1.log", "backup/1.log"]


def test_copy_of_a_file_without_pids_is_known_by_its_times() -> None:
    stamp = (
        "[W1129 16:07:06.927000449 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3"
    )
    lines = ["RANK=0 WORLD_SIZE=2", stamp]
    job = job_of({"a.log": lines, "b.log": lines})
    assert left_out(job) == ["b.log is left out: it is a copy of a.log"]
    assert job.duplicates == {}
    # AND names that speak of two hosts outweigh the times
    assert left_out(job_of({"node01.log": lines, "node02.log": lines})) == []


def test_file_that_goes_on_is_no_copy() -> None:
    log = Rank(0, 2).init().call()
    first = list(log.lines)
    job = job_of({"a.log": first, "b.log": [*first, "more"]})
    assert left_out(job) == []


def test_equal_words_of_two_ranks_are_no_copies() -> None:
    job = job_of({f"rank{rank}.log": ["ValueError: no such batch"] for rank in range(2)})
    assert left_out(job) == []
    assert sorted(job.ranks) == [0, 1]


def test_equal_calls_of_two_ranks_are_no_copies() -> None:
    logs = {f"{log.rank}.log": log.call().lines for log in ranks(2)}
    assert left_out(job_of(logs)) == []
