"""A page for people in a terminal: the answer first, the proof below."""

from __future__ import annotations

from typing import TextIO

from hangscope.model import Report
from hangscope.report.options import RenderOptions
from hangscope.report.terminal.details import show_last_line
from hangscope.report.terminal.parts import PARTS
from hangscope.report.terminal.screen import Screen
from hangscope.report.terminal.summary import one_line_verdict, show_summary

FILE = "report.txt"


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the page in one go, so that nothing else gets between its lines."""
    if options.quiet:
        line = one_line_verdict(report)
        stream.write(line.encode(options.encoding, "backslashreplace").decode(options.encoding) + "\n")
        return
    screen = Screen(options)
    for show in (show_summary, *PARTS, show_last_line):
        show(screen, report)
    stream.write(screen.text())
