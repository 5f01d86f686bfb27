"""What is remembered about lines that differ in their digits gives what looking at each line anew gives."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import pytest

from hangscope.grammar import Grammar, GrammarSet, load_grammars
from hangscope.grammar.matcher import Match
from hangscope.grammar.plans import Plan, Plans

GRAMMARS = load_grammars()
SAMPLES = sorted({sample.text for grammar in GRAMMARS for sample in grammar.samples})
DIGIT = re.compile(r"\d")


def said(found: Iterable[tuple[Grammar, Match]]) -> list[tuple[str, str, int, int]]:
    return [(match.kind, repr(match.fields), match.start, match.end) for _, match in found]


def anew(text: str) -> list[tuple[str, str, int, int]]:
    """What each grammar says by itself."""
    found = ((grammar, grammar.parse(text)) for grammar in GRAMMARS)
    return said([(grammar, match) for grammar, match in found if match is not None])


def test_every_sample_with_other_digits_says_what_it_says_by_itself() -> None:
    rng = random.Random(5)  # noqa: S311 - other numbers, no secret
    grammars = GrammarSet(GRAMMARS)
    for text in SAMPLES:
        variants = [DIGIT.sub(lambda _: rng.choice("0123456789"), text) for _ in range(3)]
        # the second one of a kind is remembered, the others are looked up
        for variant in (text, *variants, text):
            assert said(grammars.parse(variant)) == anew(variant), variant


@pytest.mark.parametrize(
    ("pattern", "touchy"),
    [
        (r"rank (?P<rank>\d+) of (?P<size__2>[0-9]{1,6})", False),
        (r"mlx5_\d", True),
        (r"[1-9]\d*", True),
        (r"(\d+) and \1", True),
        (r"(?P<rank>\d+) and (?P=rank)", True),
        (r"[0-9a-f]+ (?:\w+){2,}", False),
        (r"0x[0-9a-f]+", True),
    ],
)
def test_an_expression_with_digits_of_its_own_is_always_tried(pattern: str, touchy: bool) -> None:
    assert Plans(lambda _: pattern)._is_touchy((0, 0)) is touchy


def test_plans_that_another_thread_empties_meanwhile_are_made_anew() -> None:
    class Emptied(dict[str, Plan | None]):
        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            self.clear()
            return found

    plans = Plans(lambda _: "rank")
    plans._plans = Emptied()
    plans.look_up("rank 5")
    assert plans.look_up("rank 6") == (None, "rank 0")
    assert plans.look_up("rank 7") == (None, "")
