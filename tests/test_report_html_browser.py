"""The HTML report in a real browser: no error, no request, what can be clicked and typed does what it says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import report_samples
from hangscope.model import CallState, Report
from hangscope.report.html.page import render_page
from test_report_html import HOSTILE, SAMPLES, hostile_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's chromium; playwright's own is never fetched."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a report as a file; in the end there must have been no complaint and no request but for the file."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []

    def open_page(report: Report, *, width: int = 1280, dark: bool = False) -> Page:
        file = tmp_path / "report.html"
        file.write_text(render_page(report), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:,"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(contexts)


def test_answer_is_on_the_first_screen(show: Open) -> None:
    page = show(report_samples.out_of_memory())
    for words in ("ROOT CAUSE", "Rank 5 on node02 ran out of GPU memory", "What to do now", "train.py:212 forward"):
        box = page.get_by_text(words, exact=False).first.bounding_box()
        assert box is not None and box["y"] + box["height"] < 900


@pytest.mark.parametrize("name", ["with-calls", "missing-ranks", "stuck-loader", "many-differences", "attacks"])
def test_no_width_needs_scrolling_sideways(show: Open, name: str) -> None:
    page = show(hostile_report() if name == "attacks" else SAMPLES[name]())
    for width in (400, 640, 800, 1280, 1800):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_text_stays_text(show: Open) -> None:
    page = show(hostile_report())
    for part in page.query_selector_all("details"):
        part.evaluate("part => { part.open = true; }")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    shown = page.locator("body").inner_text()
    assert all(text in shown for text in HOSTILE[:5])
    assert r"user\u202etxt.exe" in shown
    page.locator(".cell").first.click()
    assert page.evaluate("window.hacked") is None


def test_page_reads_without_its_program(browser: Browser, tmp_path: Path) -> None:
    report = report_samples.with_calls()
    file = tmp_path / "report.html"
    file.write_text(render_page(report), encoding="utf-8")
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        shown = page.locator("body").inner_text()
        assert page.locator("button:visible").count() == 0
    assert report.verdict.title in shown and report.verdict.evidence[0].text in shown
    assert all(step.text in shown for step in report.story)


def test_impossible_times_are_left_out(show: Open) -> None:
    report = report_samples.with_calls()
    assert report.history is not None
    transfers = tuple(replace(one, started=1e300) for one in report.history.transfers)
    page = show(replace(report, history=replace(report.history, transfers=transfers)))
    assert page.locator("#calls tbody tr").count() == 38


def test_choosing_a_rank_shows_the_page_from_its_side(show: Open) -> None:
    page = show(report_samples.missing_ranks())
    assert page.locator(".cell").count() == 1024
    cell = page.locator('[data-rank="504"]')
    cell.hover()
    about = page.locator(".about").inner_text()
    assert "rank 504" in about and "node064" in about and "GPU 0" in about and "pid 9504" in about
    cell.click()
    assert cell.get_attribute("aria-pressed") == "true"
    assert page.locator("#chosen").inner_text().startswith("Rank 504")
    assert page.locator(".story li.aside-now").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("#chosen").is_hidden() and page.locator(".aside-now").count() == 0


def test_grid_is_used_by_keyboard(show: Open) -> None:
    page = show(report_samples.missing_ranks())
    assert page.locator('.cell[tabindex="0"]').get_attribute("data-rank") == "504"
    page.locator('.cell[tabindex="0"]').focus()
    for key, rank in (("ArrowRight", 505), ("ArrowDown", 513), ("Home", 512), ("End", 519), ("ArrowUp", 511)):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.rank") == str(rank)
    page.keyboard.press("Enter")
    assert page.locator("#chosen").inner_text().startswith("Rank 511")


def _ranks(page: Page) -> list[str]:
    return page.locator("#rank-table tbody th").all_inner_texts()


def test_tables_sort_and_filter(show: Open) -> None:
    page = show(report_samples.missing_ranks())
    page.locator("#rank-table summary").click()
    page.locator("#rank-table tbody tr").first.wait_for()
    assert _ranks(page) == [str(rank) for rank in range(40)]
    page.locator("#rank-table .more").click()
    assert len(_ranks(page)) == 80
    head = page.locator("#rank-table thead th", has_text="state")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending" and _ranks(page)[0] == "504"
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending" and _ranks(page)[0] == "0"
    page.locator("#rank-table select").select_option("missing")
    assert _ranks(page) == [str(rank) for rank in range(504, 512)]
    page.locator("#rank-table input").fill("rank 507")
    assert _ranks(page) == ["507"]


def test_link_to_a_line_opens_the_part_that_holds_it(show: Open) -> None:
    report = report_samples.out_of_memory()
    page = show(replace(report, verdict=replace(report.verdict, evidence=report.verdict.evidence[:1])))
    link = page.locator(".story a.place", has_text="logs/rank3.log:2180")
    target = page.locator(str(link.get_attribute("href")))
    assert target.is_hidden()
    link.click()
    assert target.is_visible() and "recvValue failed" in target.inner_text()


def test_theme_follows_the_system_and_can_be_switched(show: Open) -> None:
    page = show(report_samples.out_of_memory(), dark=True)
    assert _brightness(page, "body") < 60
    page.locator("#theme").click()
    assert _brightness(page, "body") > 200
    assert page.locator("#theme").inner_text() == "Dark"


def _brightness(page: Page, selector: str) -> float:
    color: str = page.evaluate("s => getComputedStyle(document.querySelector(s)).backgroundColor", selector)
    return sum(float(part) for part in color.strip("rgba()").split(",")[:3]) / 3


def test_commands_are_copied(show: Open) -> None:
    page = show(report_samples.out_of_memory())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".copy").first.click()
    page.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def test_skip_link_comes_first(show: Open) -> None:
    page = show(report_samples.out_of_memory())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "answer"


def test_timeline_folds_ranks_that_stopped_alike(show: Open) -> None:
    page = show(report_samples.with_calls())
    group = page.locator("#timeline .group", has_text="default_pg")
    rows = [row.split("\n")[0].split("\t")[0] for row in group.locator("tbody tr").all_inner_texts()]
    assert rows == ["rank 5", "ranks 0-4,6,7 (7)"]
    assert group.locator("thead .stop").inner_text().split() == ["1842", "all_reduce"]
    assert group.locator('td[data-call="missing"]').count() == 1
    assert group.locator('td[data-call="missing"]').get_attribute("title") == "rank 5: all_reduce 1842 missing"
    assert "1,831 earlier calls not shown" in group.locator("summary").inner_text()
    group.get_by_label("one row a rank").check()
    assert group.locator("tbody tr").count() == 8
    page.locator('[data-rank="3"]').click()
    assert [row.inner_text().split()[1] for row in group.locator("tbody tr:visible").all()] == ["3"]


def test_timeline_by_time_shows_who_came_last(show: Open) -> None:
    page = show(report_samples.with_calls())
    group = page.locator("#timeline .group", has_text="default_pg")
    group.get_by_label("by time").check()
    strips = group.locator("svg")
    assert [strip.get_attribute("aria-label") for strip in strips.all()] == [
        "rank 5: last call at 12:30:41.005",
        "ranks 0-4,6,7: last call at 12:30:42.000",
    ]
    assert [strip.locator("rect").count() for strip in strips.all()] == [11, 12]
    assert group.locator(".axis span").all_inner_texts() == ["12:30:31.000", "12:30:40.000", "12:30:49.000"]
    group.get_by_label("one row a rank").check()
    assert group.locator("svg").count() == 8


def _calls(page: Page) -> list[list[str]]:
    return [row.split("\t") for row in page.locator("#calls tbody tr").all_inner_texts()]


def _filter(page: Page, label: str) -> Locator:
    return page.locator(f"#calls label:has-text('{label}')").locator("input, select")


def test_calls_filter_by_rank_group_state_and_text(show: Open) -> None:
    page = show(report_samples.with_calls())
    # what is stuck comes first
    assert [row[0] for row in _calls(page)[:3]] == ["1842", "17", "8"]
    assert page.locator("#calls .amount").inner_text() == "38 rows"
    _filter(page, "State").select_option("wrong")
    assert [row[0] for row in _calls(page)] == ["1842", "17", "8"]
    assert "rank 5 missing" in " ".join(_calls(page)[0])
    assert "rank 2 called all_gather of 8 int64" in " ".join(_calls(page)[1])
    _filter(page, "Rank").fill("2")
    assert [row[0] for row in _calls(page)] == ["1842", "17"]
    _filter(page, "Group").select_option("4 (tp)")
    assert [row[0] for row in _calls(page)] == ["17"]
    _filter(page, "State").select_option("")
    _filter(page, "Text").fill("train.py:202")
    assert {row[-2] for row in _calls(page)} == {"train.py:202 step"}
    assert page.locator("#calls .amount").inner_text() == "3 of 38 rows"


def test_call_that_all_came_to_and_none_leaves_comes_first(show: Open) -> None:
    report = report_samples.with_calls()
    assert report.history is not None
    first, *others = report.history.groups
    started = replace(first.calls[-1], states=(CallState.STARTED,) * 8)
    history = replace(report.history, groups=(*others, replace(first, calls=(*first.calls[:-1], started))))
    page = show(replace(report, history=history))
    rows = [row for row in _calls(page) if row[0] == "1842"]
    assert rows == _calls(page)[1:2] and "started" in rows[0][3]


def test_choosing_a_rank_filters_the_calls(show: Open) -> None:
    page = show(report_samples.with_calls())
    page.locator('[data-rank="1"]').click()
    assert _filter(page, "Rank").input_value() == "1"
    assert page.locator("#calls .amount").inner_text() == "26 of 38 rows"
    page.get_by_role("button", name="Show all").click()
    assert page.locator("#calls .amount").inner_text() == "38 rows"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_have_enough_contrast(show: Open, dark: bool) -> None:
    """WCAG AA: 4.5 to 1 between every text and what is behind it."""
    page = show(report_samples.with_calls(), dark=dark)
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate(CONTRASTS) == []


def test_thousand_ranks_are_few_elements_until_somebody_wants_more(show: Open) -> None:
    page = show(report_samples.thousand_with_calls())
    assert page.locator("*").count() < 6_000
    assert page.locator("#timeline .group").count() == 137
    world = page.locator("#timeline .group", has_text="default_pg")
    assert [row.split("\t")[0] for row in world.locator("tbody tr").all_inner_texts()] == [
        "ranks 504-511 (8)",
        "ranks 0-503,512-1023 (1,016)",
    ]
    assert page.locator("#calls .amount").inner_text() == "5,480 rows"
    _filter(page, "State").select_option("missing")
    assert page.locator("#calls .amount").inner_text() == "9 of 5,480 rows"
    page.locator('[data-rank="511"]').click()
    assert page.locator("#calls .amount").inner_text() == "2 of 5,480 rows"


CONTRASTS = r"""() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const back = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const poor = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility() || element.closest("script, .aside, .arrow")) continue;
    const behind = back(element);
    const [a, b] = [light(over(rgba(getComputedStyle(element).color), behind)), light(behind)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) poor.add(`${element.tagName} ${element.className}: ${node.data.trim()} ${contrast.toFixed(1)}`);
  }
  return [...poor].sort();
}"""
