"""Comparisons in the report: who has what in words, and lines that one rank alone printed as evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import report_samples
from hangscope.api import analyze
from hangscope.model import ComparedValue
from hangscope.report.comparisons import differing, lone_lines, who_has, with_lone_lines


@pytest.mark.parametrize(
    ("ranks", "hosts", "names", "words"),
    [
        ((0, 1, 2), ("node01",), (), "ranks 0-2 on node01"),
        ((3,), (), (), "rank 3"),
        ((), ("node01", "node02"), (), "node[01,02]"),
        ((), (), ("a.txt",), "a.txt"),
        ((), (), ("a.txt", "b.txt", "c.txt"), "a.txt and 2 more files"),
        ((), (), (), "4 processes"),
    ],
)
def test_who_has_a_value(ranks: tuple[int, ...], hosts: tuple[str, ...], names: tuple[str, ...], words: str) -> None:
    assert who_has(ComparedValue("x", ranks, hosts, names, 4, None)) == words


def test_what_must_agree_comes_first_and_what_is_equal_not_at_all() -> None:
    comparisons = report_samples.many_differences().comparisons
    found = differing(comparisons)
    assert [c.must_agree for c in found] == sorted((c.must_agree for c in found), reverse=True)
    assert "PyTorch" not in {c.aspect for c in found}
    assert [value.ranks for value in lone_lines(comparisons)] == [(77,)]


def test_only_a_verdict_that_too_little_is_known_takes_lone_lines_as_evidence() -> None:
    report = report_samples.many_differences()
    assert with_lone_lines(report.verdict, report.comparisons) == report.verdict
    unsure = replace(report_samples.insufficient_evidence().verdict)
    added = with_lone_lines(unsure, report.comparisons)
    assert added.evidence[:-1] == unsure.evidence
    assert (added.evidence[-1].at.file, added.evidence[-1].why) == (
        "nccl/rank77.log",
        "rank 77 on node010 alone printed this",
    )
    assert with_lone_lines(added, report.comparisons) == added


def test_an_unknown_complaint_of_one_rank_is_shown_and_never_the_verdict(tmp_path: Path) -> None:
    for rank in range(4):
        words = [
            "step 1 loss 2.5",
            *(["lease of shard 17 failed: quota used up"] if rank == 2 else []),
            "step 2 loss 2.4",
        ]
        (tmp_path / f"rank{rank}.log").write_text("\n".join([*words, ""]), encoding="utf-8")
    report = analyze(tmp_path, jobs=1)
    assert report.verdict.cause == "insufficient-evidence"
    assert ("rank2.log", 2) in {(evidence.at.file, evidence.at.line) for evidence in report.verdict.evidence}
    (alone,) = (c for c in report.comparisons if c.topic == "messages")
    assert [(value.text, value.ranks) for value in alone.values] == [("printed", (2,)), ("not printed", (0, 1, 3))]
