"""The section of warnings that stand beside the verdict, and from which nothing is concluded."""

from __future__ import annotations

from rich.text import Text

from hangscope.model import Report
from hangscope.report.printable import one_line
from hangscope.report.proof import place_words
from hangscope.report.spans import count_words
from hangscope.report.terminal.screen import Screen

_MOST = 3
_QUOTE_ROWS = 2


def show_said(screen: Screen, report: Report) -> None:
    """What NCCL and PyTorch said at that time; all of it with `--verbose`."""
    said = report.verdict.also_said
    if not said:
        return
    screen.heading("Also said at that time (nothing is concluded from it)")
    shown = said if screen.options.verbose else said[:_MOST]
    for evidence in shown:
        line = Text.assemble(
            Text(place_words(evidence.at), style="underline"), f"  {one_line(evidence.why)}", overflow="fold"
        )
        screen.show(line, indent=1)
        screen.quote(evidence, indent=3, rows=_QUOTE_ROWS)
    if len(said) > len(shown):
        screen.prose(
            f"and {count_words(len(said) - len(shown), 'more line')} (--verbose shows all)", indent=1, style="dim"
        )
