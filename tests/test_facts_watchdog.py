"""Watchdogs, fingerprints and waits of several ranks, compared: who is behind, ahead, silent, different or at work."""

from __future__ import annotations

import io

import pytest

from hangscope.align.job import Job, align
from hangscope.facts import checks, waiting, watchdog
from hangscope.facts.collect import collect_facts
from hangscope.facts.progress import group_progress
from hangscope.facts.watchdog import odd_ones_out
from hangscope.model import Fact
from hangscope.parse.reader import read_stream

DEFAULT = "PG ID 0 PG GUID 0(default_pg)"


def job_of(**files: str | list[str]) -> Job:
    """A job of these files ("job" becomes job.log); a list is joined to lines."""
    texts = {name: text if isinstance(text, str) else "\n".join(text) + "\n" for name, text in files.items()}
    return align([read_stream(f"{name}.log", io.BytesIO(text.encode())) for name, text in texts.items()])


def timed_out(rank: int, seq: int, op: str = "ALLREDUCE", size: int = 1, limit: int = 600_000) -> str:
    work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={size}, NumelOut={size}, Timeout(ms)={limit})"
    return (
        f"[rank{rank}]:[E1129 10:00:00.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
        f"Watchdog caught collective operation timeout: {work} ran for {limit + 45} milliseconds before timing out."
    )


def dump_signal(rank: int, last: int, done: int, origin: str = "this local rank") -> str:
    return (
        f"[rank{rank}]:[E1129 10:00:01.123456789 ProcessGroupNCCL.cpp:1987] [{DEFAULT} Rank {rank}] "
        f"Received a dump signal due to a collective timeout from {origin} and we will try our best to dump the "
        f"debug info. Last enqueued NCCL work: {last}, last completed NCCL work: {done}.This is most likely"
    )


def only(facts: list[Fact], kind: str) -> Fact:
    found = [fact for fact in facts if fact.kind == kind]
    assert len(found) == 1, [fact.kind for fact in facts]
    return found[0]


def test_the_rank_whose_last_call_is_below_its_peers_never_made_the_call() -> None:
    lines = [*(timed_out(rank, 19) for rank in (0, 1, 3)), dump_signal(2, 18, 18, " rank 0")]
    fact = only(list(watchdog.find(job_of(job=lines))), "watchdog_rank_behind")
    assert (fact.ranks, fact.affected, fact.fields["seq"]) == ((2,), (0, 1, 3), 19)


def test_one_rank_far_in_front_of_idle_peers_is_to_blame_not_they() -> None:
    lines = [dump_signal(7, 56390, 56389), *(dump_signal(r, 56116, 56116, " rank 7") for r in (0, 3, 5))]
    fact = only(list(watchdog.find(job_of(job=lines))), "watchdog_rank_ahead")
    assert fact.ranks == (7,)


def test_a_rank_that_prints_nothing_is_silent_only_where_its_log_is_there() -> None:
    waiting_ranks = {f"rank{rank}": [timed_out(rank, 19)] for rank in (0, 1, 3)}
    shown = job_of(**waiting_ranks, rank2="step 18 done\n")
    assert only(list(watchdog.find(shown)), "watchdog_rank_silent").ranks == (2,)
    # GIVEN no log of rank 2, THEN nothing can be said of it
    assert not list(watchdog.find(job_of(**waiting_ranks)))


@pytest.mark.parametrize(
    ("second", "kind", "ranks"),
    [
        (timed_out(1, 80, "ALLGATHER"), "watchdog_op_mismatch", (0,)),
        (timed_out(1, 80, "BROADCAST", size=9), "watchdog_size_mismatch", (1,)),
    ],
)
def test_two_ranks_that_disagree_at_one_number(second: str, kind: str, ranks: tuple[int, ...]) -> None:
    fact = only(list(watchdog.find(job_of(job=[timed_out(0, 80, "BROADCAST"), second]))), kind)
    assert (fact.ranks, fact.fields["tie"]) == (ranks, True)


def test_sizes_of_all_to_all_differ_by_nature() -> None:
    lines = [timed_out(0, 5, "ALLTOALL_BASE", size=64), timed_out(1, 5, "ALLTOALL_BASE", size=32)]
    kinds = {fact.kind for fact in watchdog.find(job_of(job=lines))}
    assert "watchdog_size_mismatch" not in kinds


def test_a_work_on_a_wrapped_line_belongs_to_the_rank_of_the_line_before() -> None:
    head, _, work = timed_out(14, 2070, "REDUCE").partition("WorkNCCL")
    lines = [head, "WorkNCCL" + work, timed_out(6, 2070, "ALLREDUCE"), timed_out(7, 2070, "REDUCE")]
    fact = only(list(watchdog.find(job_of(job=lines))), "watchdog_op_mismatch")
    assert (fact.ranks, fact.fields["found"]) == ((6,), "ALLREDUCE")


def test_a_desync_report_in_which_all_joined_blames_nobody() -> None:
    report = [
        "[rank6]:[E1115 16:42:37.768057301 ProcessGroupNCCL.cpp:1936] Rank 6",
        "\t   - [0, 1, 2, 3] joined but didn't finish collective #730 (count from 1)",
    ]
    fact = only(list(watchdog.find(job_of(job=report))), "watchdog_all_joined")
    assert (fact.ranks, fact.fields["arrived"]) == ((), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("calls", "enqueued", "odd", "tie"),
    [
        ({0: "a", 1: "a", 2: "b"}, {}, (2,), False),
        ({0: "a", 1: "b"}, {}, (1,), True),
        ({2: "big", 3: "small"}, {2: 7219, 3: 7220}, (2,), True),
    ],
)
def test_odd_ones_out(calls: dict[int, str], enqueued: dict[int, int], odd: tuple[int, ...], tie: bool) -> None:
    assert odd_ones_out(calls, enqueued) == (odd, tie)


def fingerprint(rank: int, shape: int, other: int, other_shape: int) -> str:
    def one(number: int) -> str:
        options = "TensorOptions(dtype=float (default), device=cpu, memory_format=(nullopt))"
        return (
            f"CollectiveFingerPrint(SequenceNumber=4, OpType=ALLREDUCE, TensorShape=[{number}], "
            f"TensorDtypes=Float, TensorDeviceTypes={options})"
        )

    return (
        f"[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running "
        f"collective: {one(shape)}, but Rank {other} is running collective: {one(other_shape)}."
        f"Collectives differ in the following aspects:   Tensor Tensor shapes: {shape}vs {other_shape}"
    )


def test_one_report_names_the_odd_rank_because_those_before_it_agree() -> None:
    fact = only(list(checks.find(job_of(job=[fingerprint(1, 32000, 2, 32128)]))), "fingerprint_size_differs")
    assert (fact.ranks, fact.affected, fact.fields["tie"]) == ((2,), (0, 1), False)


def progress(clock: str, done: int) -> str:
    return f"2026-11-29 {clock},100 [INFO] rank 0: tokenized {done}/4000 documents"


@pytest.mark.parametrize(("last", "works"), [("09:59:58", True), ("09:40:00", False)])
def test_only_work_that_still_moved_outlasts_a_limit(last: str, works: bool) -> None:
    job = job_of(job=[progress("09:30:00", 10), progress(last, 400), *(timed_out(r, 2) for r in (1, 2))])
    found = [fact for fact in waiting.find(job) if fact.kind == "work_outlasts_limit"]
    assert [fact.ranks for fact in found] == ([(0,)] if works else [])


@pytest.mark.parametrize(
    ("words", "ranks"),
    [("[Rank 1] ", (1,)), ("[PG ID 0 PG GUID 0(default_pg) Rank 8] ", (8,)), ("[PG ID 3 PG GUID 7(tp) Rank 1] ", ())],
)
def test_a_watchdog_says_whose_it_is(words: str, ranks: tuple[int, ...]) -> None:
    line = f"[E ProcessGroupNCCL.cpp:916] {words}NCCL watchdog thread terminated with exception: CUDA error: x"
    facts = [fact for fact in collect_facts(job_of(log=[line])) if fact.kind == "watchdog_thread_ended"]
    assert [fact.ranks for fact in facts] == [ranks]


def test_an_impossible_rank_does_not_make_a_world_of_its_size() -> None:
    # GIVEN a job of which only the watchdogs tell ranks, each in its own words
    for rank, most in ((3, 4), (2**31, 1), (-1, 1)):
        job = job_of(log=[timed_out(0, 7), timed_out(rank, 7).removeprefix(f"[rank{rank}]:")])
        assert all(len(group.members(job)) <= most for group in group_progress(job))
