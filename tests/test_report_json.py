"""The JSON format: the contract's keys, valid against the shipped schema, and always the same."""

from __future__ import annotations

import io
import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

import report_samples
from hangscope.model import Report
from hangscope.report.formats import format_names, load_format
from hangscope.report.options import RenderOptions
from hangscope.report.serialize import to_dict
from report_samples import SAMPLES

_ALL = [*SAMPLES.values(), report_samples.hostile]


def _schema() -> dict[str, Any]:
    text = resources.files("hangscope.report").joinpath("schema/report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _render(report: Report, encoding: str = "utf-8") -> str:
    stream = io.StringIO()
    load_format("json").render(report, stream, RenderOptions(encoding=encoding))
    return stream.getvalue()


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(_schema())


@pytest.mark.parametrize("make", _ALL)
def test_output_is_valid(make: object) -> None:
    assert callable(make)
    validator = jsonschema.Draft202012Validator(_schema())
    assert not [error.message for error in validator.iter_errors(json.loads(_render(make())))]


def test_schema_requires_every_key_that_is_written() -> None:
    schema = _schema()
    written = to_dict(report_samples.out_of_memory())
    assert set(schema["required"]) == written.keys()
    assert schema["properties"]["job"]["required"] == list(written["job"])
    for name, value in (
        ("finding", written["verdict"]),
        ("evidence", written["verdict"]["evidence"][0]),
        ("advice", written["verdict"]["remedies"][0]),
        ("collective", written["collectives"][0]),
        ("rank", written["ranks"][0]),
        ("step", written["story"][0]),
        ("next_step", written["next_steps"][0]),
        ("source", written["sources"][0]),
        ("stack", to_dict(report_samples.stuck_loader())["stacks"][0]),
        ("comparison", to_dict(report_samples.many_differences())["comparisons"][1]),
        ("compared_value", to_dict(report_samples.many_differences())["comparisons"][1]["values"][0]),
        ("stack_node", to_dict(report_samples.stuck_loader())["stack_tree"][0]),
    ):
        assert list(schema["$defs"][name]["properties"]) == list(value), name


def test_verdict_is_written_in_full() -> None:
    report = json.loads(_render(report_samples.out_of_memory()))
    verdict = report["verdict"]
    assert (verdict["cause"], verdict["ranks"], verdict["hosts"]) == ("gpu-out-of-memory", [5], ["node02"])
    assert verdict == report["findings"][0]
    assert (verdict["evidence"][0]["file"], verdict["evidence"][0]["line"]) == ("logs/rank5.log", 1841)
    assert verdict["time"] == "2026-05-01T12:03:07.221"
    assert report["collectives"][0]["missing"] == [5]


def test_ranks_and_hosts_of_a_comparison_are_ranges() -> None:
    versions = json.loads(_render(report_samples.many_differences()))["comparisons"][1]
    assert (versions["aspect"], versions["must_agree"], versions["differs"]) == ("NCCL", True, True)
    shown = [(value["value"], value["ranks"], value["hosts"], value["count"]) for value in versions["values"]]
    assert shown == [("2.27.7", "0-511", "node[001-064]", 512), ("2.26.2", "512-1023", "node[065-128]", 512)]
    assert versions["values"][1]["evidence"]["file"] == "nccl/rank512.log"


def test_versions_that_differ_are_a_list_and_ranks_are_keys_in_order() -> None:
    report = json.loads(_render(report_samples.missing_ranks()))
    assert report["job"]["nccl_version"] == ["2.26.2", "2.26.5"]
    assert report["collectives"][0]["differing"] == {"77": "all_reduce(numel=1)"}


def test_control_characters_are_text() -> None:
    text = json.loads(_render(report_samples.hostile()))["verdict"]["evidence"][0]["text"]
    assert text.startswith("\\x1b[31mred")
    assert "\\u202e" in text
    assert text.isprintable()


def test_same_report_same_bytes() -> None:
    assert _render(report_samples.out_of_memory()) == _render(report_samples.out_of_memory())


def test_other_characters_stay_as_they_are_where_the_stream_has_them() -> None:
    report = report_samples.no_fault()
    assert _render(report, encoding="ascii").isascii()


def test_formats_are_the_modules_of_the_folder() -> None:
    assert {"json", "text"} <= set(format_names())
