"""The first screen: what happened, who, where, why, and what to do now."""

from __future__ import annotations

from rich.text import Text

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND
from hangscope.model import Finding, NextStep, Report, Role
from hangscope.report.printable import one_line
from hangscope.report.spans import confidence_word, count_words, fold_hosts, rank_words
from hangscope.report.terminal.screen import Screen, columns

_STEPS_NOW = 3
_STEP_INDENT = 4


def proof_word(verdict: Finding) -> str:
    """How the lines are headed that a verdict cites; of one that knows no reason they prove nothing."""
    return "Seen" if verdict.cause == INSUFFICIENT_EVIDENCE else "Proof"


def show_summary(screen: Screen, report: Report) -> None:
    """Answer the reader's questions in the order in which they come up."""
    verdict = report.verdict
    _show_panel(screen, report)
    table = columns(6, None)
    for label, answer in (
        ("Who", _who(report)),
        ("Where", _where(report)),
        ("Why", screen.words(verdict.explanation)),
        (proof_word(verdict), _proof(screen, verdict)),
    ):
        if answer is not None:
            table.add_row(Text(label, style="bold"), answer)
    screen.show(table, indent=1, width=screen.prose_width)
    if report.next_steps:
        screen.heading(_steps_title(verdict))
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
    parts = [f"{verdict.cause} ({_confidence(verdict)}): {one_line(verdict.title)}"]
    if verdict.ranks:
        parts.append(rank_words(verdict.ranks))
    if verdict.hosts:
        parts.append(one_line(fold_hosts(verdict.hosts)))
    if verdict.evidence:
        at = verdict.evidence[0].at
        parts.append(one_line(at.file) + (f":{at.line}" if at.line is not None else ""))
    return " | ".join(parts)


def _show_panel(screen: Screen, report: Report) -> None:
    verdict = report.verdict
    content = Text(one_line(verdict.title), style="bold", overflow="fold")
    content.append(f"\n{verdict.cause}, confidence {_confidence(verdict)}", style="not bold")
    if report.warnings:
        content.append(f"; {count_words(len(report.warnings), 'warning')} below", style="not bold yellow")
    title, style = _panel_title(verdict)
    screen.panel(title, content, style)


def _panel_title(verdict: Finding) -> tuple[str, str]:
    if verdict.cause == NO_FAULT_FOUND:
        return "NO FAULT FOUND", "green"
    if verdict.cause == INSUFFICIENT_EVIDENCE:
        return "NOT ENOUGH EVIDENCE", "yellow"
    if verdict.role is Role.SYMPTOM:
        return "A SYMPTOM ONLY: its cause is not in this evidence", "yellow"
    return {"high": "ROOT CAUSE", "medium": "LIKELY CAUSE", "low": "BEST GUESS"}[
        confidence_word(verdict.confidence)
    ], "red"


def _steps_title(verdict: Finding) -> str:
    if verdict.cause == NO_FAULT_FOUND:
        return "If it hangs again"
    return "What to collect" if verdict.cause == INSUFFICIENT_EVIDENCE else "What to do now"


def _confidence(finding: Finding) -> str:
    return f"{confidence_word(finding.confidence)} {finding.confidence:.2f}"


def _who(report: Report) -> Text | None:
    verdict = report.verdict
    culprit = next((state for state in report.ranks if verdict.ranks == (state.rank,)), None)
    words = rank_words(verdict.ranks, most=60) if verdict.ranks else ""
    hosts = set(verdict.hosts)
    if culprit is not None:
        known = [
            *([one_line(culprit.host)] if culprit.host else []),
            *([f"GPU {one_line(culprit.gpu)}"] if culprit.gpu is not None else []),
            *([f"pid {culprit.pid}"] if culprit.pid is not None else []),
        ]
        words += f" ({', '.join(known)})" if known else ""
        hosts -= {culprit.host or ""}
    if hosts:
        words += (" on " if words else "host ") + one_line(fold_hosts(hosts))
    lines = [words] if words else []
    if verdict.affected_ranks and verdict.cause != NO_FAULT_FOUND:
        count = len(verdict.affected_ranks)
        numbers = rank_words(verdict.affected_ranks, most=60).partition(" ")[2]
        verb = "suffers" if count == 1 else "suffer"
        why = "from it" if words else "and who is at fault is not known"
        lines.append(f"{count_words(count, 'rank')} {verb} {why}: {numbers}")
    return Text("\n".join(lines), overflow="fold") if lines else None


def _where(report: Report) -> Text | None:
    places: dict[str, list[int]] = {}
    for state in report.ranks:
        if state.where and state.rank in report.verdict.ranks:
            places.setdefault(one_line(state.where), []).append(state.rank)
    if not places:
        return None
    if len(places) == 1:
        return Text(next(iter(places)), overflow="fold")
    most_first = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))[:3]
    lines = [f"{place} ({rank_words(ranks, most=30)})" for place, ranks in most_first]
    return Text("\n".join(lines), overflow="fold")


def _proof(screen: Screen, verdict: Finding) -> Text | None:
    if not verdict.evidence:
        return None
    best = verdict.evidence[0]
    room = (screen.prose_width - 10) * 2
    content = Text(overflow="fold")
    content.append(screen.place(best.at), style="underline")
    content.append("\n" + screen.shorten(best.text, room))
    return content
