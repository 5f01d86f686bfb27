"""Writes the page: what a reader of an issue needs at once, and the rest folded below it."""

from __future__ import annotations

from collections.abc import Sequence

from hangscope.model import Evidence, NextStep, Report
from hangscope.report.answers import (
    confidence_words,
    headline,
    names_fault,
    proof_word,
    steps_title,
    where_lines,
    who_lines,
)
from hangscope.report.markdown.escape import block, code, prose
from hangscope.report.options import RenderOptions
from hangscope.report.printable import one_line, shorten_middle
from hangscope.report.proof import at_first_sight, drop_noise, place_words
from hangscope.report.terminal.parts import PARTS
from hangscope.report.terminal.screen import Screen

_WIDTH = 100
_LINE, _AROUND = 600, 160
"""Characters of the line that counts, and of those around it."""
_CUT = "\N{HORIZONTAL ELLIPSIS}"
_STEPS_NOW = 3
_MOST = 55_000
"""Characters of a page; an issue of GitHub takes 65,536."""


def page(report: Report, options: RenderOptions) -> str:
    """The whole page; of parts that do not fit any more, the page says that they are left out."""
    lines = _summary(report)
    size = sum(map(len, lines))
    left_out: list[str] = []
    for title, text in _folded(report, options):
        part = ["", "<details>", f"<summary>{_html(title)}</summary>", "", *block(text), "", "</details>"]
        if size + len(text) > _MOST:
            left_out.append(title)
            continue
        size += sum(map(len, part))
        lines += part
    if left_out:
        lines += ["", f"Left out, for its length: {prose('; '.join(left_out))}."]
    lines += ["", _last_line(report)]
    return "\n".join(lines) + "\n"


def verdict_line(report: Report) -> str:
    """The verdict alone, on one line."""
    verdict = report.verdict
    return f"**{prose(verdict.title)}** ({code(verdict.cause)}, {confidence_words(verdict)})\n"


def _summary(report: Report) -> list[str]:
    verdict = report.verdict
    lines = [
        f"### {headline(verdict).capitalize()}: {prose(verdict.title)}",
        "",
        f"{code(verdict.cause)}, confidence {confidence_words(verdict)}",
        "",
    ]
    answers = [
        ("Who", "; ".join(prose(line) for line in who_lines(report))),
        ("Where", ", ".join(code(line) for line in where_lines(report))),
        ("Why", prose(verdict.explanation)),
    ]
    for label, answer in answers:
        if answer:
            lines.append(f"- **{label}:** {answer}")
    if verdict.evidence:
        best = at_first_sight(verdict.evidence)[0].line
        why = f", {prose(best.why)}" if best.why else ""
        lines += [f"- **{proof_word(verdict)}:** {code(place_words(best.at))}{why}", "", *block(_quoted(best))]
    if report.next_steps:
        lines += ["", f"**{steps_title(verdict)}**", ""]
        for number, step in enumerate(report.next_steps[:_STEPS_NOW], 1):
            lines += _step(number, step)
    return lines


def _step(number: int, step: NextStep) -> list[str]:
    lines = [f"{number}. {prose(step.text)}"]
    if step.command:
        lines += [f"   {line}" for line in block(step.command, "sh")]
    return lines


def _quoted(item: Evidence) -> str:
    """The line that counts, marked where others stand around it."""
    text = shorten_middle(drop_noise(one_line(item.text), _CUT), _LINE, f" {_CUT} ")
    if not (item.before or item.after):
        return text.strip()
    before, after = ([f"  {_short(line)}" for line in lines] for lines in (item.before, item.after))
    return "\n".join([*before, f"> {text}", *after])


def _short(line: str) -> str:
    line = drop_noise(one_line(line), _CUT)
    return line if len(line) <= _AROUND else line[: _AROUND - 1] + _CUT


class _Parts(Screen):
    """Collects each part of the page under its title."""

    def __init__(self, options: RenderOptions) -> None:
        super().__init__(options)
        self.titles: list[str] = []
        self.ends: list[int] = []

    def heading(self, title: str) -> None:
        self.close()
        self.titles.append(title)

    def close(self) -> None:
        if self.titles:
            self.ends.append(len(self.written()))


def _folded(report: Report, options: RenderOptions) -> Sequence[tuple[str, str]]:
    """Titles and texts of what stands below the first screen."""
    screen = _Parts(RenderOptions(width=_WIDTH, verbose=options.verbose, encoding=options.encoding))
    for show in PARTS:
        show(screen, report)
    screen.close()
    text = screen.written()
    starts = [0, *screen.ends[:-1]]
    parts = [text[start:end] for start, end in zip(starts, screen.ends, strict=True)]
    return [
        (title, "\n".join(line.rstrip() for line in part.strip("\n").split("\n")))
        for title, part in zip(screen.titles, parts, strict=True)
    ]


def _html(title: str) -> str:
    """A title is ours but for numbers and dates; it stands in HTML all the same."""
    return one_line(title).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _last_line(report: Report) -> str:
    said = f"hangscope {report.hangscope_version}"
    cause = report.verdict.cause
    more = f"; more: {code(f'hangscope explain {cause}')}" if names_fault(report.verdict) else ""
    return f"<sub>{said}{more}</sub>"
