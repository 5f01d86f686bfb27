"""What the templates ask for: the parts of the page as words and rows, in the words of the terminal report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from hangscope.expressions import expression
from hangscope.model import (
    ComparedValue,
    Comparison,
    Report,
    StackState,
    StoryStep,
)
from hangscope.model.grid import lay_out
from hangscope.model.states import state_style
from hangscope.records import dataclass
from hangscope.report import answers
from hangscope.report.comparisons import differing, lone_lines, properties
from hangscope.report.html.excerpts import Excerpt, Excerpts, QuotedLine, other_evidence
from hangscope.report.html.tree import fold_tree
from hangscope.report.printable import one_line, shorten_middle
from hangscope.report.proof import drop_noise
from hangscope.report.source_words import least_understood
from hangscope.report.spans import count_words, fold_hosts
from hangscope.report.stack_words import AT_REST, change_words, doing_words, members_words, own_frame
from hangscope.report.standings import count_of_what, find_places, unequal_groups
from hangscope.report.times import duration_words, seconds_between, split_time

Context = dict[str, object]

_FURTHER_LINES = 400
_SHORT = 240
_MARK = "\u2026"
_SIDE_BY_SIDE = 16
"""So many rows of the grid at most stand beside the table of states; more of them get the page's width."""

_PARAGRAPH = expression(r"\n\s*\n")
_LINE_END = expression(r"[ ]*\n(?=\S)(?![-*] |\d+[.)] )")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the story, with the clock to show for it."""

    step: StoryStep
    clock: str
    who: str
    is_verdict: bool


@dataclass(frozen=True, slots=True)
class Stack:
    """Processes whose stacks stand together, in words; no frames for those that are at rest in every job."""

    state: StackState
    who: str
    what: str
    change: str
    own: str
    frames: tuple[str, ...]
    odd: bool


def describe(report: Report) -> Context:
    """Everything that the templates need beside the report itself."""
    excerpts = Excerpts()
    # in the order in which they stand on the page: who comes first shows the lines
    proof, further_proof = excerpts.prove(report.verdict.evidence)
    said = excerpts.show(report.verdict.also_said)
    others = [(finding, excerpts.show(finding.evidence)) for finding in answers.other_findings(report)]
    context: Context = {
        "title": one_line(report.verdict.title),
        "job_facts": _job_facts(report),
        "excerpts": excerpts,
        "proof": proof,
        "further_proof": further_proof,
        "said": said,
        "others": others,
        "further_lines": excerpts.new(islice(other_evidence(report), _FURTHER_LINES)),
        "places": find_places(report),
        "counts": unequal_groups(report),
        "counts_about": count_of_what(report),
        "some_where": any(state.where for state in report.ranks),
        "many_hosts": len(lay_out(report.ranks).rows) > _SIDE_BY_SIDE,
        "ranks_about": answers.ranks_about(report),
        "story": _story(report),
        "story_day": answers.story_day(report),
        "known_ranks": answers.tells_of_ranks(report),
        "stacks": _stacks(report),
        "tree": fold_tree(report),
        "compared": properties(report.comparisons),
        "different": differing(report.comparisons),
        "equal": [c for c in properties(report.comparisons) if not c.differs],
        "lone_lines": lone_lines(report.comparisons),
        "is_fault": answers.names_fault(report.verdict),
        "read": [s for s in report.sources if s.error is None],
        "failed": [s for s in report.sources if s.error is not None],
        "strange": least_understood(report.sources),
    }
    context["sections"] = [(name, words) for name, words, there in _sections(report, context) if there]
    return context


def paragraphs(text: str) -> list[str]:
    """Prose from anywhere as paragraphs; the line ends of whoever wrote them give way, those of lists stay."""
    return [_LINE_END.sub(" ", part.strip("\n")) for part in _PARAGRAPH.split(text.strip()) if part.strip()]


def glyph(state: str) -> str:
    """The character that stands for a state of a rank."""
    return state_style(state).glyph


def glance(excerpt: Excerpt) -> list[QuotedLine]:
    """The lines of an excerpt short enough for the first screen: pointers cut, and what all are indented by."""
    texts = [line.text for line in excerpt.lines]
    margin = min((len(text) - len(text.lstrip()) for text in texts if text.strip()), default=0)
    return [
        replace(line, text=shorten_middle(drop_noise(line.text[margin:], _MARK), _SHORT, f" {_MARK} "))
        for line in excerpt.lines
    ]


def short(text: str) -> str:
    """A text on one line, its middle left out when it is long."""
    return shorten_middle(one_line(text), _SHORT, f" {_MARK} ")


def hosts_of(value: ComparedValue) -> str:
    """Its hosts; of what nobody knows the rank and host of, the file."""
    if value.hosts or not value.names:
        return one_line(fold_hosts(value.hosts))
    left = len(value.names) - 1
    return one_line(value.names[0]) + (f" and {count_words(left, 'more file')}" if left else "")


def _job_facts(report: Report) -> list[str]:
    """What job it is, in short phrases for the head of the page."""
    job = report.job
    facts = []
    if report.ranks:
        facts.append(count_words(len(report.ranks), "rank"))
    if job.hosts:
        names = one_line(fold_hosts(job.hosts))
        facts.append(
            f"{count_words(len(job.hosts), 'host')} ({names})"
            if len(names) <= 60
            else count_words(len(job.hosts), "host")
        )
    if words := answers.job_words(job):
        facts.append(words)
    if job.first_time:
        facts.append(_period(job.first_time, job.last_time))
    return facts


def _period(first: str, last: str | None) -> str:
    """``2026-11-30, 12:03:07 to 12:13:09 (10 min 2 s)``."""
    date, start = split_time(first)
    day = answers.day_words(date) if date else ""
    words = f"{day}, {start}" if day else start
    length = seconds_between(first, last)
    if last is None or length is None or length <= 0:
        return words
    last_date, end = split_time(last)
    end = end if last_date == date else f"{answers.day_words(last_date)}, {end}"
    return f"{words} to {end} ({duration_words(length)})"


def _story(report: Report) -> list[Step]:
    one_day = bool(answers.story_day(report))
    return [
        Step(
            step,
            split_time(step.time)[1] if one_day else step.time or "",
            answers.story_who(step),
            step.cause == report.verdict.cause,
        )
        for step in report.story
    ]


def _stacks(report: Report) -> list[Stack]:
    alone = len(report.stacks) == 1
    return [
        Stack(
            state=state,
            who=members_words(state),
            what=doing_words(state),
            change=change_words(state),
            own=own_frame(state),
            frames=() if state.state in AT_REST and not state.outlier and not alone else state.frames,
            odd=state.outlier and not alone,
        )
        for state in report.stacks
    ]


def _sections(report: Report, context: Context) -> Iterator[tuple[str, str, bool]]:
    """Id, words, and whether it is on the page, of each of its parts."""
    yield "story", "Story", len(report.story) > 1
    yield "ranks", "Ranks", bool(context["known_ranks"])
    calls = report.history is not None and bool(report.history.groups or report.history.transfers)
    yield "collectives", "Collectives", bool(report.collectives or context["counts"] or calls)
    yield "stacks", "Stacks", bool(report.stacks)
    yield "differences", "Differences", bool(context["compared"] or context["lone_lines"])
    yield "proof", answers.proof_word(report.verdict), bool(context["proof"])
    yield "findings", "Also found", bool(context["others"])
    yield "limits", "Limits", bool(report.warnings)
    yield "read", "Read", True


def must_agree(comparison: Comparison) -> bool:
    """Whether its difference can make ranks wait for each other."""
    return comparison.must_agree and comparison.differs
