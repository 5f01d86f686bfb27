"""One file for a browser, also offline: the answer, then grid, timeline, calls, stacks and the log lines behind it."""

from __future__ import annotations

from typing import TextIO

from hangscope.model import Report
from hangscope.report.html.page import render_page
from hangscope.report.options import RenderOptions

FILE = "report.html"
HISTORY = 40
"""So many calls of each group fit beside each other on a screen."""


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the page; `quiet`, `verbose`, `color` and the width are matters of terminals.

    The page says that it is UTF-8. For a stream of another encoding it is written in ASCII, which is the same in all.
    """
    page = render_page(report)
    stream.write(page if options.takes_all else page.encode("ascii", "xmlcharrefreplace").decode("ascii"))
