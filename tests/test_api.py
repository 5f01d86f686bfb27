"""The functions that notebooks and the command line call, and the tables they give."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pandas as pd
import pytest

from hangscope import api
from hangscope.errors import InputError, UnknownNameError
from hangscope.facts.collect import collect_facts, fact_kinds
from hangscope.grammar import load_set
from hangscope.model import Report
from hangscope.tables import SCHEMA, Tables
from nccl_logs import Rank, job_of, job_of_ranks, ranks
from recorder_dumps import Dump
from score_fixtures import FIXTURES

SKIPPED = FIXTURES / "collective-skipped-01-one-call-2277" / "logs"
FAULT = [
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/job/train.py", line 7, in main',
    "[rank1]: ValueError: no such batch",
]


def dtypes(table: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in table.dtypes.items()}


def expected_dtypes(name: str) -> dict[str, str]:
    return {column.name: "object" if column.dtype == "str" else column.dtype for column in SCHEMA[name]}


# --- load -------------------------------------------------------------------------------------------------


def test_load_takes_folders_files_and_globs_as_paths_or_text() -> None:
    whole = api.load(SKIPPED)
    assert api.load(str(SKIPPED)).ranks.keys() == whole.ranks.keys() == {0, 1, 2, 3}
    assert api.load(SKIPPED / "rank0.log", SKIPPED / "rank1.log").ranks.keys() == {0, 1}
    assert api.load(str(SKIPPED / "rank*.log")).ranks.keys() == {0, 1, 2, 3}


def test_python_looks_for_cycles_again_after_an_analysis_and_after_one_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bool] = []

    def broken(*_: object) -> None:
        seen.append(gc.isenabled())
        raise InputError("no job")

    api.load(next(FIXTURES.glob("*/logs")))
    assert gc.isenabled()
    monkeypatch.setattr("hangscope.api.reading.align", broken)
    with pytest.raises(InputError, match="no job"):
        api.load(next(FIXTURES.glob("*/logs")))
    assert seen == [False]
    assert gc.isenabled()


def test_load_of_what_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        api.load(tmp_path / "nowhere")


def test_load_of_an_empty_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        api.load(tmp_path)


def test_jobs_that_attach_kept_apart_are_not_mixed(tmp_path: Path) -> None:
    for name in ("job1-10.0.0.1_29500/alpha", "job2-10.0.0.1_29600/alpha"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "attach.txt").write_text("hangscope attach: shm pid=7 size_bytes=9 used_bytes=1\n")
    for read in (api.load, api.analyze):
        with pytest.raises(InputError, match=r"these are 2 jobs: job1-10\.0\.0\.1_29500, job2-"):
            read(tmp_path)
    assert isinstance(api.analyze(tmp_path / "job1-10.0.0.1_29500"), Report)


def test_one_job_seen_from_two_hosts_is_one(tmp_path: Path) -> None:
    for name in ("a/job1-10.0.0.1_29500/alpha", "b/job2-10.0.0.1_29500/beta"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "attach.txt").write_text("hangscope attach: shm pid=7 size_bytes=9 used_bytes=1\n")
    assert isinstance(api.analyze(tmp_path), Report)


def test_load_tells_its_progress_to_the_last_byte() -> None:
    told: list[tuple[int, int]] = []
    api.load(SKIPPED, progress=lambda done, total: told.append((done, total)))
    assert len(told) == 5
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == sum(path.stat().st_size for path in SKIPPED.iterdir())


def test_several_processes_read_what_one_reads(tmp_path: Path) -> None:
    # GIVEN enough to be worth a pool
    for log in ranks(4):
        for number in range(15_000):
            log.call("AllReduce", number)
        (tmp_path / f"{log.rank}.log").write_text("\n".join(log.lines) + "\n", encoding="utf-8")
    one, two = api.load(tmp_path, jobs=1), api.load(tmp_path, jobs=2)
    pd.testing.assert_frame_equal(one.tables.calls, two.tables.calls)
    assert one.sources == two.sources


def test_unreadable_input_is_an_entry_in_sources_and_no_end_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_text("\n".join(FAULT) + "\n", encoding="utf-8")
    (tmp_path / "bad.log.gz").write_bytes(b"\x1f\x8b\x08\x00" + b"\xff" * 400)
    job = api.load(tmp_path)
    assert [(record.file, record.error is None) for record in job.sources] == [
        ("bad.log.gz", False),
        ("good.log", True),
    ]
    assert sorted(job.ranks) == [1]


# --- analyze ----------------------------------------------------------------------------------------------


def test_analyze_gives_a_report() -> None:
    report = api.analyze(SKIPPED)
    assert isinstance(report, Report)
    assert report.verdict in report.findings
    assert report.job.world_size == 4
    assert [state.rank for state in report.ranks] == [0, 1, 2, 3]


def test_analyze_text_reads_several_files() -> None:
    text = "### FILE a.log\nloss 0.3\n### FILE b.log\n" + "\n".join(FAULT)
    findings = api.analyze_text(text)
    assert any(evidence.at.file == "b.log" for finding in findings for evidence in finding.evidence)


def test_rules_of_one_s_own_are_applied(tmp_path: Path) -> None:
    (tmp_path / "process").mkdir()
    source = (FIXTURES.parent / "rules" / "process" / "python-exception-uncaught.toml").read_text(encoding="utf-8")
    text = source.replace('"python-exception-uncaught"', '"my-rule"', 1)
    (tmp_path / "process" / "my-rule.toml").write_text(text, encoding="utf-8")
    rules = {finding.rule for finding in api.diagnose(job_of({"a.log": FAULT}), rules=[tmp_path]).findings}
    assert "my-rule" in rules


def test_explain_knows_causes_and_rules_and_says_what_it_does_not_know() -> None:
    assert "python-exception" in api.explain("python-exception")
    assert "python-exception-uncaught" in api.explain("python-exception-uncaught")
    with pytest.raises(UnknownNameError, match="no-such-name"):
        api.explain("no-such-name")


# --- facts ------------------------------------------------------------------------------------------------


def test_every_event_is_a_fact_of_its_own_kind() -> None:
    facts = collect_facts(job_of({"a.log": FAULT}))
    (fact,) = [fact for fact in facts if fact.kind == "exception"]
    assert (fact.ranks, fact.fields["type"]) == ((1,), "ValueError")
    assert fact.evidence[0].at.line == 3, "the line that names the exception"


def test_names_of_facts_and_of_events_do_not_collide() -> None:
    assert sorted(set(fact_kinds()) & set(load_set().kinds())) == []


def test_part_of_the_analysis_that_fails_costs_its_facts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_job: object) -> list[object]:
        raise RuntimeError("a defect")

    monkeypatch.setattr("hangscope.facts.init.find", broken)
    assert any(fact.kind == "job_runs_well" for fact in collect_facts(job_of_ranks(ranks(2))))


# --- tables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMA)
def test_empty_table_has_exactly_the_columns_and_dtypes_of_the_schema(name: str) -> None:
    table = getattr(Tables([]), name)
    assert len(table) == 0
    assert dtypes(table) == expected_dtypes(name)


@pytest.mark.parametrize("name", SCHEMA)
def test_filled_table_has_exactly_the_columns_and_dtypes_of_the_schema(name: str) -> None:
    logs = [log.say("NCCL_ALGO set by environment to Ring").call().call("Send", root=0) for log in ranks(2)]
    files = {f"{log.rank}.log": log.lines for log in logs}
    kernel = "[Sun Mar  1 10:00:00 2026] NVRM: Xid (PCI:0000:1a:00): 79, pid=100, GPU has fallen off the bus."
    dump = json.dumps({"version": "2.10", "entries": Dump(0).call().entries})
    job = job_of({**files, "err.log": FAULT, "dmesg.log": [kernel], "nccl_trace_rank_0.json": [dump]})
    table = getattr(job.tables, name)
    assert list(table.columns) == list(expected_dtypes(name))
    assert dtypes(table) == expected_dtypes(name)
    assert len(table) > 0 or name == "stacks"


def test_every_column_is_described() -> None:
    assert [column for columns in SCHEMA.values() for column in columns if len(column.about) < 5] == []


def test_calls_point_into_processes_and_keep_their_lines() -> None:
    job = job_of({"a.log": Rank(3, 4).init().call("AllGather", 5).lines})
    (row,) = job.tables.calls.to_dict("records")
    assert job.processes[row["process"]].rank == 3
    assert (row["file"], row["line"], row["op"], row["count"], row["nranks"]) == ("a.log", 3, "AllGather", 5, 4)


def test_environment_has_one_row_a_variable() -> None:
    table = job_of({"a.log": ["RANK=2 WORLD_SIZE=4 LOCAL_RANK=0"]}).tables.environment
    assert {"rank", "world_size"} <= set(table["name"])


def test_where_nothing_tells_a_reason_the_last_line_of_each_rank_is_shown(tmp_path: Path) -> None:
    said = "[I1129 16:10:17.599111406 debug.cpp:48] [c10d] The debug level is set to INFO.\n"
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_text(f"{said}epoch 1\nsaved shard {rank}\n")
    verdict = api.analyze(tmp_path).verdict
    assert (verdict.cause, verdict.rule) == ("insufficient-evidence", "")
    shown = [(evidence.at.file, evidence.at.line, evidence.why) for evidence in verdict.evidence]
    assert shown == [(f"rank{rank}.log", 3, f"the last line of rank {rank}") for rank in range(2)]
