"""Reports that were written beside the logs are not read as logs."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

import report_samples
from hangscope import api
from hangscope.errors import InputError
from hangscope.report.files import write_files
from hangscope.report.formats import format_names, load_format
from hangscope.report.options import RenderOptions
from hangscope.sources.discover import discover
from hangscope.sources.own_reports import is_own_report
from report_samples import SAMPLES


def _head(name: str, make: object, **options: object) -> bytes:
    assert callable(make)
    stream = io.StringIO()
    load_format(name).render(make(), stream, RenderOptions(**options))  # type: ignore[arg-type]
    return stream.getvalue().encode()[:8192]


@pytest.mark.parametrize("make", [*SAMPLES.values(), report_samples.hostile])
@pytest.mark.parametrize("name", format_names())
def test_every_format_is_known(name: str, make: object) -> None:
    assert is_own_report(_head(name, make))


@pytest.mark.parametrize("options", [{"color": True}, {"encoding": "ascii"}, {"width": 40}])
def test_pages_of_any_terminal_are_known(options: dict[str, object]) -> None:
    assert is_own_report(_head("text", report_samples.out_of_memory, **options))


@pytest.mark.parametrize(
    "head",
    [b"", b"ROOT CAUSE: unknown", b"### Step 3\n\nloss 2.1\n", b"<!doctype html>\n<html lang='en'>", b'{"a": 1}'],
)
def test_other_files_are_not(head: bytes) -> None:
    assert not is_own_report(head)


def test_a_second_run_over_logs_and_reports_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("Traceback (most recent call last):\n  File 'a', line 1\nValueError: no\n")
    first = api.analyze(tmp_path)
    write_files(first, tmp_path / "report", map(load_format, format_names()), RenderOptions())
    assert api.analyze(tmp_path) == first
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "report")
    assert len(discover([str(tmp_path)])[0]) == 1


def test_who_names_a_report_is_told(tmp_path: Path) -> None:
    (file,) = write_files(report_samples.no_fault(), tmp_path, [load_format("text")], RenderOptions())
    with pytest.raises(InputError, match=r"report\.txt: a report of hangscope, not a log"):
        api.analyze(file)
