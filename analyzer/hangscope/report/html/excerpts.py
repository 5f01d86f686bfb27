"""Gives every quoted line one place on the page, so that everything else that cites it can link there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hangscope.model import Evidence, Location, Report
from hangscope.records import dataclass
from hangscope.report import proof as proofs
from hangscope.report.printable import one_line, shorten_middle
from hangscope.report.spans import rank_words

LONGEST = 4_000
"""Characters of a line that are shown; of longer ones the middle is left out."""


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """One line of a log: its number where that is known, its text, whether it is what is cited."""

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


@dataclass(frozen=True, slots=True)
class Proof:
    """A line that proves something, and those that say the same of other ranks, with whose they are in words."""

    line: Excerpt
    alike: tuple[Excerpt, ...]
    alike_words: str


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

    def prove(self, evidence: Sequence[Evidence]) -> tuple[list[Proof], list[Excerpt]]:
        """The lines to read first, each with those that say the same, and all others."""
        first = proofs.at_first_sight(evidence)
        proven = [Proof(self._excerpt(one.line), tuple(self.show(one.alike)), _alike_words(one)) for one in first]
        shown = {id(item) for one in first for item in (one.line, *one.alike)}
        return proven, self.show(item for item in evidence if id(item) not in shown)

    def anchor(self, at: Location) -> str:
        """Id of the place where a line stands, "" when it stands nowhere."""
        return self._anchors.get((at.file, at.line, at.offset), "")

    def _excerpt(self, item: Evidence) -> Excerpt:
        key = (item.at.file, item.at.line, item.at.offset)
        here = key not in self._anchors
        anchor = self._anchors.setdefault(key, f"line-{len(self._anchors) + 1}")
        return Excerpt(anchor, here, proofs.place_words(item.at), item.why, tuple(_lines(item)) if here else ())


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


def _alike_words(proof: proofs.Proof) -> str:
    """``14 alike: ranks 1-14``."""
    who = f": {rank_words(proof.ranks_alike, most=60)}" if proof.ranks_alike else ""
    return f"{len(proof.alike):,} alike{who}" if proof.alike else ""


def _lines(item: Evidence) -> Iterator[QuotedLine]:
    """The cited line among those of its writer; of these only its own number is known, as others may stand between."""
    yield from (QuotedLine("", _shown(text), cited=False) for text in item.before)
    yield QuotedLine("" if item.at.line is None else str(item.at.line), _shown(item.text), cited=True)
    yield from (QuotedLine("", _shown(text), cited=False) for text in item.after)


def _shown(text: str) -> str:
    return shorten_middle(one_line(text), LONGEST, " \u2026 ")
