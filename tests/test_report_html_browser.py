"""The HTML report in a real browser: no error, no request, what can be clicked and typed does what it says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import report_samples
from hangscope.model import Report
from hangscope.report.html.page import render_page
from test_report_html import HOSTILE, hostile_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


@pytest.mark.parametrize("width", [400, 800, 1280, 1800])
def test_no_width_needs_scrolling_sideways(show: Open, width: int) -> None:
    for report in (report_samples.out_of_memory(), report_samples.missing_ranks(), hostile_report()):
        page = show(report, width=width)
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
    assert _ranks(page) == [str(rank) for rank in range(100)]
    page.locator("#rank-table .more").click()
    assert len(_ranks(page)) == 200
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
