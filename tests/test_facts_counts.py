"""How far each rank came, where no single call is known."""

from __future__ import annotations

from pathlib import Path

from hangscope.api import history_of, load
from hangscope.facts.counts import find_counts
from hangscope.model import GroupCounts
from nccl_logs import job_of, ranks
from ras_reports import comm, missing, rank, report

WORLD = "communicator 0xbbd7cdaf5c9b0794"


def counts(files: dict[str, str]) -> tuple[str, tuple[GroupCounts, ...]]:
    found = find_counts(job_of(files))
    assert found is not None and found.groups == ()
    return found.source, found.counts


def test_a_ras_report_counts_all_kinds_of_collectives_together() -> None:
    members = [rank(n, AllReduce=5, Broadcast=2 if n else 1) for n in range(3)]
    source, (group,) = counts({"ras.json": report(comm(members))})
    assert (source, group) == ("ras", GroupCounts(WORLD, "", 3, (0, 1, 2), (6, 7, 7)))


def test_who_does_not_answer_ras_is_there_without_a_count() -> None:
    members = [rank(n, AllReduce=5) for n in (0, 2)]
    _, (group,) = counts({"ras.json": report(comm(members, [missing(1)]))})
    assert (group.ranks, group.last) == ((0, 1, 2), (5, None, 5))


def test_the_last_report_counts() -> None:
    files = {f"ras{n}.json": report(comm([rank(r, AllReduce=n) for r in range(2)]), at=f"12:00:0{n}") for n in range(3)}
    assert counts(files)[1][0].last == (2, 2)


def test_a_text_report_names_few_and_the_others_have_what_most_have(checkout: Path) -> None:
    job = load(checkout / "fixtures" / "insufficient-evidence-51-ras-off-by-one" / "logs")
    found = find_counts(job)
    assert found is not None
    (group,) = found.counts
    assert group.size == len(group.ranks) == 32
    assert {n: r for r, n in zip(group.ranks, group.last, strict=True) if n != 640} == {641: 13}
    assert sorted(set(group.last), key=str) == [640, 641]


def test_watchdogs_tell_the_last_call_enqueued() -> None:
    prefix = "ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank"
    lines = [
        f"[rank{r}]:[E1129 10:00:01.123456789 {prefix} {r}] Received a dump signal due to a collective timeout from "
        f"this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: {last}, "
        "last completed NCCL work: 6.This is most likely"
        for r, last in ((0, 8), (1, 8), (2, 6))
    ]
    source, (group,) = counts({"job.log": "\n".join([*lines, ""])})
    assert (source, group.group, group.ranks, group.last) == ("watchdog", "default_pg", (0, 1, 2), (8, 8, 6))


def test_calls_count_for_more_than_ras() -> None:
    files: dict[str, str] = {"ras.json": report(comm([rank(n, AllReduce=9) for n in range(2)]))}
    files |= {f"{log.rank}.log": "\n".join([*log.call().lines, ""]) for log in ranks(2)}
    found = history_of(job_of(files), 4)
    assert found is not None and found.source == "calls"
    assert [(group.group, group.last) for group in found.counts] == [("world", (0, 0))]


def test_a_rank_without_any_call_stands_in_front_of_the_first() -> None:
    logs = ranks(2)
    logs[0].call().call()
    found = history_of(job_of({f"{log.rank}.log": log.lines for log in logs}), 4)
    assert found is not None and found.counts[0].last == (1, -1)


def test_where_nothing_counts_there_is_nothing() -> None:
    assert find_counts(job_of({f"{log.rank}.log": log.lines for log in ranks(2)})) is None
