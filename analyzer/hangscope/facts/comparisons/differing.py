"""Turns a comparison whose values differ into facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hangscope.model import Comparison, Evidence, Fact, Value
from hangscope.ranges import rank_words

_VALUES = 6
_NAMES = 4


def name_holders(ranks: Sequence[int], hosts: Sequence[str], names: Sequence[str] = ()) -> str:
    """``rank 3``, ``ranks 4-7``, else their hosts, else their files: what a text calls those who have a value."""
    if ranks:
        return rank_words(ranks)
    known = list(hosts or names)
    if not known:
        return "some processes"
    more = f" and {len(known) - _NAMES} more" if len(known) > _NAMES else ""
    return ", ".join(known[:_NAMES]) + more


def facts_of(comparison: Comparison | None, kind: str, fields: Mapping[str, Value] | None = None) -> Iterator[Fact]:
    """One fact for each value that most do not have; none when all agree.

    The fact has the fields ``version`` (or what `fields` calls it under "value"), ``expected``, ``who`` and the given
    ones; its ranks and hosts are those that have the value, and those affected have what most have.
    """
    if comparison is None or not comparison.differs:
        return
    usual, *odd = comparison.values
    extra = dict(fields or {})
    key = str(extra.pop("value", "version"))
    for value in odd:
        shown = (value, usual, *(other for other in odd if other is not value))
        lines = tuple(_line(one.evidence, one.text) for one in shown[:_VALUES] if one.evidence is not None)
        yield Fact(
            kind,
            {
                **extra,
                key: value.text,
                "expected": usual.text,
                "who": name_holders(value.ranks, value.hosts, value.names),
            },
            value.ranks,
            value.hosts or value.names,
            affected=usual.ranks,
            evidence=lines,
        )


def _line(evidence: Evidence, text: str) -> Evidence:
    return Evidence(evidence.at, evidence.text, evidence.why or f"it is {text} here")
