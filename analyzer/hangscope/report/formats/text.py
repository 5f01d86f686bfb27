"""A page for people in a terminal: the answer first, the proof below."""

from __future__ import annotations

from typing import TextIO

from hangscope.model import Report
from hangscope.report.options import RenderOptions
from hangscope.report.terminal.comparisons import show_comparisons
from hangscope.report.terminal.details import (
    show_collectives,
    show_last_line,
    show_other_findings,
    show_sources,
    show_story,
    show_warnings,
)
from hangscope.report.terminal.proof import show_proof
from hangscope.report.terminal.ranks import show_ranks
from hangscope.report.terminal.said import show_said
from hangscope.report.terminal.screen import Screen
from hangscope.report.terminal.stacks import show_stacks
from hangscope.report.terminal.summary import one_line_verdict, show_further_steps, show_summary

FILE = "report.txt"


def render(report: Report, stream: TextIO, options: RenderOptions) -> None:
    """Write the page in one go, so that nothing else gets between its lines."""
    if options.quiet:
        line = one_line_verdict(report)
        stream.write(line.encode(options.encoding, "backslashreplace").decode(options.encoding) + "\n")
        return
    screen = Screen(options)
    show_summary(screen, report)
    show_ranks(screen, report)
    show_collectives(screen, report)
    show_stacks(screen, report)
    show_comparisons(screen, report)
    show_proof(screen, report)
    show_said(screen, report)
    show_story(screen, report)
    show_other_findings(screen, report)
    show_further_steps(screen, report)
    show_warnings(screen, report)
    show_sources(screen, report)
    show_last_line(screen, report)
    stream.write(screen.text())
