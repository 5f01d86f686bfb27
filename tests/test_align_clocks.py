"""Clocks of hosts: what bounds their difference, when it is corrected, and when nothing may be said."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from hangscope.align.clocks import UNKNOWN_S, Bound, Clocks, Moment, compare_clocks, describe, zone_of
from hangscope.align.job import Job
from hangscope.align.years import nearest_year
from hangscope.report.times import iso_time
from nccl_logs import Rank, job_of

DAY = "2026-03-01"
AGENT = "torch.distributed.elastic.agent.server.api"
HOUR = 3600.0
NODE01 = "its times are given as on node01"
BY_INIT = "(by the end of the init of world)"
NUMBERS = "Last enqueued NCCL work: 12, last completed NCCL work: 11.This is most likely caused by incorrect usages"


def clock(seconds: float) -> str:
    """A time of that day, so many seconds after ten."""
    whole = 36_000 + seconds
    return f"{int(whole // 3600) % 24:02d}:{int(whole // 60) % 60:02d}:{whole % 60:06.3f}"


def rank_log(rank: int, world: int, at: float, *, extra: Iterable[tuple[float, str]] = ()) -> list[str]:
    """A rank's init, completed so many seconds after ten by its host's clock, and further lines."""
    log = Rank(rank, world).init()
    timed = [(at - 0.4, log.lines[0]), (at, log.lines[1])]
    timed += [(when, f"{log.host}:{log.pid}:{log.pid} [{rank % 2}] {text}") for when, text in extra]
    return [f"[{DAY} {clock(when)}] {line}" for when, line in timed]


def two_hosts(ahead_s: float, **extra: Iterable[tuple[float, str]]) -> Job:
    """Four ranks; the clock of node02 (ranks 2 and 3) is so many seconds ahead."""
    files = {
        f"rank{rank}.log": rank_log(
            rank, 4, 5 + 0.01 * rank + (ahead_s if rank > 1 else 0), extra=extra.get(f"r{rank}", ())
        )
        for rank in range(4)
    }
    return job_of(files)


def about_clocks(job: Job) -> list[str]:
    return [warning for warning in job.warnings if "clock" in warning or "zone" in warning]


# --- jobs -------------------------------------------------------------------------------------------------


def test_a_clock_that_is_ahead_is_named_and_corrected() -> None:
    # GIVEN rank 2 on node02, whose clock is 37 s ahead, printing its last words before rank 0 does, by true time
    job = two_hosts(
        37, r2=[(57, "NCCL WARN Call to bind failed: nobody")], r0=[(30, "NCCL WARN Call to bind failed: x")]
    )
    # THEN the difference is told, with its uncertainty and what it is known by
    assert about_clocks(job) == [
        f"the clock of node02 is about 37 s ahead of node01, give or take 3 s {BY_INIT}; {NODE01}"
    ]
    # AND times of both hosts compare
    ready = {event.rank: event.time for event in job.events.of("comm_init_complete")}
    assert max(map(float, filter(None, ready.values()))) - min(map(float, filter(None, ready.values()))) < 1
    assert iso_time(job.ranks[2].last_time) == "2026-03-01T10:00:19.980"
    assert iso_time(job.ranks[0].last_time) == "2026-03-01T10:00:30"


@pytest.mark.parametrize("ahead_s", [0.0, 0.8, -1.5, 3.5])
def test_small_differences_are_no_clock_faults(ahead_s: float) -> None:
    job = two_hosts(ahead_s)
    assert about_clocks(job) == []
    assert iso_time(job.ranks[2].last_time) == iso_time(5 + 0.02 + ahead_s + 1_772_359_200)


def test_another_time_zone_is_told_apart_from_a_wrong_clock() -> None:
    job = two_hosts(-2 * HOUR)
    assert about_clocks(job) == [
        f"node02 writes times of another time zone, 2 h behind node01 {BY_INIT}; their times are given as on node01"
    ]
    assert job.clocks.offsets["node02"].skew_s == 0
    assert iso_time(job.ranks[3].last_time) == "2026-03-01T10:00:05.030"


def test_another_zone_and_a_wrong_clock_together() -> None:
    job = two_hosts(5.5 * HOUR + 21)
    offset = job.clocks.offsets["node02"]
    assert (offset.zone_s, round(offset.skew_s)) == (5.5 * HOUR, 21)
    assert len(about_clocks(job)) == 2
    assert iso_time(job.ranks[3].last_time) == "2026-03-01T10:00:05.010"


def test_without_anything_to_compare_by_nothing_is_said() -> None:
    # GIVEN two hosts whose lines are an hour apart, and no line that must be of one moment
    files = {f"rank{r}.log": rank_log(r, 4, 5 + (3600 if r > 1 else 0))[:1] for r in range(4)}
    job = job_of(files)
    assert about_clocks(job) == []
    assert job.clocks == Clocks()


def test_lines_without_times_say_nothing() -> None:
    assert job_of({f"rank{r}.log": Rank(r, 4).init().lines for r in range(4)}).clocks == Clocks()


def test_call_times_are_corrected_too() -> None:
    call = (
        "NCCL INFO AllReduce: opCount 0 sendbuff 0x7f02 recvbuff 0x7f03 count 8 datatype 7 op 0 root 0 "
        "comm 0x{:x} [nranks=4] stream 0x55"
    )
    extra = {f"r{r}": [(50.0 if r < 2 else 90.0, call.format(Rank(r, 4).comm))] for r in range(4)}
    job = two_hosts(40, **extra)
    times = job.tables.calls["time"]
    assert len(times) == 4
    assert times.max() - times.min() < 0.1


def agent(at: float) -> list[str]:
    ready, failed = (f"[{DAY} {clock(when).replace('.', ',')}] {AGENT}:" for when in (at, at + 60))
    return [
        f"{ready} [INFO] [default] Rendezvous complete for workers. Result:",
        f"{failed} [ERROR] failed (exitcode: -9) local_rank: 0 (pid: 77) of binary: /usr/bin/python3",
    ]


def test_agents_of_torchrun_meet_at_the_rendezvous() -> None:
    job = job_of({"node01/agent.log": agent(1), "node02/agent.log": agent(62)})
    (warning,) = about_clocks(job)
    assert warning.startswith(
        "the clock of node02 is about 61 s ahead of node01, give or take 5 s (by the end of torchrun"
    )


def c10(rank: int, at: float) -> str:
    return f"[rank{rank}]:[E301 {clock(at)}000000 ProcessGroupNCCL.cpp:607]"


def watchdog(rank: int, at: float, ran_ms: int = 600_010) -> str:
    work = "WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000)"
    return (
        f"{c10(rank, at)} [Rank {rank}] Watchdog caught collective operation timeout: "
        f"{work} ran for {ran_ms} milliseconds before timing out."
    )


def test_timeouts_of_one_call_tell_zones_and_nothing_less() -> None:
    files = {"node01/rank0.log": [watchdog(0, 0)], "node02/rank1.log": [watchdog(1, 240)]}
    assert about_clocks(job_of(files)) == []
    files["node02/rank1.log"] = [watchdog(1, 3 * HOUR + 12)]
    (warning,) = about_clocks(job_of(files))
    assert warning.startswith("node02 writes times of another time zone, 3 h ahead of node01")


def signal(rank: int, at: float, sender: int | None = None) -> str:
    who = f" rank {sender}" if sender is not None else "this local rank"
    return (
        f"{c10(rank, at)} [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective "
        f"timeout from {who} and we will try our best to dump the debug info. {NUMBERS}"
    )


def test_a_dump_signal_and_its_answer_are_some_seconds_apart() -> None:
    files = {"node01/rank0.log": [signal(0, 10)], "node02/rank1.log": [signal(1, 12, 0)]}
    assert about_clocks(job_of(files)) == []
    files["node02/rank1.log"] = [signal(1, 10 - 90, 0)]
    (warning,) = about_clocks(job_of(files))
    assert warning.startswith(
        "the clock of node02 is about 94 s behind node01, give or take 6 s (by the dump signal of rank 0)"
    )


def test_a_kernel_log_of_another_zone_is_moved_to_the_zone_of_the_job() -> None:
    killed = "Killed process 77 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB"
    kernel = [f"[Sun Mar  1 18:01:01 2026] Out of memory: {killed}"]
    job = job_of({"node01/agent.log": agent(1), "node01/dmesg.log": kernel})
    assert about_clocks(job) == [
        (
            "the kernel log of node01 is written in another time zone, 8 h ahead of the job's logs; "
            "its times are given as in these"
        )
    ]
    assert [iso_time(event.time) for event in job.events.of("oom_killed")] == ["2026-03-01T10:01:01"]


def test_an_agent_whose_host_nobody_knows_is_compared_by_the_pid() -> None:
    killed = "Out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB"
    kernel = [f"[Sun Mar  1 18:01:01 2026] {killed}"]
    assert job_of({"launch.log": agent(1), "node01/dmesg.log": kernel}).clocks.kernel_zones == {"node01": 8 * HOUR}
    # two hosts that killed the same pid cannot be told apart
    both = {"launch.log": agent(1), "node01/dmesg.log": kernel, "node02/dmesg.log": kernel}
    assert job_of(both).clocks.kernel_zones == {}


# --- arithmetic -------------------------------------------------------------------------------------------


def test_of_many_hosts_the_one_that_disagrees_is_off() -> None:
    times = {f"node{number:02d}": 100.0 + number / 10 for number in range(1, 9)} | {"node01": 160.0}
    clocks = compare_clocks([Moment(times, 3.0, "x")], [], "node01")
    assert [(offset.host, round(offset.skew_s)) for offset in clocks.corrected] == [("node01", 60)]


def test_of_two_hosts_that_of_rank_0_is_right() -> None:
    moment = Moment({"a": 10.0, "b": 50.0}, 3.0, "x")
    assert [o.host for o in compare_clocks([moment], [], "b").corrected] == ["a"]
    assert [o.host for o in compare_clocks([moment], [], None).corrected] == ["b"]


def test_moments_that_contradict_each_other_say_nothing() -> None:
    moments = [Moment({"a": 10.0, "b": at}, 3.0, "x") for at in (50.0, 90.0)]
    assert compare_clocks(moments, []).corrected == ()
    # two of three agree
    assert len(compare_clocks([*moments, Moment({"a": 10.0, "b": 51.0}, 3.0, "x")], []).corrected) == 1


def test_more_moments_leave_less_doubt() -> None:
    one, other = Moment({"a": 0.0, "b": 40.0}, 3.0, "x"), Moment({"a": 9.0, "b": 45.0}, 3.0, "y")
    offset = compare_clocks([one, other], []).offsets["b"]
    assert (offset.skew_s, offset.uncertainty_s) == (38.0, 1.0)


def test_logs_of_another_day_are_no_other_clock() -> None:
    moment = Moment({"a": 0.0, "b": 30 * HOUR}, 3.0, "x")
    assert compare_clocks([moment], [Bound("b", "a", 30 * HOUR, 31 * HOUR, "y")]).corrected == ()


def test_hosts_are_compared_through_others() -> None:
    bounds = [Bound("b", "a", 20, 24, "x"), Bound("c", "b", -4, 0, "y")]
    offsets = compare_clocks([], bounds, "a").offsets
    assert (offsets["c"].skew_s, offsets["c"].uncertainty_s) == (20.0, 4.0)


@pytest.mark.parametrize(
    ("least", "most", "zone"),
    [
        (-3, 3, 0.0),
        (3597, 3603, HOUR),
        (3637, 3643, HOUR),
        (-19803, -19797, -5.5 * HOUR),
        (2397, 2403, 0.0),  # 40 minutes are no zone
        (3000, 4200, HOUR),
        (-600, 600, 0.0),
        (1500, 2700, 0.0),  # no whole hour in it
        (0, 7200, 0.0),  # too wide to tell
    ],
)
def test_zone_of_an_interval(least: float, most: float, zone: float) -> None:
    assert zone_of(least, most) == zone


def test_uncertainty_between_hosts() -> None:
    clocks = compare_clocks(
        [Moment({"a": 0.0, "b": 40.0, "c": 1.0}, 3.0, "x"), Moment({"a": 0.0, "d": 90.0}, 8.0, "y")], []
    )
    assert clocks.uncertainty_s(["a"], ["a"]) == 0
    assert clocks.uncertainty_s(["a"], ["c"]) == UNKNOWN_S
    assert clocks.uncertainty_s(["a"], ["b"]) == UNKNOWN_S
    assert clocks.uncertainty_s(["b"], ["d"]) == 11.0
    assert Clocks().uncertainty_s(["x"], ["y"]) == UNKNOWN_S
    assert Clocks().shift_s("x") == 0


def test_many_hosts_of_one_zone_are_one_warning() -> None:
    times = {f"node{number:02d}": 100.0 + (HOUR if number > 6 else 0) for number in range(1, 13)}
    warnings = list(describe(compare_clocks([Moment(times, 3.0, "x")], [], "node01")))
    assert warnings == [
        (
            "node07, node08, node09, node10 and 2 more hosts write times of another time zone, 1 h ahead of node01 "
            "(by x); their times are given as on node01"
        )
    ]


# --- years ------------------------------------------------------------------------------------------------


def test_lines_without_a_year_get_that_of_the_other_files() -> None:
    job = job_of({"node01/rank0.log": [watchdog(0, 700)], "node02/agent.log": agent(10)})
    assert [iso_time(event.time) for event in job.events.of("watchdog_timeout")] == ["2026-03-01T10:11:40"]
    assert iso_time(job.ranks[0].last_time) == "2026-03-01T10:11:40"
    assert not [warning for warning in job.warnings if "year" in warning]


def test_without_any_year_the_reference_year_stays() -> None:
    job = job_of({"node01/rank0.log": [watchdog(0, 700)]})
    assert iso_time(job.ranks[0].last_time) == "2000-03-01T10:11:40"


@pytest.mark.parametrize(
    ("time", "middle", "expected"),
    [
        ("2000-12-31T23:59:50", "2026-01-01T00:10:00", "2025-12-31T23:59:50"),
        ("2000-01-01T00:00:10", "2025-12-31T23:00:00", "2026-01-01T00:00:10"),
        ("2000-02-29T08:00:00", "2026-03-01T00:00:00", "2026-02-28T08:00:00"),
        ("2000-02-29T08:00:00", "2028-02-29T09:00:00", "2028-02-29T08:00:00"),
        ("2025-05-01T08:00:00", "2026-03-01T00:00:00", "2025-05-01T08:00:00"),
    ],
)
def test_nearest_year(time: str, middle: str, expected: str) -> None:
    one, other = (datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in (time, middle))
    assert iso_time(nearest_year(one, other)) == expected


@pytest.mark.parametrize(("last", "said"), [("1115 23:42:37", False), ("1117 10:42:37", True)])
def test_a_missing_year_limits_the_answer_only_where_days_are_compared(last: str, said: bool) -> None:
    lines = [f"[rank0]:[W{stamp}.768057301 ProcessGroupNCCL.cpp:1936] hello" for stamp in ("1115 16:42:37", last)]
    assert any("name no year" in warning for warning in job_of({"a.log": lines}).warnings) is said
