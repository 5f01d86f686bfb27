"""Saved jobs: everything comes back, the report is the same, and what is damaged or hostile is one clear error."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hangscope import api
from hangscope.cli.main import main
from hangscope.errors import InputError
from hangscope.model import Event, Frame, Line, ProcessDump, Report, SourceRecord, ThreadStack
from hangscope.parse.columns import writer_key
from hangscope.parse.reader import read_stream
from hangscope.parse.recorder.recording import Recording
from hangscope.parse.run import read_inputs
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.report.serialize import to_dict
from hangscope.sources.discover import discover
from hangscope.tables import SCHEMA, Tables
from hangscope.tables.reference import PAGE, render_reference
from hangscope.tables.saved.columns import plain_fields
from hangscope.tables.saved.reader import read_saved
from hangscope.tables.saved.writer import JobWriter
from hangscope.tables.schema import TABLES
from readme import README
from recorder_dumps import Dump, write
from score_fixtures import FIXTURES, Case, read_cases

# one of each kind of evidence
REPORTS = [
    "collective-op-mismatch-01-ag-rs-2289",
    "collective-skipped-01-one-call-2277",
    "layout-torchrun-attempts",
    "layout-tar-gz",
    "python-exception-c01-clock-ahead",
    "process-frozen-02-attached",
    "data-loading-stall-07-attached",
]
SKIPPED = FIXTURES / "collective-skipped-01-one-call-2277" / "logs"


def save(sources: list[ParsedSource], folder: Path) -> None:
    with JobWriter(folder) as writer:
        writer.add(sources)
        writer.finish(Tables([]), [], {}, {})


def calls_of(source: ParsedSource) -> tuple[object, ...]:
    calls = source.calls
    times = None if calls.times is None else list(map(repr, calls.times))
    if not len(calls):
        return (0,)
    return calls.writers, calls.ops, calls.devices, calls.shapes, calls.shape, calls.op_count, calls.line, times


def shared_lines(source: ParsedSource) -> list[int]:
    """Which of the lines are one object, by the place where each comes first."""
    lines = [event.line for event in source.events]
    lines += [line for writer in source.writers for line in (writer.first_line, writer.last_line) if line is not None]
    lines += [line for dump in source.dumps for line in (dump.line, *(thread.line for thread in dump.threads))]
    first: dict[int, int] = {}
    return [first.setdefault(id(line), place) for place, line in enumerate(lines)]


def assert_same(before: list[ParsedSource], after: list[ParsedSource]) -> None:
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        names = [field.name for field in dataclasses.fields(ParsedSource) if field.name != "calls"]
        assert [getattr(old, name) for name in names] == [getattr(new, name) for name in names]
        assert calls_of(old) == calls_of(new)
        assert shared_lines(old) == shared_lines(new)


def plain(report: Report) -> dict[str, Any]:
    return to_dict(report)


# --- what comes back --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case.name)
def test_everything_that_was_read_comes_back(case: Case, tmp_path: Path) -> None:
    sources = read_inputs(discover([str(case.logs)])[0], jobs=1)
    save(sources, tmp_path / "saved")
    assert_same(sources, read_saved(tmp_path / "saved").sources)


@pytest.mark.parametrize("name", REPORTS)
def test_the_report_of_saved_tables_is_that_of_the_logs(name: str, tmp_path: Path) -> None:
    logs = FIXTURES / name / "logs"
    report = plain(api.analyze(logs))
    assert plain(api.analyze(logs, tables=tmp_path / "saved")) == report
    assert plain(api.analyze(tmp_path / "saved")) == report


def test_flight_recorders_come_back(tmp_path: Path) -> None:
    for rank in range(4):
        dump = Dump(rank)
        for number in range(3 if rank == 2 else 4):
            dump.call(size=64 + number, state="scheduled" if number == 3 else "completed")
        write(tmp_path / "dumps", [dump])
    report = plain(api.analyze(tmp_path / "dumps", tables=tmp_path / "saved"))
    assert report["verdict"]["ranks"] == [2]
    assert plain(api.analyze(tmp_path / "saved")) == report


def test_the_command_line_writes_and_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(SKIPPED), "--tables", str(tmp_path / "saved"), "--format", "json"]) == 0
    first = capsys.readouterr().out
    assert main(["analyze", str(tmp_path / "saved"), "--format", "json"]) == 0
    assert capsys.readouterr().out == first


def test_quoted_lines_need_no_logs(tmp_path: Path) -> None:
    shutil.copytree(SKIPPED, tmp_path / "logs")
    report = api.analyze(tmp_path / "logs", tables=tmp_path / "saved")
    shutil.rmtree(tmp_path / "logs")
    again = api.analyze(tmp_path / "saved")
    assert again == report
    quoted = [
        evidence.text for finding in again.findings for evidence in finding.evidence if "opCount" in evidence.text
    ]
    assert quoted and all("sendbuff 0x" in text for text in quoted)


def test_load_reads_saved_tables(tmp_path: Path) -> None:
    api.analyze(SKIPPED, tables=tmp_path / "saved")
    assert api.load(tmp_path / "saved").tables.calls.equals(api.load(SKIPPED).tables.calls)


def test_saved_tables_of_two_hosts_are_one_job(tmp_path: Path) -> None:
    for host in ("a", "b"):
        (tmp_path / host).mkdir()
    for number, log in enumerate(sorted(SKIPPED.glob("rank*"))):
        shutil.copy(log, tmp_path / "ab"[number % 2] / log.name)
    for host in ("a", "b"):
        api.analyze(tmp_path / host, tables=tmp_path / f"saved-{host}")
    ranks = api.load(str(tmp_path / "saved-*")).ranks
    assert ranks.keys() == api.load(SKIPPED).ranks.keys()
    # and with logs beside
    assert api.load(tmp_path / "saved-a", tmp_path / "b").ranks.keys() == ranks.keys()


def test_equal_names_in_two_saved_jobs_are_told_apart(tmp_path: Path) -> None:
    for name, line in (("a", "[rank0]: ValueError: left\n"), ("b", "[rank1]: ValueError: right\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out.log").write_text(line, encoding="utf-8")
        api.analyze(tmp_path / name, tables=tmp_path / f"saved-{name}")
    job = api.load(tmp_path / "saved-a", tmp_path / "saved-b")
    assert [record.file for record in job.sources] == ["out.log", "saved-b/out.log"]
    assert {event.line.file for event in job.events} <= {"out.log", "saved-b/out.log"}


def test_unreadable_inputs_are_remembered(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "core").write_bytes(b"\x7fELF" + bytes(100))
    (tmp_path / "logs" / "a.log").write_text("[rank0]: ValueError: x\n", encoding="utf-8")
    report = plain(api.analyze(tmp_path / "logs", tables=tmp_path / "saved"))
    assert any(source["error"] for source in report["sources"])
    assert plain(api.analyze(tmp_path / "saved")) == report


def test_strange_values_come_back(tmp_path: Path) -> None:
    line = Line("a.log", 1, 0, "half a \ud800 character", "shown \x1b[31m", pid=10**30, time=-0.5)
    source = read_stream("a.log", io.BytesIO(b"[rank0]: ValueError: x\n"))
    fields = {"i": 2**70, "f": 1.0, "b": True, "n": None, "t": ("x", "\udfff"), "l": (1, 2), "e": ()}
    source.events = [Event("s", "k", dict(fields), line), Event("s", "k", {}, line, count=3)]
    source.writers.append(WriterInfo(writer_key(line)))
    save([source], tmp_path / "saved")
    (after,) = read_saved(tmp_path / "saved").sources
    assert_same([source], [after])
    assert [type(value) for value in after.events[0].fields.values()] == [type(value) for value in fields.values()]


PLACED = {
    Line: {"file"},
    Event: {"fields", "line"},
    WriterInfo: {"key", "first_line", "last_line"},
    ProcessDump: {"line", "threads"},
    ThreadStack: {"frames", "line"},
    Frame: set(),
    SourceRecord: set(),
    Recording: {"file", "version", "groups", "shapes", "shape", "seq", "state", "time_us", "lines"},
}
"""What is no plain value, and what is known from the place where it stands."""


@pytest.mark.parametrize("kind", PLACED, ids=lambda kind: kind.__name__)
def test_every_field_has_its_place(kind: type) -> None:
    names = {field.name for field in dataclasses.fields(kind)}
    assert names - plain_fields(kind).keys() == PLACED[kind] - {"file"}, "give it a place in tables/saved/encode.py"


def test_many_calls_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hangscope.tables.saved.encode.NUMBERS", 7)
    monkeypatch.setattr("hangscope.tables.saved.encode._ROWS", 5)
    monkeypatch.setattr("hangscope.tables.saved.writer._FLUSH_BYTES", 1000)
    monkeypatch.setattr("hangscope.tables.saved.reader._BATCH", 3)
    sources = read_inputs(discover([str(SKIPPED)])[0], jobs=1)
    save(sources, tmp_path / "saved")
    assert pq.ParquetFile(tmp_path / "saved" / "parsed.parquet").num_row_groups > 10
    assert_same(sources, read_saved(tmp_path / "saved").sources)


def test_tables_beside_their_logs_are_passed_over(tmp_path: Path) -> None:
    shutil.copytree(SKIPPED, tmp_path / "logs")
    report = plain(api.analyze(tmp_path / "logs", tables=tmp_path / "logs" / "tables"))
    assert plain(api.analyze(tmp_path / "logs")) == report
    for log in (tmp_path / "logs").glob("*.*"):
        log.unlink()
    with pytest.raises(InputError, match="no logs in") as error:
        api.analyze(tmp_path / "logs")
    assert "logs/tables" in error.value.advice


# --- the tables for people --------------------------------------------------------------------------------


def test_every_table_is_there_with_its_columns(tmp_path: Path) -> None:
    api.analyze(SKIPPED, tables=tmp_path / "saved")
    job = api.load(SKIPPED)
    for name, columns in SCHEMA.items():
        table = pq.read_table(tmp_path / "saved" / f"{name}.parquet")
        assert table.schema.names == [column.name for column in columns]
        assert table.num_rows == len(getattr(job.tables, name))
        assert {field.metadata[b"about"].decode() for field in table.schema} == {column.about for column in columns}
    calls = pq.read_table(tmp_path / "saved" / "calls.parquet")
    for name in ("file", "line", "op", "seq", "count", "comm", "signature"):
        assert calls[name].to_pylist() == job.tables.calls[name].tolist()
    first = json.loads(pq.read_table(tmp_path / "saved" / "events.parquet")["fields"][0].as_py())
    assert first == json.loads(json.dumps(job.events.all[0].fields))


def test_the_page_of_tables_is_fresh() -> None:
    assert TABLES.keys() == SCHEMA.keys()
    assert PAGE.read_text(encoding="utf-8") == render_reference(), "run: python -m hangscope.tables.reference"


def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (example,) = [block for block in blocks if "tables=" in block]
    shutil.copytree(SKIPPED, tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 (our own README)
    assert (tmp_path / "saved" / "calls.parquet").is_file()


def test_tables_are_compressed_with_zstd(tmp_path: Path) -> None:
    api.analyze(SKIPPED, tables=tmp_path / "saved")
    for file in (tmp_path / "saved").glob("*.parquet"):
        metadata = pq.ParquetFile(file).metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        assert {group.column(n).compression for group in groups for n in range(group.num_columns)} <= {"ZSTD"}


# --- what is refused --------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    api.analyze(SKIPPED, tables=tmp_path / "saved")
    return tmp_path / "saved"


def manifest(folder: Path, **changes: object) -> None:
    file = folder / "hangscope-tables.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def test_a_newer_format_is_told(saved: Path) -> None:
    manifest(saved, version=99, hangscope="9.1")
    with pytest.raises(InputError, match=r"saved by hangscope 9\.1 in format 99") as error:
        api.load(saved)
    assert "Update hangscope" in error.value.advice


def test_an_interrupted_save_is_told_and_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(JobWriter, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            api.analyze(SKIPPED, tables=tmp_path / "saved")
    with pytest.raises(InputError, match="interrupted"):
        api.load(tmp_path / "saved")
    api.analyze(SKIPPED, tables=tmp_path / "saved")
    assert api.load(tmp_path / "saved").ranks


def cut(folder: Path) -> None:
    file = folder / "parsed.parquet"
    file.write_bytes(file.read_bytes()[:-100])


def flip(folder: Path) -> None:
    file = folder / "parsed.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)


def lose(folder: Path) -> None:
    (folder / "parsed.parquet").unlink()


def garble(folder: Path) -> None:
    (folder / "hangscope-tables.json").write_text('{"format": ', encoding="utf-8")


@pytest.mark.parametrize("harm", [cut, flip, lose, garble])
def test_damage_is_one_clear_error(
    saved: Path, harm: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    harm(saved)
    assert main(["analyze", str(saved)]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "is damaged" in said.err and "Save it again" in said.err and "Traceback" not in said.err


def test_damaged_tables_for_people_do_not_matter(saved: Path) -> None:
    (saved / "events.parquet").unlink()
    assert api.load(saved).ranks


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The folder as a stranger might have made it: every row passes through `change`."""
    file = folder / "parsed.parquet"
    table = pq.read_table(file)
    rows = table.to_pylist()
    for row in rows:
        row["value"] = json.loads(row["value"])
        change(row)
        row["value"] = json.dumps(row["value"])
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    manifest(folder, files={"parsed.parquet": file.stat().st_size})


def of(part: str, **values: object) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        if row["part"] == part:
            row["value"].update(values)

    return change


def numbers(part: str, ints: list[int] | None) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        if row["part"] == part:
            row["ints"] = ints if ints is None or row["ints"] is None else (ints * len(row["ints"]))[: len(row["ints"])]

    return change


def renamed(part: str, name: str) -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        if row["part"] == part:
            row["part"] = name

    return change


HOSTILE = {
    "unchanged": lambda _: None,
    "a text that is a number": of("lines", text={"all": 7}),
    "a number that is a text": of("lines", number={"all": "7"}),
    "a time that is a text": of("lines", time={"all": "noon"}),
    "a number of rows that is wrong": of("lines", n=10**12),
    "a negative number of rows": of("lines", n=-1),
    "a column that is missing": of("lines", text=None),
    "an event's line that is not there": of("events", line={"all": 10**9}),
    "nested fields": of("events", fields=[{"a": {"b": []}}]),
    "fields that are none": of("events", fields=[7]),
    "events of an unknown writer": of("lines", host={"all": "elsewhere"}),
    "shapes of calls out of range": numbers("call_shape", [10**6]),
    "negative shapes": numbers("call_shape", [-1]),
    "numbers too large": numbers("call_line", [2**40]),
    "no numbers": numbers("call_line", None),
    "a writer of calls that is not there": of("call_shapes", writer={"all": 99}),
    "operations that are numbers": of("calls", ops=[1, 2, 3]),
    "an unknown part": renamed("events", "pickle"),
    "a missing end": renamed("end", "lines"),
    "a missing head": renamed("source", "end"),
    "rows without a head": renamed("calls", "call_shapes"),
    "quotes that are none": lambda row: row.update(value=[["a", "b", 1]]) if row["part"] == "quotes" else None,
    "lines around a line that are none": lambda row: (
        row.update(value=[["a.log", 1, "ab", ["c"]]]) if row["part"] == "around" else None
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_strangers_folder_is_checked(saved: Path, name: str) -> None:
    rewrite(saved, HOSTILE[name])
    if name == "unchanged":
        assert plain(api.analyze(saved)) == plain(api.analyze(SKIPPED))
        return
    with pytest.raises(InputError, match="is damaged"):
        api.load(saved)


def test_deeply_nested_json_is_an_error(saved: Path) -> None:
    file = saved / "parsed.parquet"
    table = pq.read_table(file)
    rows = table.to_pylist()
    rows[1]["value"] = "[" * 1_000_000
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    manifest(saved, files={"parsed.parquet": file.stat().st_size})
    with pytest.raises(InputError, match="is damaged"):
        api.load(saved)


def test_what_decompresses_too_far_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hangscope.tables.saved.reader._FLOOR", 10)
    monkeypatch.setattr("hangscope.tables.saved.reader._RATIO", 1)
    with pytest.raises(InputError, match="decompresses to far more"):
        api.load(saved)


def test_a_folder_with_other_files_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep\n", encoding="utf-8")
    with pytest.raises(InputError, match="is not empty"):
        api.analyze(SKIPPED, tables=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_the_folder_that_is_read_is_not_written(saved: Path) -> None:
    with pytest.raises(InputError, match="read and written at once"):
        api.analyze(saved, tables=saved)
    assert api.load(saved).ranks


def test_what_was_saved_outlives_a_mistyped_path(saved: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        api.analyze(saved.parent / "lgos", tables=saved)
    assert api.load(saved).ranks


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        api.analyze(SKIPPED, tables=tmp_path / "file" / "saved")


def test_a_missing_pyarrow_is_told(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (lambda: api.load(saved), lambda: api.analyze(SKIPPED, tables=saved.parent / "new")):
        with pytest.raises(InputError, match="need pyarrow") as error:
            call()
        assert "pip install 'hangscope[tables]'" in error.value.advice
    assert not (saved.parent / "new").exists()
