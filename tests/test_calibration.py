"""The calibration's own arithmetic: which bucket, what is counted as sure, and when it falls short."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration import Said, bucket, describe, find_cases, main


def _case(folder: Path, cause: str, accept: str = "[]") -> None:
    (folder / "logs").mkdir(parents=True)
    (folder / "case.yaml").write_text(f"cause: {cause}\naccept: {accept}\n", encoding="utf-8")
    (folder / "logs" / "rank0.log").write_text("Traceback (most recent call last):\nValueError: no\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("confidence", "number"), [(0.0, 0), (0.29, 2), (0.3, 3), (0.79, 7), (0.8, 8), (0.99, 9), (1.0, 9)]
)
def test_bucket_of_a_confidence(confidence: float, number: int) -> None:
    assert bucket(confidence) == number


def test_tables_count_by_confidence_and_by_family() -> None:
    verdicts = [
        Said("a", "process", "python-exception", "python-exception", 0.91, right=True),
        Said("b", "process", "native-crash", "peer-lost", 0.85, right=False),
        Said("c", "network", "peer-lost", "peer-lost", 0.35, right=True),
        Said("d", "network", "peer-lost", "RuntimeError: x", None, right=False),
    ]
    lines = [" ".join(line.split()) for line in describe(verdicts, 0.8)]
    assert "0.8 to 0.9 1 0 0.0% 0.85" in lines
    assert "0.3 to 0.4 1 1 100.0% 0.35" in lines
    assert "process 2 1 2 1 (50.0%)" in lines
    assert "network 2 1 0 -" in lines
    assert "surely wrong: b: peer-lost with 0.85, not native-crash" in lines
    assert "no report on d: RuntimeError: x" in lines


def test_wrong_verdicts_said_surely_miss_the_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a case that is right and one whose cause no log can show
    _case(tmp_path / "one", "python-exception")
    assert main([str(tmp_path), "--jobs", "1", "--sure", "0.1", "--min-right", "1"]) == 0
    _case(tmp_path / "two", "dns-failure")
    assert main([str(tmp_path), "--jobs", "1", "--sure", "0.1", "--min-right", "0.95"]) == 1
    assert main([str(tmp_path), "--jobs", "1", "--sure", "0.1", "--min-right", "0.5"]) == 0
    assert "surely wrong: two" in capsys.readouterr().out


def test_a_folder_without_cases_is_an_error_of_use(tmp_path: Path) -> None:
    assert find_cases([tmp_path]) == []
    assert main([str(tmp_path)]) == 2
