"""No alternative of a grammar takes long for a line that was written to make it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from hangscope.grammar import Alternative, Grammar, load_grammars
from hangscope.grammar.matcher import _Matcher, squeeze

SIZE = 1 << 16
WORDS = re.compile(r"\S+|\s+")
MOST = 60
"""So many times what it takes to find the words of the same line: a tenth of a second or so."""


def _seconds(act: Callable[[], object]) -> float:
    begun = time.process_time()
    act()
    return time.process_time() - begun


def _filled(unit: str) -> str:
    return (unit * (SIZE // len(unit) + 1))[:SIZE]


def _lines(alternative: Alternative, samples: list[str]) -> Iterator[str]:
    """Lines that nearly match: the surest literal again and again, or followed by what a field takes; cut samples."""
    literal = max(alternative.literals or ("",), key=len)
    yield _filled(f"{literal} ")
    for filling in ("1", "a ", " x: 1,", "'"):
        yield (literal + _filled(filling))[:SIZE]
    yield _filled("a ")[: SIZE - len(literal)] + literal
    for sample in samples[:2]:
        yield _filled(sample[: len(sample) * 2 // 3 + 1] + " ")
        yield _filled(sample[:-1] + " ")


@pytest.mark.parametrize("grammar", load_grammars(), ids=lambda grammar: grammar.file)
def test_hostile_lines_take_no_alternative_long(grammar: Grammar) -> None:
    slow = []
    for alternative in grammar.alternatives:
        matcher = _Matcher(alternative)
        matcher._compile()
        for line in _lines(alternative, [sample.text for sample in grammar.samples if sample.kind == alternative.kind]):
            squeezed = squeeze(line)

            def act(matcher: _Matcher = matcher, line: str = line, squeezed: str = squeezed) -> object:
                return matcher.match(line, squeezed)

            limit = MOST * max(0.001, _seconds(lambda line=line: WORDS.findall(line)))  # type: ignore[misc]
            # one time in many the machine is to blame
            if all(_seconds(act) > limit for _ in range(3)):
                slow.append(f"{alternative.line} {alternative.kind}: {line[:60]!r}")
    assert slow == []
