"""The parts of the page below its first screen, in their order."""

from __future__ import annotations

from collections.abc import Callable

from hangscope.model import Report
from hangscope.report.terminal.comparisons import show_comparisons
from hangscope.report.terminal.details import (
    show_collectives,
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
from hangscope.report.terminal.summary import show_further_steps

PARTS: tuple[Callable[[Screen, Report], None], ...] = (
    show_ranks,
    show_collectives,
    show_stacks,
    show_comparisons,
    show_proof,
    show_said,
    show_story,
    show_other_findings,
    show_further_steps,
    show_warnings,
    show_sources,
)
