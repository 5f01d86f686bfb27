"""Warnings from which nothing is concluded stand with the finding about the same process, and never become one."""

from __future__ import annotations

from pathlib import Path

from hangscope.api import analyze
from hangscope.model import Finding, Report
from hangscope.report.serialize import to_dict

TWICE = "Bootstrap Root : rank 3 of 8 ranks has already checked in"
ODD = "[Proxy Service 7] Something odd happened"
COMPLETE = "NCCL INFO comm 0x{rank}1 rank {rank} nranks 2 cudaDev 0 busId 1a000 commId 0xab - Init COMPLETE"


def warn(text: str, *, second: int = 0, pid: int = 101, level: str = "WARN") -> str:
    return f"[2026-01-31 12:00:{second:02}] node01:{pid}:{pid} [0] proxy.cc:1 (f) NCCL {level} {text}"


def report_on(tmp_path: Path, *lines: str) -> Report:
    (tmp_path / "job.log").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return analyze(tmp_path, jobs=1)


def said(finding: Finding) -> list[str]:
    return [evidence.text.partition("] proxy.cc:1 (f) NCCL ")[2] for evidence in finding.also_said]


def test_warning_stands_with_the_verdict_about_its_process(tmp_path: Path) -> None:
    report = report_on(tmp_path, warn(TWICE), warn(ODD, second=1), warn(ODD, second=2, level="ATTN"))

    assert report.verdict.cause == "duplicate-rank"
    assert said(report.verdict) == [f"WARN {ODD}"]
    assert report.verdict.also_said[0].why == "NCCL warned, 2 times"
    assert [finding.cause for finding in report.findings] == ["duplicate-rank"]
    assert to_dict(report)["verdict"]["also_said"][0]["line"] == 2


def test_warning_of_another_process_or_of_another_time_does_not(tmp_path: Path) -> None:
    far = warn("nothing to do with it").replace("12:00:00", "13:00:00")
    report = report_on(tmp_path, warn(TWICE), warn(ODD, pid=202), far)

    assert said(report.verdict) == []


def test_warning_stands_with_the_nearest_of_two_findings(tmp_path: Path) -> None:
    failed = "Failed to malloc 1073741824 bytes"
    report = report_on(tmp_path, warn(TWICE), warn(failed, second=20), warn(ODD, second=19))

    by_cause = {finding.cause: finding for finding in report.findings}
    assert said(by_cause["host-out-of-memory"]) == [f"WARN {ODD}"]
    assert said(by_cause["duplicate-rank"]) == []


def test_where_nothing_is_known_all_warnings_are_shown(tmp_path: Path) -> None:
    report = report_on(tmp_path, warn(ODD), warn("And another thing", pid=202))

    assert report.verdict.cause == "insufficient-evidence"
    assert said(report.verdict) == [f"WARN {ODD}", "WARN And another thing"]


def test_line_that_is_cited_is_not_said_again(tmp_path: Path) -> None:
    closed = "socketProgress: Connection closed by remote peer node02<{}>"
    report = report_on(tmp_path, *(warn(closed.format(40000 + n), second=n) for n in range(30)))

    assert report.verdict.cause == "peer-lost"
    assert said(report.verdict) == []


def test_healthy_job_hears_nothing(tmp_path: Path) -> None:
    both = [f"node01:{101 + rank}:{101 + rank} [{rank}] {COMPLETE.format(rank=rank)}" for rank in (0, 1)]
    report = report_on(tmp_path, *both, *(line.replace("Init", "Destroy") for line in both), warn(ODD))

    assert report.verdict.cause == "no-fault-found"
    assert said(report.verdict) == []
