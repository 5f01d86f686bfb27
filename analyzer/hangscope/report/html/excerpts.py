"""Gives every quoted line one place on the page, so that everything else that cites it can link there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hangscope.model import Evidence, Finding, Location, Report
from hangscope.report.printable import one_line, shorten_middle

LONGEST = 4_000
"""Characters of a line that are shown; of longer ones the middle is left out."""


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """One line of a log: its number ("" where the source has no lines), its text, whether it is what is cited."""

    number: str
    text: str
    cited: bool


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A cited line with the lines around it.

    Attributes:
        anchor: id of the place on the page where it stands.
        here: it stands here; else this is one more mention, and a link to it will do.
        place: ``file:line``.
        why: what it proves.
        lines: in the order of the file.
    """

    anchor: str
    here: bool
    place: str
    why: str
    lines: tuple[QuotedLine, ...]


class Excerpts:
    """The quoted lines of a report; whoever asks first for one shows it."""

    def __init__(self) -> None:
        self._anchors: dict[tuple[str, int | None, int], str] = {}

    def show(self, evidence: Iterable[Evidence]) -> list[Excerpt]:
        """Excerpts to stand where this is called: the lines that stand nowhere yet in full, the others as links."""
        return [self._excerpt(item) for item in evidence]

    def new(self, evidence: Iterable[Evidence]) -> list[Excerpt]:
        """Only those that stand nowhere yet."""
        return [excerpt for item in evidence if (excerpt := self._excerpt(item)).here]

    def anchor(self, at: Location) -> str:
        """Id of the place where a line stands, "" when it stands nowhere."""
        return self._anchors.get((at.file, at.line, at.offset), "")

    def _excerpt(self, item: Evidence) -> Excerpt:
        key = (item.at.file, item.at.line, item.at.offset)
        here = key not in self._anchors
        anchor = self._anchors.setdefault(key, f"line-{len(self._anchors) + 1}")
        return Excerpt(anchor, here, place_words(item.at), item.why, tuple(_lines(item)) if here else ())


def other_evidence(report: Report) -> Iterator[Evidence]:
    """What the page cites and no finding does: of the story's stuck calls, of comparisons, of inferred versions."""
    for step in report.story:
        yield from step.evidence
    for comparison in report.comparisons:
        for value in comparison.values:
            if value.evidence is not None and (comparison.differs or len(comparison.values) == 1):
                yield value.evidence
    for product in sorted(report.job.inferred):
        yield from report.job.inferred[product].evidence


def other_findings(report: Report) -> list[Finding]:
    """Everything that was found beside the verdict."""
    return [finding for finding in report.findings if finding != report.verdict]


def place_words(at: Location) -> str:
    """``file:line``, or the file alone for what has no lines."""
    name = one_line(at.file)
    return name if at.line is None else f"{name}:{at.line}"


def _lines(item: Evidence) -> Iterator[QuotedLine]:
    first = None if item.at.line is None else item.at.line - len(item.before)
    texts = (*item.before, item.text, *item.after)
    for index, text in enumerate(texts):
        number = "" if first is None else str(first + index)
        yield QuotedLine(number, shorten_middle(one_line(text), LONGEST, " \u2026 "), index == len(item.before))
