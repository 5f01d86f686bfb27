"""Remembers which alternatives a text was worth trying, for texts that differ in their digits only.

A log repeats its messages with other numbers in them. Whether an alternative matches depends on which digits these are
only where its expression has some itself (`mlx5_`, `[1-9]`); all others match one such text or none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from hangscope.grammar.index import Place, WordIndex
from hangscope.grammar.layouts import Layout, blank, plain, tells_apart, widened

Plan = tuple[tuple[int, tuple[int, ...]], ...]
"""For each grammar the alternatives to try, in order."""

_LONGEST = 1024
"""The tree of each of many channels stands on one line."""
_MOST = 1 << 13


class Plans:
    """The plans of a set of grammars.

    Args:
        pattern: tells the expression of an alternative.
    """

    def __init__(self, pattern: Callable[[Place], str]) -> None:
        self._pattern = pattern
        self._touchy: dict[Place, _Touchy | None] = {}
        self._by_digits = WordIndex()
        self._plans: dict[str, Plan | None] = {}
        self._layouts: dict[str, tuple[Layout, ...]] = {}

    def add(self, place: Place, literals: Iterable[str]) -> None:
        """Adds an alternative, with the literals of which one is in every text that it matches."""
        for literal in literals:
            if (template := plain(blank(literal))) != literal or "0" in literal:
                self._by_digits.add(template, place)

    def layouts(self, template: str) -> tuple[Layout, ...] | None:
        """The messages in all texts of a template, where other digits make no difference and two have come already."""
        return self._layouts.get(template)

    def look_up(self, text: str) -> tuple[Plan | None, str]:
        """The plan for a text, or None and what to keep the plan by: empty when the text's like has not come before."""
        if len(text) > _LONGEST:
            return None, ""
        template = blank(text)
        # one step each, as threads of a cluster's worker share the plans: another may empty them in between
        if (plan := self._plans.get(template)) is not None:
            return plan, template
        if template in self._plans:
            return None, template
        if len(self._plans) >= _MOST:
            self._plans.clear()
            self._layouts.clear()
        # texts that never come again, with addresses in them, are not worth a plan
        self._plans[template] = None
        return None, ""

    def keep(self, template: str, squeezed: str, places: set[Place], lay_out: Callable[[Place], Layout | None]) -> Plan:
        """Makes a plan and keeps it.

        Args:
            template: what to keep it by.
            squeezed: the same, squeezed.
            places: the alternatives worth trying for the text.
            lay_out: how one of them lies in it; None when it does not match.
        """
        plan: dict[int, list[int]] = {}
        layouts: list[Layout] = []
        settled: set[int] = set()
        zeros = plain(template)
        for place in sorted(places | self._by_digits.candidates(plain(squeezed))):
            grammar, alternative = place
            if grammar in settled:
                continue
            if (touchy := self._touchy_one(place)) is not None:
                if touchy.may_match(zeros):
                    plan.setdefault(grammar, []).append(alternative)
            elif (layout := lay_out(place)) is not None:
                # whatever the digits are, none behind it is ever tried
                plan.setdefault(grammar, []).append(alternative)
                settled.add(grammar)
                layouts.append(layout)
        if sum(map(len, plan.values())) == len(layouts):
            self._layouts[template] = tuple(layouts)
        made = self._plans[template] = tuple((grammar, tuple(indexes)) for grammar, indexes in plan.items())
        return made

    def _touchy_one(self, place: Place) -> _Touchy | None:
        """An alternative that may match one text and not another that has other digits; None for all others."""
        if place not in self._touchy:
            pattern = self._pattern(place)
            self._touchy[place] = _Touchy(pattern) if tells_apart(pattern) else None
        return self._touchy[place]


class _Touchy:
    """An alternative for which it matters which digits a text has."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._search: Callable[[str], object] | None = None

    def may_match(self, text: str) -> bool:
        """Whether it may match this text if it had other digits."""
        if self._search is None:
            wide = widened(self._pattern)
            self._search = bool if wide is None else re.compile(wide).search
        return bool(self._search(text))
