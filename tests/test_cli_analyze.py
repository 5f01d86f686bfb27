"""`hangscope analyze`: exit statuses of the contract, formats, and what the output may be told."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import pytest

import hangscope
import report_samples
from hangscope.cli._output import add_output_arguments, open_output
from hangscope.cli.main import main
from hangscope.errors import InputError
from hangscope.model import Report, SourceRecord
from hangscope.report.formats import format_names, load_format
from hangscope.report.options import RenderOptions

Analysis = Callable[[Report | Exception], dict[str, Any]]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def analysis(monkeypatch: pytest.MonkeyPatch) -> Analysis:
    """Makes the analysis give a report (or fail); returns what it was asked."""
    asked: dict[str, Any] = {}

    def give(outcome: Report | Exception) -> dict[str, Any]:
        def analyze(*paths: str, **options: object) -> Report:
            asked.update(options, paths=paths)
            asked.get("on_start", lambda _: None)(options["progress"])
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        api = ModuleType("hangscope.api")
        api.__dict__["analyze"] = analyze
        monkeypatch.setitem(sys.modules, "hangscope.api", api)
        monkeypatch.setattr(hangscope, "api", api, raising=False)
        return asked

    return give


@pytest.mark.parametrize(
    ("make", "flags", "status"),
    [
        (report_samples.out_of_memory, [], 0),
        (report_samples.out_of_memory, ["--exit-code"], 1),
        (report_samples.insufficient_evidence, ["--exit-code"], 1),
        (report_samples.no_fault, ["--exit-code"], 0),
    ],
)
def test_exit_status(
    analysis: Analysis, capsys: pytest.CaptureFixture[str], make: Callable[[], Report], flags: list[str], status: int
) -> None:
    analysis(make())
    assert main(["analyze", "logs", *flags]) == status
    assert capsys.readouterr().err == ""


def test_paths_may_stand_behind_options(analysis: Analysis, capsys: pytest.CaptureFixture[str]) -> None:
    asked = analysis(report_samples.no_fault())
    assert main(["analyze", "a.log", "--jobs", "1", "b.log", "-q", "c.log"]) == 0
    assert asked["paths"] == ("a.log", "b.log", "c.log")
    for wrong in (["analyze", "a.log", "--job-count", "1"], ["rules", "a.log"]):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
        assert "unrecognized arguments" in capsys.readouterr().err


def test_nothing_to_analyze_is_2_and_leaves_standard_output_empty(
    analysis: Analysis, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis(InputError("no such path: logs", "Give a file or a folder."))
    assert main(["analyze", "logs", "--format", "json"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err == "hangscope: no such path: logs\nGive a file or a folder.\n"


def test_nothing_readable_is_2(analysis: Analysis, capsys: pytest.CaptureFixture[str]) -> None:
    report = report_samples.no_fault()
    failed = tuple(replace(source, error="Permission denied", lines=0) for source in report.sources)
    analysis(replace(report, sources=failed))
    assert main(["analyze", "train.log"]) == 2
    assert "nothing could be read: train.log: Permission denied" in capsys.readouterr().err


def test_what_was_read_before_an_error_is_an_answer(analysis: Analysis) -> None:
    report = report_samples.no_fault()
    failed = tuple(replace(source, error="damaged", lines=9) for source in report.sources)
    analysis(replace(report, sources=failed))
    assert main(["analyze", "train.log"]) == 0


def test_some_unreadable_files_are_no_failure(analysis: Analysis) -> None:
    analysis(report_samples.missing_ranks())
    assert main(["analyze", "logs"]) == 0


@pytest.mark.parametrize(
    "flags", [["--format", "pictures"], ["--jobs", "0"], ["--width", "wide"], ["--quiet", "--verbose"], []]
)
def test_wrong_usage_is_2(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["analyze", *flags, *(["logs"] if flags else [])])
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_options_reach_the_analysis(analysis: Analysis) -> None:
    asked = analysis(report_samples.no_fault())
    main(
        [
            "analyze",
            "a",
            "b",
            "--jobs",
            "3",
            "--rules",
            "mine",
            "--rules",
            "ours",
            "--quiet",
            "--scheduler",
            "tcp://a:1",
        ]
    )
    assert asked["paths"] == ("a", "b")
    assert asked["jobs"] == 3
    assert asked["scheduler"] == "tcp://a:1"
    assert asked["rules"] == (Path("mine"), Path("ours"))
    assert asked["progress"] is None


def test_json_is_all_there_is_on_standard_output(analysis: Analysis, capsys: pytest.CaptureFixture[str]) -> None:
    analysis(report_samples.out_of_memory())
    main(["analyze", "logs", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["verdict"]["cause"] == "gpu-out-of-memory"


def test_width_is_kept(analysis: Analysis, capsys: pytest.CaptureFixture[str]) -> None:
    analysis(report_samples.out_of_memory())
    main(["analyze", "logs", "--width", "60"])
    assert max(len(line) for line in capsys.readouterr().out.split("\n") if not line.startswith("      ")) <= 60


@pytest.mark.parametrize(
    ("flags", "variable", "terminal", "colored"),
    [
        ([], "", True, True),
        ([], "", False, False),
        ([], "NO_COLOR=1", True, False),
        ([], "NO_COLOR=", True, True),
        ([], "TERM=dumb", True, False),
        (["--color", "always"], "NO_COLOR=1", False, True),
        (["--color", "never"], "", True, False),
    ],
)
def test_color_is_for_terminals_that_want_it(
    page: Callable[..., str], flags: list[str], variable: str, terminal: bool, colored: bool
) -> None:
    assert ("\x1b[" in page(flags, variable, terminal=terminal)) is colored


@pytest.fixture
def page(analysis: Analysis, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Renders a report to a terminal, or to something else, with one environment variable set."""

    def render(flags: list[str], variable: str, *, terminal: bool) -> str:
        analysis(report_samples.out_of_memory())
        stream = _Terminal() if terminal else io.StringIO()
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "90")
        if variable:
            monkeypatch.setenv(*variable.split("=", 1))
        main(["analyze", "logs", *flags])
        return stream.getvalue()

    return render


@pytest.mark.parametrize(("total_bytes", "shown"), [(1_000, False), (500_000_000, True)])
def test_progress_is_shown_on_a_terminal_when_there_is_much_to_read(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch, total_bytes: int, shown: bool
) -> None:
    errors = _Terminal()
    monkeypatch.setattr(sys, "stderr", errors)
    asked = analysis(report_samples.no_fault())
    asked["on_start"] = lambda progress: [progress(done, total_bytes) for done in (total_bytes // 2, total_bytes)]
    assert main(["analyze", "logs", "--quiet"]) == 0
    assert ("reading" in errors.getvalue()) is shown


def test_quiet_says_on_standard_error_what_it_could_not_read(
    analysis: Analysis, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_samples.out_of_memory()
    analysis(
        replace(report, sources=(*report.sources, SourceRecord("nosuch", "log", 0, 0, 0, "no such file or folder")))
    )
    assert main(["analyze", "logs", "--quiet"]) == 0
    assert "hangscope: left out nosuch: no such file or folder\n" in capsys.readouterr().err


def _files_of(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_out_writes_a_file_for_each_format_and_shows_the_text(
    analysis: Analysis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis(report_samples.out_of_memory())
    folder = tmp_path / "new" / "reports"
    asked = ["analyze", "logs", "--width", "90", "--out", str(folder), "--format", "json, text", "--format", "json"]
    assert main(asked) == 0
    streams = capsys.readouterr()
    assert _files_of(folder) == {"report.json", "report.txt"}
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["verdict"]["cause"] == "gpu-out-of-memory"
    assert (folder / "report.txt").read_text(encoding="utf-8") == streams.out
    assert streams.err == "".join(f"hangscope: wrote {folder / name}\n" for name in ("report.json", "report.txt"))


def test_out_alone_writes_every_format(analysis: Analysis, tmp_path: Path) -> None:
    analysis(report_samples.out_of_memory())
    assert main(["analyze", "logs", "--out", str(tmp_path), "--quiet"]) == 0
    assert _files_of(tmp_path) == {load_format(name).FILE for name in format_names()}


def test_no_two_formats_write_the_same_file() -> None:
    files = [load_format(name).FILE for name in format_names()]
    assert len(set(files)) == len(files)


def test_out_with_quiet_prints_the_verdict_and_writes_the_whole_report(
    analysis: Analysis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis(report_samples.out_of_memory())
    main(["analyze", "logs", "--out", str(tmp_path), "--format", "text", "--quiet"])
    assert capsys.readouterr().out.count("\n") == 1
    assert "ROOT CAUSE" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_files_are_for_no_terminal(analysis: Analysis, tmp_path: Path) -> None:
    analysis(report_samples.out_of_memory())
    main(["analyze", "logs", "--out", str(tmp_path), "--format", "text", "--color", "always"])
    assert "\x1b" not in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_several_formats_without_a_folder_are_wrong_usage(
    analysis: Analysis, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = analysis(report_samples.out_of_memory())
    assert main(["analyze", "logs", "--format", "json,text"]) == 2
    streams = capsys.readouterr()
    assert (streams.out, asked) == ("", {})
    assert streams.err == (
        "hangscope: several formats do not fit into one output\nAdd --out DIR: each gets a file there.\n"
    )


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_one_is_told_before_the_work(
    analysis: Analysis, tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    asked = analysis(report_samples.out_of_memory())
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert main(["analyze", "logs", "--out", str(tmp_path / place)]) == 2
    assert asked == {}
    assert "is no folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_report_that_fails_half_way_leaves_the_old_one(
    analysis: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def render(report: Report, stream: TextIO, options: RenderOptions) -> None:  # noqa: ARG001 (a format's signature)
        stream.write("half of it")
        raise OSError(28, "No space left on device")

    analysis(report_samples.out_of_memory())
    (tmp_path / "report.json").write_text("old", encoding="utf-8")
    monkeypatch.setattr(load_format("json"), "render", render)
    assert main(["analyze", "logs", "--out", str(tmp_path), "--format", "json"]) == 2
    assert f"{tmp_path / 'report.json'} cannot be written: No space left on device" in capsys.readouterr().err
    assert _files_of(tmp_path) == {"report.json"}
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "old"


def test_reports_on_several_jobs_have_a_folder_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_output_arguments(parser)
    output = open_output(parser.parse_args(["--out", str(tmp_path), "--format", "json"]))
    for number, make in enumerate((report_samples.out_of_memory, report_samples.no_fault), 1):
        output.show(make(), f"job{number}")
    causes = [
        json.loads((tmp_path / f"job{n}" / "report.json").read_text(encoding="utf-8"))["verdict"]["cause"]
        for n in (1, 2)
    ]
    assert causes == ["gpu-out-of-memory", "no-fault-found"]
    assert "NO FAULT FOUND" in capsys.readouterr().out
