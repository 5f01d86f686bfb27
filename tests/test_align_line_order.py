"""Files whose lines are not in the order in which they were written: exports of log stores, turned or mixed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from hangscope.align.line_order import out_of_order
from hangscope.facts import endings
from nccl_logs import Rank, job_of, parse, ranks


def busy(log: Rank, *, left_out: int | None = None, grows: bool = True) -> list[str]:
    """A rank's init and forty calls of two sizes, or one less."""
    for number in range(40):
        if number != left_out:
            log.call("AllReduce", 1024 + number % 2, op_count=number if grows else 0)
    return log.lines


def shuffled(lines: list[str]) -> list[str]:
    return random.Random(7).sample(lines, len(lines))  # noqa: S311 - no secret


def newest_first(lines: list[str]) -> list[str]:
    return lines[::-1]


def told(lines: list[str], name: str = "a.log") -> frozenset[str]:
    return out_of_order([parse(lines, name)])


@pytest.mark.parametrize("turn", [shuffled, newest_first])
def test_calls_of_turned_files_are_not_compared(turn: Callable[[list[str]], list[str]]) -> None:
    # GIVEN eight ranks of which one leaves out a call, in an export of a log store
    files = {f"{log.rank}.log": turn(busy(log, left_out=3 if log.rank == 5 else None)) for log in ranks(8)}
    job = job_of(files)
    assert job.stuck == ()
    (warning,) = [w for w in job.warnings if "not in order of time" in w]
    assert warning.startswith("lines of 0.log, 1.log, 2.log, 3.log and 4 more are")


def test_the_same_in_order_names_the_rank() -> None:
    job = job_of({f"{log.rank}.log": busy(log, left_out=3 if log.rank == 5 else None) for log in ranks(8)})
    assert [call.odd for call in job.stuck] == [(5,)]
    assert job.turned == frozenset()


def test_only_the_turned_file_is_left_out() -> None:
    files = {f"{log.rank}.log": busy(log, left_out=3 if log.rank in (1, 5) else None) for log in ranks(8)}
    files["1.log"] = files["1.log"][::-1]
    job = job_of(files)
    assert [call.odd for call in job.stuck] == [(5,)]
    assert job.turned == {"1.log"}


def test_half_of_the_files_make_all_of_an_export_doubtful() -> None:
    files = [parse(busy(log)[:: -1 if log.rank < 2 else 1], f"{log.rank}.log") for log in ranks(4)]
    assert len(out_of_order(files)) == 4


@pytest.mark.parametrize(
    "lines",
    [
        busy(Rank(0, 2).init(), grows=False)[::-1],
        busy(Rank(0, 2))[::-1],
        shuffled(busy(Rank(0, 2))),
        Rank(0, 2).init(("Init COMPLETE", "Init START")).lines,
        Rank(0, 2).call().init(("Init COMPLETE",)).lines,
        Rank(0, 2).init(("Init START",)).call().init(("Init COMPLETE",)).lines,
        [f"2026-01-01T00:00:{59 - n:02d}Z {line}" for n, line in enumerate(busy(Rank(0, 2), grows=False))],
        [f"[2026-01-01 00:00:{59 - n}] n1:7:7 [0] net.cc:1 NCCL WARN socketStartConnect: Connect to 10.0.0.{n}<1> "
         "failed : Connection refused" for n in range(9)],
    ],
    ids=["inits", "opCount falls", "opCount jumps", "COMPLETE first", "a call first", "within",
         "times", "stamps"],
)  # fmt: skip
def test_these_are_turned(lines: list[str]) -> None:
    assert told(lines) == {"a.log"}


def reused() -> list[str]:
    """A pointer is used again and again, with ends and without."""
    log = Rank(0, 2)
    for number in range(6):
        log.init().call().call(op_count=1)
        if number % 2:
            log.end()
    return log.lines


def old_version() -> list[str]:
    """2.15 prints no START, and here a pointer is used twice."""
    log = Rank(0, 2)
    for _ in range(2):
        log.init(("Init COMPLETE",), comm_id=None).call().call()
    return log.lines


def by_calls_alone() -> list[str]:
    """NCCL_DEBUG_SUBSYS=COLL of many short communicators at one address."""
    log = Rank(0, 2)
    for _ in range(9):
        log.call(op_count=0).call(op_count=1)
    return log.lines


@pytest.mark.parametrize(
    "lines",
    [
        busy(Rank(0, 2).init()),
        busy(Rank(0, 2).init())[20:],
        reused(),
        old_version(),
        by_calls_alone(),
        # two ranks of one stream, each in its order
        list(itertools.chain.from_iterable(zip(*(busy(log, grows=True) for log in ranks(2)), strict=True))),
        busy(Rank(0, 2).init()) + busy(Rank(1, 2).init()),
        # two hosts whose clocks differ
        [f"2026-01-01T00:{(n % 2) * 30:02d}:{n // 2:02d}Z {line}" for n, line in enumerate(
            itertools.chain.from_iterable(zip(*(busy(log) for log in (Rank(0, 4), Rank(2, 4))), strict=True)))],
        ["loss 1", "loss 2"],
    ],
    ids=["whole", "its first lines lost", "pointers reused", "2.15", "calls alone", "two ranks in one stream",
         "one after the other", "two clocks", "no NCCL"],
)  # fmt: skip
def test_these_are_in_order(lines: list[str]) -> None:
    assert told(lines) == frozenset()


def test_turned_files_do_not_tell_that_all_ranks_made_the_same_calls() -> None:
    # GIVEN ranks that made all calls, in files that are turned
    files = {f"{log.rank}.log": busy(log)[::-1] for log in ranks(4)}
    assert "job_runs_well" not in {fact.kind for fact in endings.find(job_of(files))}
