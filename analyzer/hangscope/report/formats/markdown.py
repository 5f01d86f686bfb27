"""Markdown for an issue or a chat: the answer on one screen, everything else folded below."""

from __future__ import annotations

from typing import TextIO

from hangscope.model import Report
from hangscope.report.markdown.page import page, verdict_line
from hangscope.report.options import RenderOptions

FILE = "report.md"


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the page; the width changes nothing, since whoever shows it breaks its lines."""
    text = verdict_line(report) if options.quiet else page(report, options)
    stream.write(text.encode(options.encoding, "backslashreplace").decode(options.encoding))
