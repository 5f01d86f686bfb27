"""Only the last attempt of a restarted job is looked at, and the report says that there were others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from diagnose_samples import make_finding
from hangscope.align.job import Job
from hangscope.api import analyze
from hangscope.model import AttemptResult, Finding
from hangscope.report.attempts import describe_attempts
from nccl_logs import Rank, job_of, job_of_ranks, ranks

RESTART = (
    "[2026-03-01 10:00:00,000] torch.distributed.elastic.agent.server.api: [INFO] [default] Worker group FAILED. "
    "2/3 attempts left; will restart worker group"
)
LAST = RESTART.replace("2/3", "0/3")
CUDA = "[rank1]: RuntimeError: CUDA error: device-side assert triggered"


def restarted(job: Job) -> list[str]:
    return [warning for warning in job.warnings if "restarted" in warning]


def error(text: str) -> list[str]:
    return ["Traceback (most recent call last):", '  File "/job/train.py", line 3, in main', f"ValueError: {text}"]


def messages(job: Job) -> list[object]:
    return [event.fields["message"] for event in job.events.of("exception")]


# --- torchrun's folders -----------------------------------------------------------------------------------


def test_last_attempt_folder_is_analyzed_and_the_others_are_named() -> None:
    job = job_of({f"run_1/attempt_{n}/0/stderr.log": error(f"attempt {n}") for n in (0, 1, 10)})
    assert messages(job) == ["attempt 10"]
    assert restarted(job) == ["the job was restarted in run_1: attempt 10 is analyzed, not the earlier 0, 1"]


def test_sources_list_the_files_of_earlier_attempts_too() -> None:
    job = job_of({f"run_1/attempt_{n}/0/stderr.log": error(f"attempt {n}") for n in (0, 1)})
    assert [record.file for record in job.sources] == ["run_1/attempt_0/0/stderr.log", "run_1/attempt_1/0/stderr.log"]


def test_each_host_s_run_has_its_own_last_attempt() -> None:
    files = {"node01/run_a/attempt_0/0/stderr.log": error("a0"), "node01/run_a/attempt_1/0/stderr.log": error("a1")}
    files["node02/run_b/attempt_0/1/stderr.log"] = error("b0")
    assert sorted(str(text) for text in messages(job_of(files))) == ["a1", "b0"]


def test_files_beside_the_attempt_folders_belong_to_every_attempt() -> None:
    job = job_of(
        {
            "run_1/attempt_0/0/stderr.log": error("first"),
            "run_1/attempt_1/0/stderr.log": error("second"),
            "dmesg.log": error("beside"),
        }
    )
    assert sorted(str(text) for text in messages(job)) == ["beside", "second"]


def test_one_attempt_is_no_restart() -> None:
    assert restarted(job_of({"run_1/attempt_0/0/stderr.log": error("only")})) == []


# --- inside one file --------------------------------------------------------------------------------------


def test_what_stands_behind_the_launcher_s_restart_is_analyzed() -> None:
    job = job_of({"job.log": [*error("first"), RESTART, *error("second")]})
    assert messages(job) == ["second"]
    assert len(restarted(job)) == 1


def test_words_repeated_after_the_restart_are_not_lost() -> None:
    # GIVEN a line that both attempts printed word for word
    job = job_of({"job.log": [CUDA, RESTART, "[rank1]: loading", CUDA]})
    assert [event.line.number for event in job.events.of("cuda_device_assert")] == [4]


def test_message_without_attempts_left_is_no_restart() -> None:
    job = job_of({"job.log": [*error("first"), LAST, *error("of the launcher")]})
    assert len(messages(job)) == 2
    assert restarted(job) == []


def test_restart_with_nothing_behind_it_leaves_all_there_is() -> None:
    assert messages(job_of({"job.log": [*error("first"), RESTART]})) == ["first"]


def test_calls_of_the_earlier_attempt_are_not_counted() -> None:
    # GIVEN one stream of two ranks: rank 1 hangs after two calls, then a healthy second attempt
    first, second = ranks(2), ranks(2)
    first[0].call().call().call()
    first[1].call().call()
    for log in second:
        log.pid += 1000
        log.lines = [
            line.replace(f":{log.pid - 1000}:{log.pid - 1000} ", f":{log.pid}:{log.pid} ") for line in log.lines
        ]
        log.call().call()
    job = job_of({"job.log": [*first[0].lines, *first[1].lines, RESTART, *second[0].lines, *second[1].lines]})
    assert job.stuck == ()
    assert sorted(process.pid or 0 for process in job.ranks.values()) == [1100, 1101]
    assert len(job.tables.calls) == 4


def test_rank_that_comes_back_as_another_process_is_a_restart_without_a_launcher_s_word() -> None:
    first, second = Rank(0, 2).init().call(), Rank(0, 2)
    second.pid = 900
    second.init().call().call()
    job = job_of({"job.log": [*first.lines, *second.lines]})
    assert (job.ranks[0].pid, len(job.tables.calls)) == (900, 2)
    assert job.duplicates == {}


def test_logs_one_behind_the_other_in_one_file_are_no_restart() -> None:
    # GIVEN pairs made without a split, so that two processes are rank 0 of 2
    logs = ranks(4)
    for log in logs:
        log.init(comm=0x9000 + log.rank, rank=log.rank % 2, size=2, comm_id=0x50 + log.rank // 2).call()
    job = job_of({"all.log": [line for log in logs for line in log.lines]})
    assert sorted(job.ranks) == [0, 1, 2, 3]
    assert restarted(job) == []


def test_two_processes_that_claim_one_rank_at_the_same_time_are_no_restart() -> None:
    first, second = Rank(0, 2).init(("Init START",)), Rank(0, 2)
    second.pid = 900
    second.init(("Init START",))
    job = job_of({"job.log": [*first.lines, *second.lines, *Rank(0, 2).say("Using network Socket").lines]})
    assert len(job.duplicates[0]) == 2


# --- what earlier attempts left ---------------------------------------------------------------------------

OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has 1.00 GiB free."
SECOND = RESTART.replace("2/3", "1/3")


def parts(job: Job) -> list[tuple[int, list[object]]]:
    """The messages of each earlier attempt."""
    return [
        (attempt.number, [e.fields["message"] for s in attempt.sources for e in s.events if e.kind == "exception"])
        for attempt in job.earlier
    ]


def test_earlier_attempts_are_kept_apart_by_folder() -> None:
    job = job_of({f"run_1/attempt_{n}/0/stderr.log": error(f"attempt {n}") for n in (0, 1, 2)})
    assert parts(job) == [(0, ["attempt 0"]), (1, ["attempt 1"])]


def test_earlier_attempts_are_kept_apart_by_restart_line() -> None:
    job = job_of({"job.log": [*error("first"), RESTART, *error("second"), SECOND, *error("third")]})
    assert parts(job) == [(0, ["first"]), (1, ["second"])]
    assert messages(job) == ["third"]


def test_one_restart_that_two_agents_announce_is_one() -> None:
    job = job_of({"job.log": [*error("first"), RESTART, RESTART, *error("second")]})
    assert parts(job) == [(0, ["first"])]


def test_only_the_latest_of_many_attempts_are_looked_at() -> None:
    job = job_of({f"run_1/attempt_{n}/0/stderr.log": error(str(n)) for n in range(9)})
    assert [number for number, _ in parts(job)] == [5, 6, 7]


def test_attempts_in_one_file_keep_their_numbers() -> None:
    lines = [line for left in range(9, 1, -1) for line in (*error(str(9 - left)), RESTART.replace("2/3", f"{left}/9"))]
    assert parts(job_of({"job.log": [*lines, *error("last")]})) == [(5, ["5"]), (6, ["6"]), (7, ["7"])]


def test_calls_of_an_earlier_attempt_are_its_own() -> None:
    first, second = Rank(0, 2).init().call().call(), Rank(0, 2)
    second.pid = 900
    second.init().call()
    job = job_of({"job.log": [*first.lines, *second.lines]})
    assert [len(source.calls) for attempt in job.earlier for source in attempt.sources] == [2]
    assert len(job.tables.calls) == 1


def test_report_says_how_earlier_attempts_ended(tmp_path: Path) -> None:
    lines = [*error("x"), OOM, RESTART, *error("a rare bug")]
    lines[:3] = [f"[rank1]: {line}" for line in error("x")[:2]]
    (tmp_path / "job.log").write_text("\n".join([*lines, ""]), encoding="utf-8")
    report = analyze(tmp_path, jobs=1)
    assert report.verdict.cause == "python-exception"
    assert [(a.number, a.verdict.cause, a.verdict.ranks) for a in report.attempts] == [(0, "gpu-out-of-memory", (1,))]
    assert "attempt 0, before a restart: Rank 1 ran out of GPU memory (gpu-out-of-memory, high)" in report.warnings


def _finding(cause: str, *hosts: str) -> Finding:
    return replace(make_finding("r", cause, hosts=hosts), title="It broke")


def test_the_same_fault_again_is_said_to_be_the_same() -> None:
    before = [
        AttemptResult(0, _finding("ib-port-down", "node01", "node02")),
        AttemptResult(1, _finding("ib-port-down")),
    ]
    assert list(describe_attempts(before, _finding("ib-port-down", "node02")))[-1] == (
        "every attempt that tells ended with ib-port-down on node02: starting again does not help"
    )
    assert len(list(describe_attempts(before, _finding("disk-full", "node02")))) == 2
    silent = [AttemptResult(0, _finding("insufficient-evidence"))]
    assert list(describe_attempts(silent, _finding("insufficient-evidence"))) == [
        "attempt 0, before a restart: its lines do not show why it ended"
    ]


def test_healthy_job_is_no_restart() -> None:
    assert restarted(job_of_ranks(ranks(4))) == []
