"""The first screen: what happened, who, where, why, and what to do now."""

from __future__ import annotations

from rich.text import Text

from hangscope.model import NextStep, Report
from hangscope.report.answers import (
    FAULT,
    GOOD,
    UNSURE,
    confidence_words,
    headline,
    proof_word,
    steps_title,
    tone,
    where_lines,
    who_lines,
)
from hangscope.report.printable import one_line
from hangscope.report.proof import place_words
from hangscope.report.spans import count_words, fold_hosts, rank_words
from hangscope.report.terminal.proof import best_line
from hangscope.report.terminal.screen import Screen, columns

_STEPS_NOW = 3
_LABEL = 6
_STEP_INDENT = 4
_STYLES = {FAULT: "red", UNSURE: "yellow", GOOD: "green"}


def show_summary(screen: Screen, report: Report) -> None:
    """Answer the reader's questions in the order in which they come up."""
    verdict = report.verdict
    _show_panel(screen, report)
    table = columns(_LABEL, None)
    for label, answer in (
        ("Who", _lines(who_lines(report))),
        ("Where", _lines(where_lines(report))),
        ("Why", screen.words(verdict.explanation)),
        (proof_word(verdict), best_line(screen, verdict, width=screen.prose_width - _LABEL - 4)),
    ):
        if answer is not None:
            table.add_row(Text(label, style="bold"), answer)
    screen.show(table, indent=1, width=screen.prose_width)
    if report.next_steps:
        screen.heading(steps_title(verdict))
        show_steps(screen, report.next_steps[:_STEPS_NOW], first=1)


def show_further_steps(screen: Screen, report: Report) -> None:
    """The steps that did not fit on the first screen."""
    if len(report.next_steps) > _STEPS_NOW:
        screen.heading("Further steps")
        show_steps(screen, report.next_steps[_STEPS_NOW:], first=_STEPS_NOW + 1)


def show_steps(screen: Screen, steps: tuple[NextStep, ...], *, first: int) -> None:
    """A numbered list; commands stand on lines of their own."""
    for number, step in enumerate(steps, first):
        row = columns(2, None, gap=1)
        row.add_row(Text(f"{number}."), screen.words(step.text))
        screen.show(row, indent=1, width=screen.prose_width)
        if step.command:
            screen.command(step.command, indent=_STEP_INDENT + 2)
        if step.decides:
            screen.prose(f"decides {step.decides}", indent=_STEP_INDENT, style="dim")


def one_line_verdict(report: Report) -> str:
    """The whole report on one line, for `--quiet` and for scripts."""
    verdict = report.verdict
    parts = [f"{verdict.cause} ({confidence_words(verdict)}): {one_line(verdict.title)}"]
    if verdict.ranks:
        parts.append(rank_words(verdict.ranks))
    if verdict.hosts:
        parts.append(one_line(fold_hosts(verdict.hosts)))
    if verdict.evidence:
        parts.append(place_words(verdict.evidence[0].at))
    return " | ".join(parts)


def _show_panel(screen: Screen, report: Report) -> None:
    verdict = report.verdict
    content = Text(one_line(verdict.title), style="bold", overflow="fold")
    content.append(f"\n{verdict.cause}, confidence {confidence_words(verdict)}", style="not bold")
    if report.warnings:
        content.append(f"; {count_words(len(report.warnings), 'warning')} below", style="not bold yellow")
    screen.panel(headline(verdict), content, _STYLES[tone(verdict)])


def _lines(lines: list[str]) -> Text | None:
    return Text("\n".join(lines), overflow="fold") if lines else None
