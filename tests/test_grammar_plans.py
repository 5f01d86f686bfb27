"""What is remembered about lines that differ in their digits gives what looking at each line anew gives."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import pytest

from hangscope.grammar import Grammar, GrammarSet, load_grammars
from hangscope.grammar.layouts import blank, plain, tells_apart, widened
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
        (r"mlx4_\d", True),
        (r"mlx5_\d, P2P and p2p", False),
        (r"(?i:mlx5_)", True),
        (r"[0x]", True),
        (r"P2+", True),
        (r"\[0x[0-9a-f]+\]", False),
        (r"[1-9]\d*", True),
        (r"(\d+) and \1", True),
        (r"(?P<rank>\d+) and (?P=rank)", True),
        (r"[0-9a-f]+ (?:\w+){2,}", False),
        (r"0x[0-9a-f]+", False),
        (r"0x?", True),
    ],
)
def test_an_expression_with_digits_of_its_own_is_always_tried(pattern: str, touchy: bool) -> None:
    assert tells_apart(pattern) is touchy


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


def test_texts_of_one_template_have_the_same_words_with_digits() -> None:
    assert blank("P2P 12 at 0x3f2, mlx5_1") == blank("P2P 34 at 0x9f7, mlx5_0")
    assert blank("P3P 12 at 1x3f2, mlx4_1") == plain(blank("P2P 34 at 0x9f7, mlx5_0"))
    assert len({blank(text) for text in ("P2P2P", "P3P2P", "P2P3P", "P3P3P")}) == 4


@pytest.mark.parametrize(
    ("pattern", "wide"),
    [
        (r"mlx4_(?P<port>[1-9]{1,2})", r"mlx\d_(?P<port>[0-91-9]{1,2})"),
        (r"\[2\] (?!no)P3", r"\[\d\] (?!no)P\d"),
        (r"(?!no 5)P3", None),
        (r"(?<!(?:a|b))P3", None),
        (r"[^3]", None),
        (r"(\d)\1", None),
    ],
)
def test_an_expression_is_widened_to_any_digits(pattern: str, wide: str | None) -> None:
    assert widened(pattern) == wide


def test_the_fields_of_a_text_are_cut_out_of_it_where_those_of_another_stood() -> None:
    grammars = GrammarSet(GRAMMARS)
    texts = [f"Channel 0{n}/0 : {n}[{n}] -> 7[7] via P2P/CUMEM/read" for n in range(3)]
    assert grammars.layouts(blank(texts[0])) is None
    for text in texts[:2]:
        grammars.parse(text)
    (layout,) = grammars.layouts(blank(texts[2])) or ()
    ((_, match),) = grammars.parse(texts[2])
    assert (layout.kind, layout.fields(texts[2])) == ("channel_edge", match.fields)
    assert (match.fields["source"], match.fields["target"], match.fields["transport"]) == (2, 7, "P2P/CUMEM/read")
