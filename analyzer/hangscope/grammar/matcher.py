"""Matches the text of a line against compiled grammars.

A grammar's alternatives are searched, not anchored: launchers, loggers and other writers may put
anything around a message. Which alternatives are worth trying is decided by an index of the words
that their literals hold, so the cost of a line that no grammar knows does not grow with the rules.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from hangscope.expressions import expression
from hangscope.grammar.index import Place, WordIndex
from hangscope.grammar.layouts import Group, Layout, lay_out
from hangscope.grammar.plans import Plan, Plans
from hangscope.grammar.samples import Sample, read_samples
from hangscope.model import Value
from hangscope.records import dataclass

_BLANKS = expression(r"[ \t]{2,}|\t")
# The time of a search can grow with the square of the text, or its cube (a word, any text, a word, any text, a word).
# Messages are shorter than this; in a longer text only what stands around their literals is searched.
_LONG = 1024
_BEFORE, _BEHIND = 512, 1536
_MOST_SPANS = 4


def squeeze(text: str) -> str:
    """The text with every run of blanks as one blank, as the literals of the grammars are written."""
    return _BLANKS.sub(" ", text) if "  " in text or "\t" in text else text


def _hex(text: str) -> int:
    return int(text, 16)


class _Search(Protocol):
    """The method `search` of a compiled expression."""

    def __call__(self, string: str, pos: int = ..., endpos: int = ...) -> re.Match[str] | None: ...


CONVERTERS: dict[str, Callable[[str], Value]] = {"int": int, "hex": _hex, "float": float, "str": str.strip}


class Match(NamedTuple):
    """A recognized message: event kind, typed fields, and where in the text it stands."""

    kind: str
    fields: dict[str, Value]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """One message shape: an alternative of a grammar's ``start`` rule, compiled.

    Attributes:
        kind: its alias, the event kind.
        pattern: regular expression, one named group a field (``field__2`` for its further places).
        fields: field name -> type name (key of `CONVERTERS`), in order of appearance.
        literals: strings of which one must be in a matching text; empty when nothing is certain.
        line: line of the grammar file, for error messages.
    """

    kind: str
    pattern: str
    fields: dict[str, str]
    literals: tuple[str, ...]
    line: int


class Grammar:
    """The message shapes of one log source."""

    def __init__(
        self,
        source: str,
        about: str,
        anchors: tuple[str, ...],
        alternatives: tuple[Alternative, ...],
        *,
        path: Path | None = None,
    ) -> None:
        self.source = source
        self.about = about
        self.anchors = anchors
        self.alternatives = alternatives
        self.file = "" if path is None else path.name
        self._path = path
        self._matchers = tuple(_Matcher(a) for a in alternatives)

    @functools.cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The sample lines of the file's header; read when asked for, as only tests do.

        Raises:
            GrammarError: naming the line that is wrong.
        """
        return () if self._path is None else read_samples(self.file, self._path.read_text(encoding="utf-8"))

    def looks_like(self, text: str) -> bool:
        """True when the text holds one of the source's literal anchors."""
        return any(anchor in text for anchor in self.anchors)

    def parse(self, text: str) -> Match | None:
        """The first alternative, in file order, that is found in the text."""
        squeezed = squeeze(text)
        possible = (index for index, matcher in enumerate(self._matchers) if matcher.is_possible(squeezed))
        return self.parse_candidates(text, squeezed, possible)

    def parse_candidates(self, text: str, squeezed: str, candidates: Iterable[int]) -> Match | None:
        """Like `parse`, but tries only these alternatives (ascending): those of which a literal is in the text."""
        for index in candidates:
            found = self._matchers[index].match(text, squeezed)
            if found is not None:
                return found
        return None

    def lay_out(self, text: str, index: int) -> Layout | None:
        """How one alternative lies in a text of at most `_LONG` characters; None when it is not in it."""
        return self._matchers[index].lay_out(self.source, text)


class _Matcher:
    """One alternative with its regular expression compiled on first use (most are never needed)."""

    __slots__ = ("_alternative", "_groups", "_literals", "_search")

    def __init__(self, alternative: Alternative) -> None:
        self._alternative = alternative
        self._literals = alternative.literals
        self._search: _Search | None = None
        self._groups: tuple[Group, ...] = ()

    def is_possible(self, squeezed: str) -> bool:
        """Whether one of the literals is in the text."""
        return not self._literals or any(literal in squeezed for literal in self._literals)

    def match(self, text: str, squeezed: str) -> Match | None:
        search = self._search or self._compile()
        found = search(text) if len(text) <= _LONG else _search_long(search, squeezed, self._literals)
        if found is None:
            return None
        fields: dict[str, Value] = {}
        try:
            for group, name, convert in self._groups:
                value = found.group(group)
                if value is not None and name not in fields:
                    fields[name] = convert(value)
        except ValueError:
            # Python reads no number of more than 4300 digits; nobody prints one
            return None
        return Match(self._alternative.kind, fields, found.start(), found.end())

    def lay_out(self, source: str, text: str) -> Layout | None:
        found = (self._search or self._compile())(text)
        return None if found is None else lay_out(source, self._alternative.kind, found, self._groups)

    def _compile(self) -> _Search:
        compiled = re.compile(self._alternative.pattern)
        types = self._alternative.fields
        self._groups = tuple(
            (group, group.split("__")[0], CONVERTERS[types[group.split("__")[0]]]) for group in compiled.groupindex
        )
        self._search = compiled.search
        return compiled.search


def _search_long(search: _Search, squeezed: str, literals: tuple[str, ...]) -> re.Match[str] | None:
    """The first match near one of the literals; its places are those in the squeezed text."""
    for start, end in itertools.islice(_spans(squeezed, literals), _MOST_SPANS):
        found = search(squeezed, start, end)
        if found is not None:
            return found
    return None


def _spans(text: str, literals: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """The surroundings of each literal, so that a message stands whole in one of them."""
    if not literals:
        yield 0, _BEHIND
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            yield max(0, at - _BEFORE), at + _BEHIND
            at = text.find(literal, at + _BEHIND - _BEFORE)


class GrammarSet:
    """All grammars together, with an index from pieces of words to the alternatives that need them."""

    def __init__(self, grammars: tuple[Grammar, ...]) -> None:
        self.grammars = grammars
        self._by_source = {grammar.source: grammar for grammar in grammars}
        self._index = WordIndex()
        self._unconditional: list[Place] = []
        self._plans = Plans(lambda place: grammars[place[0]].alternatives[place[1]].pattern)
        for g, grammar in enumerate(grammars):
            for a, alternative in enumerate(grammar.alternatives):
                self._plans.add((g, a), alternative.literals)
                if not alternative.literals:
                    self._unconditional.append((g, a))
                for literal in alternative.literals:
                    self._index.add(literal, (g, a))

    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Event kind -> names of the fields it can have."""
        found: dict[str, dict[str, None]] = {}
        for grammar in self.grammars:
            for alternative in grammar.alternatives:
                found.setdefault(alternative.kind, {}).update(dict.fromkeys(alternative.fields))
        return {kind: tuple(names) for kind, names in found.items()}

    def layouts(self, template: str) -> tuple[Layout, ...] | None:
        """What all texts of this template say, when two of them were parsed already; see `grammar.layouts`."""
        return self._plans.layouts(template)

    def parse(self, text: str) -> list[tuple[Grammar, Match]]:
        """What the text says: at most one match a grammar, in the order of the grammars."""
        plan, template = self._plans.look_up(text)
        if plan is not None and (layouts := self._plans.layouts(template)) is not None:
            return [(self._by_source[of.source], Match(of.kind, of.fields(text), of.start, of.end)) for of in layouts]
        squeezed = text if len(text) <= _LONG and plan is not None else squeeze(text)
        if plan is None:
            places = self._index.candidates(squeezed)
            places.update(self._unconditional)
            if template:

                def lie(place: Place) -> Layout | None:
                    return self.grammars[place[0]].lay_out(text, place[1])

                plan = self._plans.keep(template, squeeze(template), places, lie)
            else:
                plan = _by_grammar(places)
        found = []
        for g, indexes in plan:
            match = self.grammars[g].parse_candidates(text, squeezed, indexes)
            if match is not None:
                found.append((self.grammars[g], match))
        return found


def _by_grammar(places: Iterable[Place]) -> Plan:
    plan: dict[int, list[int]] = {}
    for g, a in sorted(places):
        plan.setdefault(g, []).append(a)
    return tuple((g, tuple(indexes)) for g, indexes in plan.items())
