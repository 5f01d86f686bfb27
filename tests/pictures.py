"""Makes the pictures that README shows, of cases in fixtures/, and tells whether they still show what hangscope says.

    python tests/pictures.py --write | --check

A browser, rich or matplotlib of another version draws other bytes of the same report. So each picture holds a digest
of what it was made of (the page with its colours, the HTML page, the words in the figure), and the check compares that.
Writing needs a Chromium.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from matplotlib.text import Text as DrawnText
from PIL import Image, PngImagePlugin
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

from hangscope.api import analyze
from hangscope.model import Report
from hangscope.plot import load_plot
from hangscope.plot.picture import Picture as Figure
from hangscope.report.formats import history_wanted, load_format
from hangscope.report.options import RenderOptions

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks" / "pictures"

_MARK = "made of"
_TERMINAL_CASE = "fixtures/collective-skipped-18-sixteen-2277/logs"
_TERMINAL_WIDTH = 100
_PAGE_CASE = "fixtures/data-loading-stall-07-attached/logs"
_PAGE_SIZE = (1180, 860)
_PLOT_CASE = _TERMINAL_CASE
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FONT_FROM_ELSEWHERE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Picture(NamedTuple):
    """One picture: its file, what it is made of, and how."""

    file: str
    source: Callable[[], str]
    draw: Callable[[str, Path], None]


# --- the terminal --------------------------------------------------------------------------------------------


def terminal_page() -> str:
    """The first parts of the report, with the terminal's colours: verdict, advice, ranks, stuck call."""
    page = _rendered("text", _TERMINAL_CASE, RenderOptions(width=_TERMINAL_WIDTH, color=True))
    parts = re.split(r"(?m)^(?=\S*\u2500\u2500 )", page)
    return "".join(parts[:4]).rstrip("\n")


def draw_terminal(page: str, file: Path) -> None:
    console = Console(record=True, width=_TERMINAL_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(page))
    drawn = console.export_svg(title=f"hangscope analyze {_TERMINAL_CASE}", unique_id="hangscope")
    # a picture that loads nothing: the fonts that rich names lie on somebody's server
    drawn = _FONT_FROM_ELSEWHERE.sub("", drawn)
    file.write_text(f"{drawn.rstrip()}\n<!-- {_MARK} {digest(page)} -->\n", encoding="utf-8")


# --- the HTML page -------------------------------------------------------------------------------------------


def html_page() -> str:
    return _rendered("html", _PAGE_CASE, RenderOptions(width=_TERMINAL_WIDTH))


def draw_html(page: str, file: Path) -> None:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise SystemExit("No Chromium was found: the picture of the HTML report cannot be made.")
    width, height = _PAGE_SIZE
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = opened.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        shown.set_content(page)
        taken = shown.screenshot()
        opened.close()
    told = PngImagePlugin.PngInfo()
    told.add_text(_MARK, digest(page))
    # a palette of 128 colours is a third of the size, and text on plain ground loses nothing
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(128).save(file, pnginfo=told, optimize=True)


# --- a plot --------------------------------------------------------------------------------------------------


def plot_words() -> str:
    """All words of the figure, as they are drawn."""
    return "\n".join(sorted(str(text.get_text()) for text in _figure().findobj(DrawnText)))


def draw_plot(words: str, file: Path) -> None:
    _figure().save(file)
    with file.open("a", encoding="utf-8") as drawn:
        drawn.write(f"<!-- {_MARK} {digest(words)} -->\n")


# --- all of them ---------------------------------------------------------------------------------------------

PICTURES = (
    Picture("terminal.svg", terminal_page, draw_terminal),
    Picture("report.png", html_page, draw_html),
    Picture("timeline.svg", plot_words, draw_plot),
)


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def stale() -> list[str]:
    """Files of the pictures that do not show what they would show today."""
    return [
        picture.file
        for picture in PICTURES
        if digest(picture.source()).encode() not in (FOLDER / picture.file).read_bytes()
    ]


def _rendered(name: str, case: str, options: RenderOptions) -> str:
    output = load_format(name)
    stream = io.StringIO()
    output.render(_report(case, history_wanted([output])), stream, options)
    return stream.getvalue()


def _figure() -> Figure:
    kind = load_plot("timeline")
    return kind.draw(_report(_PLOT_CASE, kind.HISTORY))


def _report(case: str, history: int) -> Report:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return analyze(case, jobs=1, history=history)
    finally:
        os.chdir(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="draw the pictures anew")
    action.add_argument("--check", action="store_true", help="fail when one does not show what hangscope says today")
    options = parser.parse_args()
    if options.check:
        old = stale()
        for file in old:
            print(f"{file} is out of date: run python tests/pictures.py --write")
        return 1 if old else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        picture.draw(picture.source(), FOLDER / picture.file)
        print(f"{picture.file} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
