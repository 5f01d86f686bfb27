"""The short form of a report that notebooks show: what, who, where, why, what now, where the ranks are, the proof.

It needs no style sheet and looks well on light and on dark pages: colours are few, and texts have the page's own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from html import escape

from hangscope.model import Evidence, Report
from hangscope.model.grid import GridCell, lay_out, put_alike_together
from hangscope.model.states import in_severity_order, ink_on, state_style
from hangscope.report.answers import (
    FAULT,
    GOOD,
    confidence_words,
    headline,
    job_words,
    proof_word,
    ranks_about,
    steps_title,
    tells_of_ranks,
    tone,
    where_lines,
    who_lines,
)
from hangscope.report.printable import one_line, printable, shorten_middle
from hangscope.report.proof import place_words
from hangscope.report.spans import count_words, hosts_words, rank_words

_WIDTH = 100
_STEPS = 3
_ROWS = 12
_LINES, _OPEN = 8, 2
_LONGEST = 400
RED, BLUE = "#d55e00", "#0072b2"
"""Colours that are told apart by the colour-blind, on light and on dark pages."""
_EDGES = {FAULT: RED, GOOD: "#009e73"}
_UNSURE_EDGE = "#e69f00"
_CELL = (
    "display:inline-block;width:1.5em;line-height:1.5em;margin:0 2px 2px 0;text-align:center;color:{ink};"
    "font-family:monospace;border-radius:2px;background:{fill};outline:{outline}"
)
_TABLE = "border-collapse:collapse;margin:4px 0 6px;font-size:inherit;color:inherit"
_PLAIN = "text-align:left;vertical-align:top;background:none;border:none;padding:1px 10px 1px 0"
_PRE = "margin:2px 0 4px;padding:2px 6px;white-space:pre-wrap;overflow-wrap:anywhere;background:rgba(128,128,128,.15)"


def report_card(report: Report) -> str:
    """The report as a piece of HTML; everything that came from a log is escaped."""
    verdict = report.verdict
    edge = _EDGES.get(tone(verdict), _UNSURE_EDGE)
    warned = f"; {count_words(len(report.warnings), 'warning')}" if report.warnings else ""
    parts = [
        f'<div style="font-size:85%;letter-spacing:.05em">{text(headline(verdict))}</div>',
        f'<div style="font-size:120%;font-weight:bold">{text(verdict.title)}</div>',
        f"<div><code>{text(verdict.cause)}</code>, confidence {text(confidence_words(verdict))}{warned}</div>",
        rows_of(
            [
                ("Who", who_lines(report)),
                ("Where", where_lines(report)),
                ("Why", [verdict.explanation] if verdict.explanation else []),
            ]
        ),
        _steps(report),
        _grid(report),
        _proof(report),
    ]
    return framed(parts, edge)


def report_words(report: Report) -> str:
    """The same as plain text, for places that show no HTML."""
    verdict = report.verdict
    lines = [
        *_wrapped(f"{headline(verdict)}: ", [verdict.title], indent=2),
        f"{verdict.cause}, confidence {confidence_words(verdict)}",
    ]
    for label, said in (
        ("Who", who_lines(report)),
        ("Where", where_lines(report)),
        ("Why", [verdict.explanation] if verdict.explanation else []),
        (proof_word(verdict), [f"{place_words(item.at)}  {_line(item)}" for item in verdict.evidence[:1]]),
    ):
        lines += _wrapped(f"{label:<6} ", said)
    if report.next_steps:
        lines.append(steps_title(verdict))
    for number, step in enumerate(report.next_steps[:_STEPS], 1):
        lines += _wrapped(f"{number:>2}. ", [one_line(step.text)])
        lines += [f"      {one_line(command)}" for command in (step.command or "").splitlines()]
    return "\n".join(lines)


def framed(parts: Iterable[str], edge: str) -> str:
    """Parts of a card with a coloured edge at their left."""
    style = f"max-width:64em;border-left:4px solid {edge};padding:4px 0 4px 12px;line-height:1.4"
    return f'<div class="hangscope" style="{style}">' + "".join(parts) + "</div>"


def rows_of(rows: Iterable[tuple[str, list[str]]]) -> str:
    """Labels and what they say, each text escaped; those that say nothing are left out."""
    return table(
        f'<th style="{_PLAIN}">{text(label)}</th>{data("<br>".join(map(text, said)))}' for label, said in rows if said
    )


def _steps(report: Report) -> str:
    if not report.next_steps:
        return ""
    items = []
    for step in report.next_steps[:_STEPS]:
        command = f'<pre style="{_PRE}">{_block(step.command)}</pre>' if step.command else ""
        items.append(f"<li>{text(step.text)}{command}</li>")
    listed = f'<ol style="margin:2px 0 6px;padding-left:2em">{"".join(items)}</ol>'
    return f"<b>{text(steps_title(report.verdict))}</b>{listed}"


def _grid(report: Report) -> str:
    """A row a host and a cell a rank; hosts that look alike share a row."""
    if not tells_of_ranks(report):
        return ""
    rows = put_alike_together(lay_out(report.ranks, report.verdict.ranks))
    made = table(
        data("".join(map(_cell, row.rows[0].cells)), "white-space:nowrap")
        + data(text(hosts_words(row.hosts) or "host not known"))
        + data(text(rank_words(row.ranks, most=40)))
        for row in rows[:_ROWS]
    )
    legend = ", ".join(
        f"{state_style(word).glyph} {word}" for word in in_severity_order(state.state for state in report.ranks)
    )
    more = f"; {len(rows) - _ROWS} more rows are not shown" if len(rows) > _ROWS else ""
    return f"<b>Where the ranks are</b> ({ranks_about(report)}; {text(legend)}{more}){made}"


def head(label: str) -> str:
    """A cell that heads a row or a column."""
    return f'<th style="{_PLAIN}">{text(label)}</th>'


def table(rows: Iterable[str]) -> str:
    """Rows of cells that are HTML already."""
    made = "".join(f'<tr style="background:none">{row}</tr>' for row in rows)
    return f'<table style="{_TABLE}"><tbody>{made}</tbody></table>' if made else ""


def data(html: str, style: str = "") -> str:
    """A cell that holds HTML."""
    return f'<td style="{_PLAIN};{style}">{html}</td>'


def _cell(cell: GridCell | None) -> str:
    if cell is None:
        return f'<span style="{_CELL.format(fill="none", outline="none", ink="inherit")}">&nbsp;</span>'
    style = state_style(cell.state.state)
    outline = f"2px solid {RED}" if cell.at_fault else "none"
    about = f"rank {cell.state.rank}: {cell.state.state}" + (", at fault" if cell.at_fault else "")
    about += f", {cell.state.where}" if cell.state.where else ""
    glyph = f"<b>{style.glyph}</b>" if cell.at_fault else style.glyph
    look = _CELL.format(fill=style.light, outline=outline, ink=ink_on(style.light))
    return f'<span title="{text(about)}" style="{look}">{glyph}</span>'


def _proof(report: Report) -> str:
    shown = [
        f"<div><code>{text(place_words(item.at))}</code> {text(item.why)}</div>"
        f'<pre style="{_PRE}">{escape(_line(item))}</pre>'
        for item in report.verdict.evidence[:_LINES]
    ]
    if not shown:
        return ""
    behind = "".join(shown[_OPEN:])
    left = count_words(len(report.verdict.evidence) - _OPEN, "more line")
    first = f", the first {_LINES - _OPEN}" if len(report.verdict.evidence) > _LINES else ""
    more = f"<details><summary>{left}{first}</summary>{behind}</details>" if behind else ""
    about = job_words(report.job)
    return f"<b>{text(proof_word(report.verdict))}</b>{''.join(shown[:_OPEN])}{more}" + (
        f'<div style="font-size:85%">{text(about)}</div>' if about else ""
    )


def _line(evidence: Evidence) -> str:
    return shorten_middle(one_line(evidence.text), _LONGEST, " … ")


def text(words: str) -> str:
    """Words from anywhere, escaped, on one line."""
    return escape(one_line(" ".join(words.split())))


def _block(text: str) -> str:
    return escape(printable(text, keep="\t\n"))


def _wrapped(label: str, said: Iterable[str], *, indent: int | None = None) -> list[str]:
    """The label before the first line, and the others under it, or by so much further in."""
    blank = " " * (len(label) if indent is None else indent)
    lines: list[str] = []
    for words in said:
        first = blank if lines else label
        prose = one_line(" ".join(words.split()))
        lines += textwrap.wrap(prose, _WIDTH, initial_indent=first, subsequent_indent=blank, break_on_hyphens=False)
    return lines
