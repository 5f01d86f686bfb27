"""`--format markdown`: what GitHub makes of it is the report, whatever the logs say."""

from __future__ import annotations

import html
import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import report_samples
from hangscope.model import Evidence, Location, NextStep, Report
from hangscope.report.formats import load_format
from hangscope.report.markdown.escape import block, code, prose
from hangscope.report.options import RenderOptions
from hangscope.report.printable import printable
from report_samples import SAMPLES

_SNAPSHOTS = Path(__file__).parent / "snapshots" / "markdown"
_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _render(report: Report, options: RenderOptions | None = None) -> str:
    stream = io.StringIO()
    load_format("markdown").render(report, stream, options or RenderOptions())
    return stream.getvalue()


def _visible(page: str) -> str:
    return page.partition("<details>")[0]


@pytest.mark.parametrize("name", ["out-of-memory", "missing-ranks", "insufficient-evidence"])
def test_page_looks_as_reviewed(name: str) -> None:
    path = _SNAPSHOTS / f"{name}.md"
    page = _render(SAMPLES[name]())
    if os.environ.get("HANGSCOPE_UPDATE_SNAPSHOTS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == page, "HANGSCOPE_UPDATE_SNAPSHOTS=1 pytest rewrites the snapshots"


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_what_is_not_folded_fits_on_a_screen(name: str) -> None:
    assert _visible(_render(SAMPLES[name]())).count("\n") <= 40


@pytest.mark.parametrize("make", [*SAMPLES.values(), report_samples.hostile])
def test_an_issue_takes_the_page(make: object) -> None:
    assert callable(make)
    assert len(_render(make(), RenderOptions(verbose=True))) < 65_536


def test_what_does_not_fit_is_named() -> None:
    report = report_samples.out_of_memory()
    lines = tuple(Evidence(Location("a.log", n), "x" * 200, f"why {'y' * n}") for n in range(400))
    page = _render(replace(report, verdict=replace(report.verdict, evidence=lines)), RenderOptions(verbose=True))
    assert len(page) < 65_536
    assert "Left out, for its length: Proof." in page


def test_first_screen_answers_everything() -> None:
    page = _visible(_render(report_samples.out_of_memory()))
    for answer in (
        "### Root cause: Rank 5 on node02 ran out of GPU memory",
        "`gpu-out-of-memory`, confidence high 0.93",
        "rank 5 (node02, GPU 1, pid 41205)",
        "`train.py:212 forward`",
        "`logs/rank5.log:1841`",
        "> [rank5]: torch.OutOfMemoryError",
        "**What to do now**",
        "   export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ):
        assert answer in page


def test_quiet_is_one_line() -> None:
    assert _render(report_samples.hostile(), RenderOptions(quiet=True)).count("\n") == 1


def test_hostile_text_makes_no_markup() -> None:
    nasty = (
        "</summary><script>alert(1)</script> <img src=x onerror=y> [a](javascript:z) ![b](http://evil/c.png) "
        "```` ``` ~~~ <!-- @somebody #123 www.evil.org https://evil.org |x| **bold** _em_ &lt; $m$ \x1b[2J"
    )
    report = report_samples.out_of_memory()
    step = NextStep(nasty, f"echo\n```\n{nasty}\n</details>")
    line = Evidence(Location(nasty, 3), nasty, nasty, before=("```", nasty), after=("</details>", "~~~~"))
    verdict = replace(report.verdict, title=nasty, explanation=f"# {nasty}\n\n- {nasty}", evidence=(line, line))
    page = _render(replace(report, verdict=verdict, findings=(verdict,), next_steps=(step,) * 5, warnings=(nasty,)))
    tokens = _MARKDOWN.parse(page)
    # THEN the only HTML is the page's own
    own = re.compile(r"</?details>|</?sub>|<summary>[^<>]*</summary>|\s")
    flat = [*tokens, *(child for token in tokens for child in token.children or ())]
    assert not "".join(own.sub("", token.content) for token in flat if token.type.startswith("html"))
    assert not [token for token in flat if token.type in ("link_open", "image", "em_open", "s_open", "table_open")]
    assert [token.tag for token in flat if token.type == "heading_open"] == ["h3"]
    # and nothing outside of code is linked or told to anybody
    plain = "".join(token.content for token in flat if token.type == "text")
    assert not re.search(r"@\w|#\d|\w://|www\.\w", plain)


def test_every_folded_part_is_closed() -> None:
    tokens = _MARKDOWN.parse(_render(report_samples.hostile()))
    blocks = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert [one.partition("\n")[0] for one in blocks] == ["<details>", "</details>"] * (len(blocks) // 2)
    assert blocks


@given(st.text())
def test_prose_is_read_as_it_was_written(text: str) -> None:
    shown = _MARKDOWN.render("before " + prose(text) + " after")
    words = " ".join(html.unescape(re.sub(r"</?(?:p|code)>", "", shown)).split())
    assert words == " ".join(["before", *printable(" ".join(text.split())).split(), "after"])


@given(st.text(alphabet="-+*#>=1.) ab`_~|<"))
def test_prose_begins_no_block(text: str) -> None:
    tokens = _MARKDOWN.parse(prose(text))
    assert {token.type for token in tokens} <= {"paragraph_open", "inline", "paragraph_close"}


@given(st.text(alphabet="`ab |\\<>\n"))
def test_code_is_one_span(text: str) -> None:
    (inline,) = (token for token in _MARKDOWN.parse(f"x {code(text)} y") if token.type == "inline")
    assert [child.type for child in inline.children or ()] == ["text", "code_inline", "text"]


@given(st.text(alphabet="`~a\n\r\t ", max_size=80))
def test_no_line_ends_its_block(text: str) -> None:
    tokens = _MARKDOWN.parse("\n".join([*block(text), "after"]))
    assert tokens[0].type == "fence"
    assert len([token for token in tokens if token.type == "fence"]) == 1
    assert tokens[-2].content == "after"
