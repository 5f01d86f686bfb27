"""`--format sarif`: valid, deterministic, with the job's own line of code as the place where it is known."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest

import report_samples
from hangscope import api
from hangscope.model import Evidence, Location, Report, SourceRecord
from hangscope.report.formats import load_format
from hangscope.report.options import RenderOptions
from report_samples import SAMPLES
from sarif_schema import SCHEMA

Log = dict[str, Any]


def _log(report: Report, encoding: str = "utf-8") -> Log:
    stream = io.StringIO()
    load_format("sarif").render(report, stream, RenderOptions(encoding=encoding))
    log: Log = json.loads(stream.getvalue())
    return log


def _results(report: Report) -> list[Log]:
    results: list[Log] = _log(report)["runs"][0]["results"]
    return results


def _errors(log: Log) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(log)]


def test_the_schema_refuses_what_is_wrong() -> None:
    log = _log(report_samples.out_of_memory())
    result = log["runs"][0]["results"][0]
    assert not _errors(log)
    result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] = 0
    result["level"] = "none"
    del log["runs"][0]["tool"]["driver"]["name"]
    assert len(_errors(log)) == 3


@pytest.mark.parametrize("make", [*SAMPLES.values(), report_samples.hostile])
def test_log_is_valid(make: object) -> None:
    assert callable(make)
    log = _log(make())
    assert not _errors(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        ids = [location["id"] for location in result["relatedLocations"]]
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "name", ["collective-skipped-01-one-call-2277", "python-exception-c01-clock-ahead", "process-frozen-02-attached"]
)
def test_log_of_a_job_is_valid_and_the_same_every_time(checkout: Path, name: str) -> None:
    logs = checkout / "fixtures" / name / "logs"
    first, second = (_log(api.analyze(logs)) for _ in range(2))
    assert not _errors(first)
    assert first == second


def test_the_place_is_the_job_s_own_line_of_code() -> None:
    verdict = _results(report_samples.out_of_memory())[0]
    assert verdict["ruleId"] == "gpu-out-of-memory"
    assert verdict["level"] == "error"
    assert verdict["properties"]["verdict"] is True
    (place,) = verdict["locations"]
    assert place["physicalLocation"] == {"artifactLocation": {"uri": "train.py"}, "region": {"startLine": 212}}
    assert place["logicalLocations"] == [{"name": "forward", "kind": "function"}]
    assert place["message"] == {"text": "rank 5"}


def test_the_lines_of_the_logs_stand_beside_it() -> None:
    related = _results(report_samples.out_of_memory())[0]["relatedLocations"]
    first = related[0]
    assert first["physicalLocation"]["artifactLocation"]["uri"] == "logs/rank5.log"
    assert first["physicalLocation"]["region"]["startLine"] == 1841
    assert first["physicalLocation"]["region"]["snippet"]["text"].startswith("[rank5]: torch.OutOfMemoryError")
    assert first["message"]["text"] == "rank 5's own last words"


def test_without_a_line_of_code_the_place_is_the_rank_or_the_host() -> None:
    report = report_samples.out_of_memory()
    ranks = tuple(replace(state, where=None) for state in report.ranks)
    (place,) = _results(replace(report, ranks=ranks))[0]["locations"]
    assert place == {"logicalLocations": [{"name": "rank 5", "fullyQualifiedName": "node02/rank 5", "kind": "process"}]}
    verdict = replace(report.verdict, ranks=(), hosts=("node02", "node03"))
    places = _results(replace(report, ranks=ranks, verdict=verdict, findings=(verdict,)))[0]["locations"]
    assert [place["logicalLocations"][0]["name"] for place in places] == ["node02", "node03"]


def test_a_process_of_unknown_rank_is_at_the_line_of_the_stack_that_is_cited() -> None:
    report = report_samples.stuck_loader()
    stack = replace(report.stacks[0], ranks=(), processes=("pid 7",))
    cited = Evidence(
        Location(stack.at.file, (stack.at.line or 0) + 7), "    main (/workspace/pretrain/train.py:30)", ""
    )
    verdict = replace(report.verdict, ranks=(), hosts=(), evidence=(cited,))
    lone = replace(report, verdict=verdict, findings=(verdict,), stacks=(stack, *report.stacks[1:]))
    (place,) = _results(lone)[0]["locations"]
    assert place == {
        "physicalLocation": {
            "artifactLocation": {"uri": "file:///workspace/pretrain/train.py"},
            "region": {"startLine": 30},
        },
        "logicalLocations": [{"name": "main", "kind": "function"}],
    }
    for elsewhere in (Location("other.txt", 199), Location(stack.at.file, 9), Location(stack.at.file, None)):
        moved = replace(verdict, evidence=(replace(cited, at=elsewhere),))
        assert "locations" not in _results(replace(lone, verdict=moved, findings=(moved,)))[0]


def test_many_ranks_at_one_line_are_one_place() -> None:
    report = report_samples.missing_ranks()
    ranks = tuple(replace(state, where="/job/train.py:9 step") for state in report.ranks)
    (place,) = _results(replace(report, ranks=ranks))[0]["locations"]
    assert place["message"]["text"] == "ranks 504-511"
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "file:///job/train.py"


def test_levels_follow_certainty_and_part() -> None:
    report = report_samples.out_of_memory()
    levels = {result["ruleId"]: result["level"] for result in _results(report)}
    assert levels == {"gpu-out-of-memory": "error", "watchdog-timeout": "note", "store-lost": "note"}
    for confidence, level in ((0.8, "error"), (0.5, "warning"), (0.49, "note")):
        verdict = replace(report.verdict, confidence=confidence)
        assert _results(replace(report, verdict=verdict, findings=(verdict,)))[0]["level"] == level


def test_a_job_without_a_fault_has_no_result() -> None:
    assert _results(report_samples.no_fault()) == []


def test_what_cannot_be_decided_is_open() -> None:
    (result,) = _results(report_samples.insufficient_evidence())
    assert (result["kind"], result["level"]) == ("open", "none")


def test_limits_and_unreadable_files_are_notifications() -> None:
    report = report_samples.no_fault()
    failed = SourceRecord("a b.log", "text", 0, 1, 0, "Permission denied")
    log = _log(replace(report, warnings=("Rank 3 left no log.",), sources=(failed,)))
    warning, error = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert warning == {"level": "warning", "message": {"text": "Rank 3 left no log."}}
    assert error["message"]["text"] == "Permission denied"
    assert error["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.log"


@pytest.mark.parametrize(
    "name", ["a b:c.log", "/var/log/x%41.log", "s3://bucket/a b/rank0.log", "\udcff\u00e4.log", "../up.log", "<stdin>"]
)
def test_any_name_is_a_uri(name: str) -> None:
    report = report_samples.no_fault()
    verdict = replace(report.verdict, cause="peer-lost", evidence=(Evidence(Location(name, 3), "x", "y"),))
    log = _log(replace(report, verdict=verdict, findings=(verdict,)), "ascii")
    assert not _errors(log)
    uri = log["runs"][0]["results"][0]["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    parts = urlsplit(uri)
    back = unquote(uri, errors="surrogateescape")
    assert back.removeprefix("file://") == name
    assert parts.scheme in ("", "file", "s3")
    assert not parts.query and not parts.fragment


def test_messages_are_taken_for_nothing_but_text() -> None:
    report = report_samples.no_fault()
    verdict = replace(report.verdict, cause="peer-lost", title="{0} is [a link](https://evil) and [3] is not", ranks=())
    (result,) = _results(replace(report, verdict=verdict, findings=(verdict,)))
    assert result["message"]["text"].startswith("{{0}} is \\[a link](https://evil) and [3] is not.")
