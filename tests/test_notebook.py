"""What notebooks see: tables with timestamps, parts of a job, a report that shows itself and goes into files."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import hangscope as hs
from hangscope import api
from hangscope.align.timeline import COLUMNS
from hangscope.errors import MissingEvidenceError, UnknownNameError, UsageError
from hangscope.notebook import Job, Selection
from hangscope.notebook.choice import Choice
from hangscope.notebook.functions import _shown as shown_attachment
from hangscope.notebook.history_part import history_part
from hangscope.plot.picture import Picture
from hangscope.tables import SCHEMA
from recorder_dumps import Dump, write_json
from score_fixtures import FIXTURES

SKIPPED = FIXTURES / "collective-skipped-01-one-call-2277" / "logs"
TIMED = FIXTURES / "no-fault-found-20-timestamps-2289" / "logs"
SUBGROUPS = FIXTURES / "collective-skipped-21-recorder-subgroup" / "logs"
KERNEL = FIXTURES / "gpu-fell-off-bus-03-xid79-154" / "logs"


@pytest.fixture(scope="module")
def skipped() -> Job:
    return hs.load(SKIPPED)


@pytest.fixture(scope="module")
def timed() -> Job:
    return hs.load(TIMED)


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


# --- import ------------------------------------------------------------------------------------------------


def test_import_loads_nothing_before_it_is_used() -> None:
    code = "import sys, hangscope; print(*sorted(name for name in sys.modules if name.startswith('hangscope')))"
    assert in_new_process(code).split() == ["hangscope"]


@pytest.mark.parametrize("name", hs.__all__)
def test_every_name_that_is_offered_is_there(name: str) -> None:
    assert getattr(hs, name) is not None
    assert name in dir(hs)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        hs.__getattr__("lode")


# --- tables ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMA)
def test_tables_have_the_columns_of_the_schema_with_timestamps(name: str, timed: Job) -> None:
    table = getattr(timed, name)
    assert list(table.columns) == [column.name for column in SCHEMA[name]]
    for column in SCHEMA[name]:
        assert pd.api.types.is_datetime64_any_dtype(table[column.name]) == column.moment


@pytest.mark.parametrize("name", SCHEMA)
def test_the_docstring_of_a_table_says_what_each_column_means(name: str, timed: Job) -> None:
    about = getattr(type(timed), name).__doc__
    for column in SCHEMA[name]:
        assert re.search(rf"^    {column.name} +{re.escape(column.said)}", about, re.MULTILINE)
    assert timed.columns(name)["column"].tolist() == [column.name for column in SCHEMA[name]]


def test_a_table_that_is_not_there_is_told_with_those_that_are(timed: Job) -> None:
    with pytest.raises(UnknownNameError, match="no table 'call'") as error:
        timed.columns("call")
    assert "calls" in error.value.advice
    assert error.value.__notes__ == [error.value.advice], "a traceback shows what to do, too"


def test_times_are_those_that_were_printed(timed: Job) -> None:
    row = timed.events.dropna(subset=["time"]).iloc[0]
    raw = api.load(TIMED).tables.events
    assert row["time"].timestamp() == pytest.approx(raw["time"].dropna().iloc[0], abs=1e-6)
    assert row["text"].startswith(f"[{row['time']}] ")


def test_calls_say_who_made_them(skipped: Job) -> None:
    last = skipped.calls.groupby(["group", "rank"], observed=True)["seq"].max()
    assert last.to_dict() == {("world", rank): 4 for rank in range(4)}
    assert skipped.calls.groupby("rank")["host"].first().to_dict() == {
        0: "node01",
        1: "node01",
        2: "node02",
        3: "node02",
    }


def test_files_whose_names_are_no_text_are_in_the_tables_too(tmp_path: Path) -> None:
    name = tmp_path / os.fsdecode(b"rank\xff.log")
    try:
        shutil.copy(SKIPPED / "rank0.log", name)
    except OSError:
        pytest.skip("this file system refuses such names")
    assert set(hs.load(tmp_path).calls["file"]) == {"rank\udcff.log"}


def test_each_table_is_made_once(skipped: Job) -> None:
    assert skipped.events is skipped.events


def test_a_job_knows_its_ranks_hosts_groups_and_versions(skipped: Job) -> None:
    assert (skipped.world_size, skipped.ranks, skipped.hosts) == (4, (0, 1, 2, 3), ("node01", "node02"))
    assert skipped.groups == ("world",)
    assert skipped.versions["nccl"] == "2.27.7"


# --- parts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "ranks"),
    [
        (2, {2}),
        (np.int64(2), {2}),
        ([0, 3], {0, 3}),
        (pd.Series([0, 3], dtype="Int64"), {0, 3}),
        (range(2), {0, 1}),
        ("1-3", {1, 2, 3}),
        ("0-3:2", {0, 2}),
        ("0, 2-3", {0, 2, 3}),
    ],
)
def test_select_by_rank(skipped: Job, wanted: int | str | list[int], ranks: set[int]) -> None:
    part = skipped.select(ranks=wanted)
    assert set(part.calls["rank"]) == set(part.events["rank"].dropna()) == ranks
    assert set(part.memberships["rank"]) == ranks
    assert len(part.communicators) == 1


@pytest.mark.parametrize("wanted", ["node02", "NODE*2", ["node02", "elsewhere"]])
def test_select_by_host(skipped: Job, wanted: str | list[str]) -> None:
    part = skipped.select(hosts=wanted)
    assert set(part.events["host"]) == set(part.calls["host"]) == {"node02"}
    assert set(part.processes["rank"].dropna()) == {2, 3}


def test_select_by_group_takes_the_rows_of_the_group_or_of_its_ranks() -> None:
    job = hs.load(SUBGROUPS)
    sizes = job.recorded_calls.groupby("group")["rank"].agg(set)
    name = min(sizes.index, key=lambda group: len(sizes[group]))
    part = job.select(group=name)
    assert set(part.recorded_calls["group"]) == {name}
    assert set(part.processes["rank"].dropna()) == sizes[name] < set(job.ranks)


def test_groups_may_be_named_as_the_job_calls_them(tmp_path: Path) -> None:
    dumps = [Dump(rank).call() for rank in range(2)]
    write_json(tmp_path, dumps)
    job = hs.load(tmp_path)
    described = {name for name in job.recorded_calls["group_description"] if name}
    for name in described:
        assert len(job.select(group=f"{name[:3]}*").recorded_calls) > 0
    assert described


def test_select_by_time_leaves_out_what_has_none(timed: Job) -> None:
    times = timed.events["time"].dropna().sort_values()
    middle = times.iloc[len(times) // 2]
    early, late = timed.select(before=middle).events, timed.select(after=middle).events
    assert early["time"].max() == late["time"].min() == middle
    assert len(early) + len(late) >= len(times)
    assert early["time"].notna().all()


@pytest.mark.parametrize(
    "spell",
    [
        lambda moment: moment.isoformat(),
        lambda moment: moment.strftime("%Y-%m-%d %H:%M:%S.%f"),
        lambda moment: moment.strftime("%H:%M:%S.%f"),
        lambda moment: moment.tz_localize("UTC").timestamp(),
        lambda moment: np.float64(moment.tz_localize("UTC").timestamp()),
        lambda moment: moment.to_pydatetime().replace(tzinfo=UTC),
        lambda moment: moment,
    ],
)
def test_a_moment_can_be_spelt_in_many_ways(
    timed: Job, spell: Callable[[pd.Timestamp], str | float | datetime]
) -> None:
    times = timed.events["time"].dropna().sort_values()
    moment = times.iloc[len(times) // 2]
    wanted = timed.events[timed.events["time"] >= moment]
    assert len(timed.select(after=spell(moment)).events) == len(wanted) > 0


def test_parts_of_parts_hold_what_all_asked_for(skipped: Job) -> None:
    part = skipped.select(hosts="node02").select(ranks="1-2")
    assert isinstance(part, Selection)
    assert set(part.calls["rank"]) == {2}
    assert set(skipped.select(hosts="node02", ranks="1-2").calls["rank"]) == {2}


def test_messages_of_a_host_belong_to_its_ranks(tmp_path: Path) -> None:
    logs = ["node01:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1a000 commId 0x9 - Init START"]
    logs += [logs[0].replace("node01", "node02").replace("rank 0 nranks", "rank 1 nranks")]
    (tmp_path / "job.log").write_text("\n".join(logs) + "\n", encoding="utf-8")
    said = "Mar  1 10:00:00 node02 kernel: NVRM: Xid (PCI:0000:1a:00): 79, pid=100, GPU has fallen off the bus."
    (tmp_path / "messages").write_text(said + "\n", encoding="utf-8")
    job = hs.load(tmp_path)
    assert job.host_messages["host"].tolist() == ["node02"]
    assert len(job.select(ranks=1).host_messages) == 1
    assert len(job.select(ranks=0).host_messages) == 0


def test_the_timeline_has_a_row_for_each_rank_and_call(skipped: Job) -> None:
    table = skipped.timeline_table()
    assert len(table) == 20
    assert table.loc[table["state"] == "differs", ["rank", "seq", "op"]].to_numpy().tolist() == [[2, 4, "all_gather"]]
    for column in COLUMNS:
        assert re.search(
            rf"^    {column.name} +{re.escape(column.said)}", skipped.timeline_table.__doc__ or "", re.MULTILINE
        )


def test_the_timeline_follows_what_was_selected() -> None:
    job = hs.load(SUBGROUPS)
    whole = job.timeline_table()
    assert pd.api.types.is_datetime64_any_dtype(whole["started"])
    assert (
        set(job.timeline_table(ranks="0-1")["rank"]) == set(job.select(ranks="0-1").timeline_table()["rank"]) == {0, 1}
    )
    name = str(whole["group"].iloc[-1])
    own = job.timeline_table(group=name)
    assert set(own["group"]) == {name}
    assert len(own) == (whole["group"] == name).sum()
    assert own["seq"].tolist() == whole.loc[whole["group"] == name, "seq"].tolist()
    assert len(job.timeline_table(last=1)) < len(whole)
    moment = whole["started"].max()
    assert set(job.select(after=moment).timeline_table()["started"]) == {moment}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ranks": 9}, "no such rank"),
        ({"hosts": "gpu*"}, "no host gpu"),
        ({"group": "tp0"}, "no group tp0"),
    ],
)
def test_what_the_job_does_not_have_is_told_with_what_it_has(skipped: Job, asked: dict[str, str], said: str) -> None:
    with pytest.raises(UnknownNameError, match=said) as error:
        skipped.select(**asked)
    assert re.search(r"0-3|node01, node02|world", error.value.advice)


@pytest.mark.parametrize(
    "asked",
    [
        {"ranks": "all"},
        {"ranks": "3-1"},
        {"ranks": ""},
        {"ranks": ["0-3"]},
        {"ranks": [float("nan")]},
        {"after": "yesterday evening"},
        {"before": "25:00:00"},
    ],
)
def test_what_makes_no_sense_is_an_error(timed: Job, asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        timed.select(**asked)


def test_a_clock_time_needs_a_day(skipped: Job) -> None:
    with pytest.raises(UsageError, match="none of its lines has one"):
        skipped.select(after="10:00:00")


# --- pictures ----------------------------------------------------------------------------------------------


def test_a_part_of_a_history_has_the_cells_of_its_ranks(skipped: Job) -> None:
    history = api.history_of(skipped.aligned, 30)
    assert history is not None
    (group,) = history_part(history, (), {0, 2}).groups
    assert group.ranks == (0, 2)
    assert [call.seq for call in group.calls] == [call.seq for call in history.groups[0].calls]
    assert [len(call.states) for call in group.calls] == [2] * len(group.calls)
    assert group.calls[-1].states == tuple(history.groups[0].calls[-1].states[rank] for rank in (0, 2))
    (other,) = history_part(history, (), {0, 1}).groups
    assert other.calls[-1].differing == {} != group.calls[-1].differing


def test_a_part_of_a_history_has_the_groups_that_are_named() -> None:
    history = api.history_of(hs.load(SUBGROUPS).aligned, 30)
    assert history is not None
    for group in history.groups:
        for name in filter(None, (group.group, group.description)):
            part = history_part(history, (Choice(groups=(name,)),), None)
            assert group in part.groups
    assert len(history_part(history, (Choice(groups=("0",)),), None).groups) == 1
    assert history_part(history, (), {77}).groups == ()


def test_a_part_of_a_history_has_the_calls_of_that_time() -> None:
    history = api.history_of(hs.load(SUBGROUPS).aligned, 30)
    assert history is not None
    moments = sorted(moment for call in history.groups[0].calls for moment in call.started if moment is not None)
    after = pd.Timestamp(moments[len(moments) // 2], unit="s").round("us")
    part = history_part(history, (Choice(after=after),), None).groups[0]
    assert 0 < len(part.calls) < len(history.groups[0].calls)
    assert all(any(m is not None and m >= after.timestamp() - 1e-6 for m in call.started) for call in part.calls)


def texts(picture: Picture) -> str:
    return "\n".join(text.get_text() for text in picture.findobj(Text))


def test_the_timeline_is_a_figure_that_says_who_is_waited_for(skipped: Job) -> None:
    picture = skipped.timeline()
    assert isinstance(picture, Figure)
    assert [f"rank {rank}" in texts(picture) for rank in range(4)] == [True] * 4
    narrow = skipped.timeline(ranks="1-2")
    assert "rank 2" in texts(narrow) and "rank 3 ·" not in texts(narrow)
    hosts = skipped.select(hosts="node01").timeline(dark=True)
    assert "rank 1 ·" in texts(hosts) and "rank 3 ·" not in texts(hosts)


def test_every_picture_is_at_hand(skipped: Job) -> None:
    assert isinstance(skipped.plot(), Figure)
    assert texts(skipped.plot("ranks")) == texts(skipped.analyze().plot("ranks"))


def test_a_job_without_calls_has_no_timeline(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("[rank1]: ValueError: no such batch\n", encoding="utf-8")
    with pytest.raises(MissingEvidenceError):
        hs.load(tmp_path).timeline()


# --- report ------------------------------------------------------------------------------------------------


def test_the_report_is_that_of_the_command_line(skipped: Job) -> None:
    report = skipped.analyze()
    assert report.to_dict() == hs.Report.of(api.analyze(SKIPPED)).to_dict()
    assert report.to_dict() == hs.analyze(SKIPPED).to_dict()
    quoted = [evidence.text for evidence in report.verdict.evidence if "opCount" in evidence.text]
    assert quoted and all("sendbuff 0x" in text for text in quoted), "lines are read again to be quoted"


def test_a_report_is_there_when_the_logs_are_gone(tmp_path: Path) -> None:
    log = tmp_path / "rank0.log"
    log.write_bytes((SKIPPED / "rank0.log").read_bytes())
    (tmp_path / "rank2.log").write_bytes((SKIPPED / "rank2.log").read_bytes())
    job = hs.load(tmp_path)
    log.unlink()
    assert job.analyze().verdict.ranks == job.analyze().verdict.ranks
    assert job.analyze().verdict.evidence


def test_report_as_text_names_the_verdict_the_ranks_and_the_proof(skipped: Job) -> None:
    text = repr(skipped.analyze())
    verdict = skipped.analyze().verdict
    assert verdict.cause in text
    assert "rank 2" in text
    assert f"{verdict.evidence[0].at.file}:{verdict.evidence[0].at.line}" in text
    assert max(map(len, text.splitlines())) <= 100


def test_show_prints_what_analyze_prints(skipped: Job, capsys: pytest.CaptureFixture[str]) -> None:
    report = skipped.analyze()
    report.show()
    assert capsys.readouterr().out == report.text()
    assert "What to do now" in report.text()


def test_save_writes_the_format_of_the_ending(skipped: Job, tmp_path: Path) -> None:
    report = skipped.analyze()
    assert json.loads(report.save(tmp_path / "a.json").read_text()) == report.to_dict()
    assert report.verdict.cause in report.save(str(tmp_path / "a.txt")).read_text()
    assert json.loads(report.save(tmp_path / "b.txt", format="json").read_text()) == report.to_dict()
    with pytest.raises(UsageError, match=r"a\.xyz"):
        report.save(tmp_path / "a.xyz")
    with pytest.raises(UnknownNameError):
        report.save(tmp_path / "a.txt", format="xyz")


def test_a_page_has_the_calls_that_led_up_to_the_fault(skipped: Job, tmp_path: Path) -> None:
    report = skipped.analyze()
    assert report.history is None
    page = report.save(tmp_path / "a.html").read_text(encoding="utf-8")
    without = hs.Report.of(report).text(format="html")
    assert len(page) > len(without) + 200


def test_what_attach_found_shows_itself_too(tmp_path: Path) -> None:
    def attach(pid: int, *, say: str = "") -> api.Attachment | None:
        return api.Attachment(tmp_path / say, ("job1",), (api.analyze(SKIPPED),)) if pid else None

    found = shown_attachment(attach)(7, say="x")
    assert found is not None
    assert isinstance(found.report, hs.Report)
    assert (found.bundle, found.jobs) == (tmp_path / "x", ("job1",))
    assert shown_attachment(attach)(0) is None
    assert inspect.signature(hs.attach) == inspect.signature(api.attach)


def test_a_report_can_be_sent_to_another_process(skipped: Job) -> None:
    report = skipped.analyze()
    again = pickle.loads(pickle.dumps(report))  # noqa: S301 (our own)
    assert (type(again), again) == (type(report), report)
    assert copy.copy(report) == report


# --- how they show themselves --------------------------------------------------------------------------------


class Page(HTMLParser):
    """Reads a piece of HTML: its elements have to close, its text is collected."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.titles: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.titles += [value or "" for name, value in attrs if name == "title"]
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_card_answers_what_who_why_what_now_and_where(skipped: Job) -> None:
    report = skipped.analyze()
    page = Page(report._repr_html_())
    for words in ("ROOT CAUSE", report.verdict.title, report.verdict.cause, "rank 2", "What to do now", "Proof"):
        assert words in page.text
    assert sum(title.startswith("rank ") for title in page.titles) == 4
    assert sum(title.endswith("at fault") for title in page.titles) == 1
    assert page.attributes <= {"class", "style", "title"}


def test_the_card_says_how_many_lines_it_leaves_out() -> None:
    report = hs.analyze(FIXTURES / "collective-skipped-18-sixteen-2277" / "logs")
    count = len(report.verdict.evidence)
    assert count > 8
    page = Page(report._repr_html_())
    assert f"{count - 2} more lines, the first 6" in page.text
    assert sum(f"{item.at.file}:{item.at.line}" in page.text for item in report.verdict.evidence) == 8


def test_the_card_of_a_job_says_what_was_read(skipped: Job) -> None:
    text = Page(skipped._repr_html_()).text
    assert "4 of 4 ranks left evidence: 0-3" in text
    assert "20 calls" in text
    assert "20 calls" in repr(skipped)


def test_what_logs_say_stays_text(tmp_path: Path) -> None:
    evil = '<script>alert(1)</script><img src=x onerror="alert(2)">\x1b[31m\u202e'
    lines = ["[rank1]: Traceback (most recent call last):", f'[rank1]:   File "/job/{evil}.py", line 7, in {evil}']
    lines += [f"[rank1]: ValueError: {evil} & more"]
    (tmp_path / "<b>rank1.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    job = hs.load(tmp_path)
    report = job.analyze()
    for html in (report._repr_html_(), job._repr_html_()):
        page = Page(html)
        assert page.tags <= {
            "div",
            "table",
            "tbody",
            "tr",
            "th",
            "td",
            "br",
            "b",
            "ol",
            "li",
            "pre",
            "code",
            "span",
        } | {
            "details",
            "summary",
        }
        assert "\x1b" not in html and "\u202e" not in html
    assert "<script>alert(1)</script>" in Page(report._repr_html_()).text
    assert "\x1b" not in repr(report)


def test_a_thousand_ranks_make_a_small_card(tmp_path: Path) -> None:
    for rank in range(1024):
        text = (
            f"node{rank // 8:03d}:{rank}:1 [{rank % 8}] NCCL INFO comm 0x1 rank {rank} nranks 1024 cudaDev {rank % 8} "
        )
        text += f"nvmlDev {rank % 8} busId {rank % 8}a000 commId 0x9 - Init START\n"
        (tmp_path / f"rank{rank}.log").write_text(text * (rank != 700), encoding="utf-8")
    html = hs.analyze(tmp_path, jobs=1)._repr_html_()
    assert len(html) < 100_000
    Page(html)
