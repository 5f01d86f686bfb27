"""What stands below the first screen: stuck calls, story, other findings, sources and limits."""

from __future__ import annotations

from rich.text import Text

from hangscope.model import CollectiveState, Finding, Report, StoryStep
from hangscope.model.names import group_title
from hangscope.model.states import state_style
from hangscope.report.answers import job_words, names_fault, other_findings, part_words, story_day, story_who
from hangscope.report.printable import one_line
from hangscope.report.proof import place_words
from hangscope.report.source_words import least_understood, lost_words, read_words
from hangscope.report.spans import confidence_word, count_words, fold_numbers
from hangscope.report.standings import stuck_rows
from hangscope.report.terminal.proof import show_all_evidence
from hangscope.report.terminal.screen import Screen, columns
from hangscope.report.times import split_time

_COLLECTIVES = 4
_STEPS = 12
_STORY = 2
"""A story has so many steps at least."""
_FINDINGS = 10
_SOURCES = 6
_ROW_STYLES = {"missing": state_style("missing").ansi, "differing": "bold red"}


def show_collectives(screen: Screen, report: Report) -> None:
    """Who came to the stuck call, who did not, and who called something else."""
    states = report.collectives
    if not states:
        return
    screen.heading("Stuck collective" if len(states) == 1 else f"Stuck collectives ({len(states)})")
    most = len(states) if screen.options.verbose else _COLLECTIVES
    for index, state in enumerate(states[:most]):
        if index:
            screen.blank()
        _show_collective(screen, state)
    _show_rest(screen, len(states) - most, "more group")


def show_story(screen: Screen, report: Report) -> None:
    """What led to what, with times."""
    steps = report.story
    if len(steps) < _STORY and not screen.options.verbose:
        return
    most = len(steps) if screen.options.verbose else _STEPS
    day = story_day(report)
    screen.heading("How it went" + (f", {day} (clock of the logs)" if day else ""))
    start = next((step.time for step in steps if step.time), None)
    table = columns(None, None) if start else columns(2, None, gap=1)
    for number, step in enumerate(steps[:most], 1):
        clock = split_time(step.time)[1] if day else step.time
        table.add_row(Text((clock or "-") if start else str(number)), _step_words(screen, step))
    screen.show(table, indent=1, width=screen.prose_width)
    _show_rest(screen, len(steps) - most, "later step")


def show_other_findings(screen: Screen, report: Report) -> None:
    """Everything else that was found: a line each, or in full with `--verbose`."""
    if screen.options.verbose:
        others = [finding for finding in report.findings if finding != report.verdict]
    else:
        others = [finding for finding in other_findings(report) if not _is_told(finding, report)]
    if not others:
        return
    screen.heading("Also found")
    most = len(others) if screen.options.verbose else _FINDINGS
    for finding in others[:most]:
        line = Text.assemble((one_line(finding.cause), "bold"), f" ({part_words(finding)}): {one_line(finding.title)}")
        line.overflow = "fold"
        row = columns(1, None, gap=1)
        row.add_row(Text("-"), line)
        screen.show(row, indent=1)
        if screen.options.verbose:
            screen.prose(f"{finding.explanation} (confidence {finding.confidence:.2f}, rule {finding.rule})", indent=3)
            show_all_evidence(screen, finding, indent=3)
    _show_rest(screen, len(others) - most, "more finding")


def show_warnings(screen: Screen, report: Report) -> None:
    """What limits the answer."""
    if not report.warnings:
        return
    screen.heading("What limits this answer")
    for warning in report.warnings:
        row = columns(1, None, gap=1)
        row.add_row(Text("!", style="yellow"), screen.words(warning))
        screen.show(row, indent=1, width=screen.prose_width)


def show_sources(screen: Screen, report: Report) -> None:
    """What was read, what was not understood, what could not be read."""
    read = [source for source in report.sources if source.error is None]
    failed = [source for source in report.sources if source.error is not None]
    strange = least_understood(read)
    screen.heading("Read")
    screen.prose(read_words(read), indent=1)
    if words := job_words(report.job):
        screen.prose(words, indent=1)
    if strange:
        what = lost_words(strange)
        if len(strange) == 1:
            screen.prose(f"{what}, in {one_line(strange[0].file)}", indent=1)
        else:
            screen.prose(f"{what}:", indent=1)
            most = len(strange) if screen.options.verbose else _SOURCES
            for source in strange[:most]:
                screen.prose(f"{source.unrecognized:,} in {one_line(source.file)}", indent=3)
            _show_rest(screen, len(strange) - most, "more file", indent=3)
    if failed:
        screen.prose(f"{count_words(len(failed), 'file')} could not be read:", indent=1, style="yellow")
        most = len(failed) if screen.options.verbose else _SOURCES
        for source in failed[:most]:
            screen.prose(f"{one_line(source.file)}: {source.error}", indent=3)
        _show_rest(screen, len(failed) - most, "more file", indent=3)


def show_last_line(screen: Screen, report: Report) -> None:
    """The verdict once more: a terminal shows the end first."""
    verdict = report.verdict
    screen.blank()
    line = Text("Verdict: ", style="bold", overflow="fold")
    line.append(one_line(verdict.title), style="not bold")
    line.append(f" ({verdict.cause}, {confidence_word(verdict.confidence)}).", style="not bold")
    screen.show(line)
    if names_fault(verdict):
        screen.show(Text("More: ") + Text(f"hangscope explain {verdict.cause}", style="cyan"))


def _is_told(finding: Finding, report: Report) -> bool:
    """Whether the story has said it."""
    steps = report.story[:_STEPS] if len(report.story) >= _STORY else ()
    return any(step.cause == finding.cause and finding.title in step.text for step in steps)


def _step_words(screen: Screen, step: StoryStep) -> Text:
    words = screen.words(step.text)
    if who := story_who(step):
        words = Text.assemble((f"{who}: ", "bold"), words)
    if step.evidence:
        words.append("\n" + place_words(step.evidence[0].at), style="dim")
    words.overflow = "fold"
    return words


def _show_collective(screen: Screen, state: CollectiveState) -> None:
    size = f" of {count_words(state.group_size, 'rank')}" if state.group_size is not None else ""
    line = Text(f"{one_line(state.op) or 'call'} {state.seq}", style="bold", overflow="fold")
    line.append(f" in group {one_line(group_title(state.group, state.description))}{size}", style="not bold")
    screen.show(line, indent=1)
    table = columns(9, None, None)
    for row in stuck_rows(state):
        who = Text(" ".join(filter(None, (fold_numbers(row.ranks), row.what))), overflow="fold")
        table.add_row(Text(row.word, style=_ROW_STYLES.get(row.word, "")), Text(f"{row.count:,}", justify="right"), who)
    screen.show(table, indent=3)


def _show_rest(screen: Screen, left: int, noun: str, indent: int = 1) -> None:
    if left > 0:
        screen.prose(f"and {count_words(left, noun)} (--verbose shows all)", indent=indent, style="dim")
