"""The HTML report as text: one file, nothing from outside, every text escaped, the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import report_samples
import score_fixtures
from hangscope.cli.main import main
from hangscope.model import Evidence, Location, RankState, Report, SourceRecord
from hangscope.report.formats import load_format
from hangscope.report.html.excerpts import LONGEST
from hangscope.report.html.page import render_page
from hangscope.report.options import RenderOptions
from hangscope.report.printable import one_line, printable

SAMPLES = report_samples.SAMPLES | {"hostile": report_samples.hostile, "with-calls": report_samples.with_calls}

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "<!--<script>",
    "</style><img src=x onerror='window.hacked = 1'>",
    "\"' onmouseover=window.hacked=1 x='",
    "{{ 7 * 7 }}{% raw %}",
    "line\u2028end\u2029end",
    "user\u202etxt.exe",
    "nul\x00esc\x1b[31mred",
    "lone\ud800surrogate",
    "&lt;b&gt;&amp;",
)


VOID = frozenset({"meta", "link", "input", "br"})
"""Elements that are never closed."""


class _Page(HTMLParser):
    """Tags, ids and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.shown: list[str] = []
        self.unbalanced: list[str] = []
        self._open: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag in self.raw:
            self._inside = tag
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside][-1] += data
        else:
            self.shown.append(data)

    def ids(self) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get("id"))]

    def text(self) -> str:
        return "".join(self.shown)


def hostile_report() -> Report:
    """A report of which every text that a log can fill is an attack."""
    report = report_samples.out_of_memory()
    bad = " ".join(HOSTILE)
    evidence = Evidence(Location(f"logs/{bad}", 7), bad, bad, before=(bad, bad), after=(bad,))
    verdict = replace(report.verdict, title=bad, explanation=bad, evidence=(evidence,), also_said=(evidence,))
    return replace(
        report,
        verdict=verdict,
        findings=(verdict, replace(report.findings[1], title=bad, evidence=(evidence,))),
        ranks=tuple(RankState(s.rank, bad, s.pid, bad, s.state, bad, s.last_seen) for s in report.ranks),
        collectives=tuple(replace(c, group=bad, op=bad, where=bad, differing={5: bad}) for c in report.collectives),
        story=tuple(replace(step, text=bad, evidence=(evidence,)) for step in report.story),
        next_steps=tuple(replace(step, text=bad, command=bad, decides=bad) for step in report.next_steps),
        sources=(SourceRecord(bad, "text", 1, 1, 1), SourceRecord(bad, "text", 0, 0, 0, bad)),
        warnings=(bad,),
    )


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_same_report_gives_same_bytes(sample: object) -> None:
    assert callable(sample)
    assert render_page(sample()) == render_page(sample())


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_answer_story_and_proof_are_there_without_the_program(sample: object) -> None:
    assert callable(sample)
    report: Report = sample()
    shown = _Page(render_page(report)).text()
    assert one_line(report.verdict.title) in shown and report.verdict.cause in shown
    for step in report.next_steps:
        assert step.command is None or printable(step.command.strip(), keep="\n") in shown
    for evidence in report.verdict.evidence:
        assert one_line(evidence.text)[:2000] in shown and one_line(f"{evidence.at.file}:{evidence.at.line}") in shown
    if len(report.story) > 1:
        assert all(printable(step.text, keep="\n") in shown for step in report.story)
    assert all(printable(warning, keep="\n") in shown for warning in report.warnings)


def test_a_long_story_is_folded_and_counted_on() -> None:
    report = report_samples.out_of_memory()
    step = report.story[0]
    page = _Page(render_page(replace(report, story=tuple(replace(step, text=f"step {n}") for n in range(1, 31)))))
    assert "18 later steps" in page.text()
    starts = [attributes.get("start") for tag, attributes in page.tags if tag == "ol" and "start" in attributes]
    assert "13" in starts


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_ids_are_unique_and_links_lead_somewhere(sample: object) -> None:
    assert callable(sample)
    page = _Page(render_page(sample()))
    ids = page.ids()
    assert sorted(ids) == sorted(set(ids))
    links = [href for tag, attributes in page.tags if tag == "a" and (href := attributes.get("href"))]
    assert links and {href.removeprefix("#") for href in links} <= set(ids)


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_every_element_is_closed_where_it_was_opened(sample: object) -> None:
    assert callable(sample)
    assert _Page(render_page(sample())).unbalanced == []


def test_page_asks_for_nothing_and_policy_allows_only_its_own_program_and_style() -> None:
    text = render_page(report_samples.with_calls())
    page = _Page(text)
    text = text.replace('"http://www.w3.org/2000/svg"', "")  # a name that browsers know, and never ask for
    asking = {"src", "srcset", "action", "formaction", "data", "poster", "ping", "style"}
    assert [(tag, found) for tag, a in page.tags if (found := asking & a.keys())] == []
    assert [a["href"] for tag, a in page.tags if tag == "link"] == ["data:,"]
    assert not re.search(r"url\(|@import|https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    (policy,) = (a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == _sha256(page.raw["script"][1])
    assert rules["style-src"] == _sha256(page.raw["style"][0])


def _sha256(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def test_hostile_text_stays_text() -> None:
    harmless, hostile = _Page(render_page(report_samples.out_of_memory())), _Page(render_page(hostile_report()))
    known = {tag for tag, _ in harmless.tags} | {"p", "li", "ul"}
    assert {tag for tag, _ in hostile.tags} <= known
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)
    assert len(hostile.raw["script"]) == 2 and "<" not in hostile.raw["script"][0]
    shown = hostile.text()
    for text in ("<script>window.hacked = 1</script>", "{{ 7 * 7 }}{% raw %}", "&lt;b&gt;&amp;", "<!--<script>"):
        assert text in shown


def test_what_hides_or_turns_text_around_is_written_out() -> None:
    page = render_page(hostile_report())
    assert not re.search("[\x00\x1b\u2028\u2029\u202e\ud800-\udfff]", page)
    shown = _Page(page).text()
    assert r"user\u202etxt.exe" in shown and r"nul\x00esc\x1b[31mred" in shown and r"lone\ud800surrogate" in shown


def test_island_reads_as_json_and_holds_every_rank() -> None:
    report = report_samples.missing_ranks()
    island = json.loads(_Page(render_page(report)).raw["script"][0])
    assert [row[0] for row in island["ranks"]] == list(range(1024))
    assert [row[0] for row in island["ranks"] if row[7]] == list(report.verdict.ranks)
    assert len(island["grid"]["rows"]) == 128 and island["grid"]["columns"] == 8


def test_a_thousand_ranks_are_a_small_file() -> None:
    assert len(render_page(report_samples.missing_ranks()).encode()) < 1_000_000
    # with the calls of 137 groups; a mail or a chat takes 10 MB
    assert len(render_page(report_samples.thousand_with_calls()).encode()) < 3_000_000
    assert len(render_page(report_samples.thousand_with_calls()).encode()) < 3_000_000


def test_long_lines_lose_their_middle() -> None:
    report = report_samples.out_of_memory()
    evidence = Evidence(Location("logs/rank5.log", 7), "begin " + "x" * 50_000 + " end", "long")
    report = replace(report, verdict=replace(report.verdict, evidence=(evidence,)))
    shown = _Page(render_page(report)).text()
    assert "begin x" in shown and "x end" in shown and "x" * LONGEST not in shown


def test_ranks_at_fault_stand_apart_from_others_in_their_state() -> None:
    report = report_samples.missing_ranks()
    waiting = next(state.rank for state in report.ranks if state.state == "waiting")
    page = render_page(replace(report, verdict=replace(report.verdict, ranks=(waiting,))))
    rows = re.findall(r"<tr data-ranks=.*?</tr>", page.partition('<table class="places">')[2].partition("</table>")[0])
    assert [f'data-ranks="{waiting}"' in row for row in rows] == ["at fault" in row for row in rows]
    assert "at fault" in rows[0] and sum("waiting" in row for row in rows) == 2


def test_cited_line_is_marked_among_those_around_it() -> None:
    report = report_samples.out_of_memory()
    evidence = Evidence(
        Location("logs/rank5.log", 7), "the line", "proves it", before=("five", "six"), after=("eight",)
    )
    page = render_page(replace(report, verdict=replace(report.verdict, evidence=(evidence,))))
    rows = re.findall(r'<div class="row( cited)?"><span class="number">(\d*)</span><code>(.*?)</code>', page)
    assert [(number, bool(cited)) for cited, number, _ in rows[:4]] == [("", False)] * 2 + [("7", True), ("", False)]
    assert rows[0][2] == "five" and rows[2][2].endswith("the line") and rows[3][2] == "eight"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_other_encodings_give_a_page_that_says_the_same(encoding: str) -> None:
    report = replace(report_samples.no_fault(), warnings=("caf\u00e9 \u2603",))
    stream = io.StringIO()
    load_format("html").render(report, stream, RenderOptions(encoding=encoding))
    stream.getvalue().encode(encoding)
    assert stream.getvalue().isascii()
    assert _Page(stream.getvalue()).text() == _Page(render_page(report)).text()


def test_groups_that_the_timeline_lacks_are_counted() -> None:
    shown = re.sub(r"<[^>]+>|\s+", " ", render_page(report_samples.with_calls()))
    assert "9 (dp) of 4 ranks 11 1 4 12 2 0,2 not known 1 6" in " ".join(shown.split())


def test_of_very_many_ranks_hosts_that_look_alike_are_one_row() -> None:
    report = report_samples.missing_ranks()
    states = {77: "missing"}
    ranks = tuple(
        RankState(r, f"node{r // 8:04}", r, str(r % 8), states.get(r, "waiting"), None, None) for r in range(8192)
    )
    report = replace(report, ranks=ranks, verdict=replace(report.verdict, ranks=(77,)))
    island = json.loads(_Page(render_page(report)).raw["script"][0])
    rows = [(island["strings"][label], len(cells), more) for label, cells, more in island["grid"]["rows"]]
    assert rows == [("node0009", 8, 0), ("node[0000-0008,0010-1023] (1,023 hosts)", 8, 1022)]


def test_frames_that_all_go_through_are_one_step_of_the_tree() -> None:
    page = render_page(report_samples.stuck_loader())
    assert page.count("not like the others") == 2  # of the places, and of the tree
    shown = " ".join(_Page(page).text().split())
    assert "1,023 ranks: 0-510,512-1023 all_reduce (distributed/distributed_c10d.py:3252) 2 frames" in shown
    assert "rank 511, not like the others __next__ (data/dataloader.py:725)" in shown


def test_lines_that_say_the_same_of_other_ranks_are_folded() -> None:
    report = report_samples.out_of_memory()
    evidence = tuple(
        Evidence(Location(f"logs/rank{rank}.log", 7), f"node01:411{rank} waits at 0x7f{rank}", f"rank {rank} waits")
        for rank in range(6)
    )
    page = render_page(replace(report, verdict=replace(report.verdict, evidence=evidence)))
    assert "<summary>5 alike: ranks 1-5</summary>" in page
    assert all(f"node01:411{rank} waits at 0x7f{rank}</code>" in page for rank in range(6))


def test_impossible_times_cost_no_page() -> None:
    report = report_samples.with_calls()
    assert report.history is not None
    first, *others = report.history.groups
    calls = (replace(first.calls[0], started=(float("nan"), float("inf"), 1e300, *first.calls[0].started[3:])),)
    history = replace(report.history, groups=(replace(first, calls=calls), *others))
    island = json.loads(_Page(render_page(replace(report, history=history))).raw["script"][0])
    assert island["groups"][0]["calls"][0][7][:2] == [None, None]


def test_command_line_gives_the_page_the_calls_of_each_group(capsys: pytest.CaptureFixture[str]) -> None:
    logs = score_fixtures.FIXTURES / "collective-skipped-21-recorder-subgroup" / "logs"
    assert main(["analyze", str(logs), "--format", "html"]) == 0
    island = json.loads(_Page(capsys.readouterr().out).raw["script"][0])
    names = [island["strings"][group["name"]] for group in island["groups"]]
    assert names == ["2", "3", "4", "0", "1"]
    assert [group["stuck"] for group in island["groups"]] == [3, 3, 3, None, None]
