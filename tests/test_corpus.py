"""The verdict on every case in fixtures/: right cause, right ranks, proof cited, nothing forbidden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

import make_layouts
from score_fixtures import FIXTURES, Case, Json, judge, read_cases

CASES = read_cases()
HEALTHY = [case for case in CASES if case.healthy]

# one case each: many files, one interleaved stream, several files that must be joined, an archive
DETERMINISM = [
    "duplicate-rank-01-twice-2307",
    "host-out-of-memory-01-cgroup",
    "layout-srun-one-file",
    "layout-tar-gz",
]

RUN_HANGSCOPE = "import sys; from hangscope.cli.main import main; sys.exit(main(sys.argv[1:]))"


def _by_name(case: Case) -> str:
    return case.name


def _weak(case: Case) -> pytest.ParameterSet | Case:
    """The case, expected to fail as long as its `known_weak` says why."""
    if not case.known_weak:
        return case
    return pytest.param(case, marks=pytest.mark.xfail(strict=True, reason=case.known_weak), id=case.name)


@pytest.fixture(scope="session")
def schema(checkout: Path) -> jsonschema.Draft202012Validator:
    path = checkout / "analyzer" / "hangscope" / "report" / "schema" / "report.schema.json"
    return jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("case", [_weak(case) for case in CASES], ids=_by_name)
def test_verdict(case: Case, report_of: Callable[[Case], Json]) -> None:
    assert not judge(case, report_of(case)).problems, case.shows


@pytest.mark.parametrize("case", CASES, ids=_by_name)
def test_report_follows_its_schema(
    case: Case, report_of: Callable[[Case], Json], schema: jsonschema.Draft202012Validator
) -> None:
    assert [error.message for error in schema.iter_errors(report_of(case))] == []


@pytest.mark.parametrize("case", CASES, ids=_by_name)
def test_verdict_is_among_the_findings_and_cites_real_lines(case: Case, report_of: Callable[[Case], Json]) -> None:
    report = report_of(case)
    assert report["verdict"] in report["findings"]
    for finding in report["findings"]:
        for line in finding["evidence"]:
            path = case.logs / line["file"]
            if line["line"] is not None and path.is_file():
                assert 1 <= line["line"] <= path.read_bytes().count(b"\n") + 1


@pytest.mark.parametrize("case", [_weak(case) for case in HEALTHY], ids=_by_name)
def test_healthy_jobs_are_not_accused(case: Case, report_of: Callable[[Case], Json]) -> None:
    accused = [finding["rule"] for finding in report_of(case)["findings"] if finding["role"] == "cause"]
    causes = {finding["cause"] for finding in report_of(case)["findings"] if finding["role"] == "cause"}
    assert causes == {"no-fault-found"}, accused


@pytest.mark.parametrize("name", DETERMINISM)
def test_same_case_gives_the_same_bytes(name: str, checkout: Path) -> None:
    reports = []
    for seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(checkout / "analyzer")}
        command = [sys.executable, "-c", RUN_HANGSCOPE, "analyze", str(FIXTURES / name / "logs"), "--format", "json"]
        reports.append(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert reports[0] == reports[1]


def test_layouts_are_fresh() -> None:
    assert make_layouts.stale() == [], "run python fixtures/make_layouts.py"


def test_every_case_says_what_it_shows() -> None:
    assert [case.name for case in CASES if len(case.shows.split()) < 5] == []
