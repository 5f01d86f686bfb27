"""Remembers which alternatives a text was worth trying, for texts that differ in their digits only.

A log repeats its messages with other numbers in them. Whether an alternative matches depends on which digits these are
only where its expression has some itself (`mlx5_`, `[1-9]`); all others match one such text or none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hangscope.expressions import expression
from hangscope.grammar.index import Place, WordIndex

Plan = tuple[tuple[int, tuple[int, ...]], ...]
"""For each grammar the alternatives to try, in order."""

_BLANKED = str.maketrans("123456789", "0" * 9)
_LONGEST = 400
_MOST = 1 << 13
# what may hold digits and does not tell them apart: names of groups, numbers of repeats, and the class of all digits
_NOT_DIGITS = expression(r"\(\?P<\w+>|\{\d*,?\d*\}|0-9")
_TELLS_APART = expression(r"\d|\(\?P=")


class Plans:
    """The plans of a set of grammars.

    Args:
        pattern: tells the expression of an alternative.
    """

    def __init__(self, pattern: Callable[[Place], str]) -> None:
        self._pattern = pattern
        self._touchy: dict[Place, bool] = {}
        self._by_digits = WordIndex()
        self._plans: dict[str, Plan | None] = {}

    def add(self, place: Place, literals: Iterable[str]) -> None:
        """Adds an alternative, with the literals of which one is in every text that it matches."""
        for literal in literals:
            if (template := literal.translate(_BLANKED)) != literal or "0" in literal:
                self._by_digits.add(template, place)

    def look_up(self, text: str) -> tuple[Plan | None, str]:
        """The plan for a text, or None and what to keep the plan by: empty when the text's like has not come before."""
        if len(text) > _LONGEST:
            return None, ""
        template = text.translate(_BLANKED)
        # one step each, as threads of a cluster's worker share the plans: another may empty them in between
        if (plan := self._plans.get(template)) is not None:
            return plan, template
        if template in self._plans:
            return None, template
        if len(self._plans) >= _MOST:
            self._plans.clear()
        # texts that never come again, with addresses in them, are not worth a plan
        self._plans[template] = None
        return None, ""

    def keep(self, template: str, squeezed: str, places: set[Place], matches: Callable[[Place], bool]) -> Plan:
        """Makes a plan and keeps it.

        Args:
            template: what to keep it by.
            squeezed: the same, squeezed.
            places: the alternatives worth trying for the text at hand.
            matches: whether one of them matches it.
        """
        plan: dict[int, list[int]] = {}
        settled: set[int] = set()
        for place in sorted(places | self._by_digits.candidates(squeezed)):
            grammar, alternative = place
            if grammar in settled:
                continue
            if self._is_touchy(place):
                plan.setdefault(grammar, []).append(alternative)
            elif matches(place):
                # whatever the digits are, none behind it is ever tried
                plan.setdefault(grammar, []).append(alternative)
                settled.add(grammar)
        made = self._plans[template] = tuple((grammar, tuple(indexes)) for grammar, indexes in plan.items())
        return made

    def _is_touchy(self, place: Place) -> bool:
        """Whether an alternative may match one text and not another that has other digits."""
        touchy = self._touchy.get(place)
        if touchy is None:
            rest = _NOT_DIGITS.sub("", self._pattern(place))
            touchy = self._touchy[place] = _TELLS_APART.search(rest) is not None
        return touchy
