"""What people get of real cases: a first screen that fits, Markdown that is only text, valid SARIF, the same bytes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt

from hangscope import api
from hangscope.model import Report
from hangscope.report.formats import format_names, load_format
from hangscope.report.options import RenderOptions
from sarif_schema import SCHEMA
from score_fixtures import FIXTURES, Case, read_cases

CASES = read_cases()[::10]
_RUN = "import sys; from hangscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
_COMMAND = "      "
_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _by_name(case: Case) -> str:
    return case.name


@pytest.fixture(scope="module")
def report_on() -> Callable[[Case], Report]:
    known: dict[str, Report] = {}

    def report(case: Case) -> Report:
        if case.name not in known:
            known[case.name] = api.analyze(case.logs, jobs=1)
        return known[case.name]

    return report


def _render(name: str, report: Report, width: int = 80) -> str:
    stream = io.StringIO()
    load_format(name).render(report, stream, RenderOptions(width=width))
    return stream.getvalue()


@pytest.mark.xdist_group("report-cases")
@pytest.mark.parametrize("case", CASES, ids=_by_name)
class TestCases:
    def test_the_first_screen_answers_and_fits(self, case: Case, report_on: Callable[[Case], Report]) -> None:
        report = report_on(case)
        lines = _render("text", report).split("\n")
        assert all(len(line) <= 80 or line.startswith(_COMMAND) for line in lines)
        headings = [number for number, line in enumerate(lines) if line.startswith("\u2500\u2500 ")]
        # what and why stand above the first heading, what to do now below it
        first = lines[: headings[1]]
        assert len(first) <= 40
        assert report.verdict.cause in "\n".join(first)
        assert any(line.startswith(" Why ") for line in first)
        assert not report.verdict.evidence or any(line.startswith((" Proof ", " Seen ")) for line in first)

    def test_markdown_is_one_screen_of_text(self, case: Case, report_on: Callable[[Case], Report]) -> None:
        page = _render("markdown", report_on(case))
        assert page.partition("<details>")[0].count("\n") <= 40
        tokens = _MARKDOWN.parse(page)
        kinds = {child.type for token in tokens for child in token.children or ()}
        assert kinds <= {"text", "code_inline", "strong_open", "strong_close", "html_inline", "text_special"}

    def test_sarif_is_valid(self, case: Case, report_on: Callable[[Case], Report]) -> None:
        log = json.loads(_render("sarif", report_on(case)))
        assert [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(log)] == []


@pytest.mark.parametrize("name", ["host-out-of-memory-01-cgroup", "collective-skipped-01-one-call-2277"])
def test_every_format_gives_the_same_bytes(name: str, checkout: Path, tmp_path: Path) -> None:
    for seed in ("0", "4711"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(checkout / "analyzer")}
        command = [sys.executable, "-c", _RUN, "analyze", str(FIXTURES / name / "logs"), "--out", str(tmp_path / seed)]
        subprocess.run(command, env=environment, capture_output=True, check=True)
    for format_name in format_names():
        file = load_format(format_name).FILE
        assert (tmp_path / "0" / file).read_bytes() == (tmp_path / "4711" / file).read_bytes(), file
