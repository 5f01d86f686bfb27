"""Chooses which lines of a finding's evidence are shown first, and tells which of them say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hangscope.expressions import expression
from hangscope.model import Evidence, Location
from hangscope.records import dataclass
from hangscope.report.printable import one_line

FIRST_SIGHT = 12
"""So many lines are shown at most before a reader asks for more."""
_OF_ONE_KIND = 3

_RANK = expression(r"\brank \d+\b")
_WHO = expression(r"\b(?:rank \d+|(?:process|pid) \d+(?: on [\w.-]+)?)")
# who wrote the line, when, and where in its memory; how much of what is called is no detail
_DETAIL = expression(r"(?<!count )(?<!Count )(?<!root )(?<!datatype )(?:\b(?:0x)?(?=[a-f]*\d)[0-9a-f]++\b|(?<!\d)\d+)")
_POINTER = expression(r"\b((?:send|recv)buff|stream) 0x[0-9a-f]{4,}([0-9a-f]{4})\b")
# ProcessGroupNCCL.cpp, 2.3 and later: the same 380 characters behind the numbers of every rank
_ADVICE = expression(r"\s*This is most likely caused by incorrect usages of collectives, e\.g\.,.*\Z")


@dataclass(frozen=True, slots=True)
class Proof:
    """A line of evidence, and those that say the same of other ranks.

    Attributes:
        line: the first of them.
        alike: the others, in their order.
    """

    line: Evidence
    alike: tuple[Evidence, ...] = ()

    @property
    def ranks_alike(self) -> tuple[int, ...]:
        """The ranks that the others speak of; () when one of them names none, or all speak of the first one's."""
        own = _named(self.line)
        named = [_named(one) for one in self.alike]
        return () if None in named or set(named) == {own} else tuple(rank for rank in named if rank is not None)


def _named(item: Evidence) -> int | None:
    """The one rank that the reason names."""
    found = _RANK.findall(item.why)
    return int(found[0].split()[1]) if len(found) == 1 else None


def fold_alike(evidence: Sequence[Evidence]) -> list[Proof]:
    """The lines in their order; what differs from an earlier one only in writer, time and pointers is put to it."""
    together: dict[tuple[str, str], list[Evidence]] = {}
    for item in evidence:
        key = (_WHO.sub("#", item.why), _DETAIL.sub("#", item.text))
        together.setdefault(key, []).append(item)
    return [Proof(first, tuple(others)) for first, *others in together.values()]


def at_first_sight(evidence: Sequence[Evidence], most: int = FIRST_SIGHT) -> list[Proof]:
    """The first lines, but few of one kind when not all fit: what each proves counts, not how often."""
    proofs = fold_alike(evidence)
    if len(proofs) <= most:
        return proofs
    times: Counter[str] = Counter()
    few = []
    for proof in proofs:
        times[proof.line.why] += 1
        if times[proof.line.why] <= _OF_ONE_KIND:
            few.append(proof)
    return few[:most]


def place_words(at: Location) -> str:
    """``file:line``, or the file alone for what has no lines; safe to show."""
    name = one_line(at.file)
    return name if at.line is None else f"{name}:{at.line}"


def drop_noise(text: str, mark: str) -> str:
    """Leave out what pushes the answer out of sight: most of a buffer's or stream's address, torch's general advice."""
    return _ADVICE.sub(f" {mark}", _POINTER.sub(rf"\1 0x{mark}\2", text))
