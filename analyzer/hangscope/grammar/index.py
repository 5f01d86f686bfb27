"""Finds which literals can be in a text, by the words of both, so that the cost does not grow with the literals."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.expressions import expression

Place = tuple[int, int]
"""Index of a grammar, and of one of its alternatives."""

_SHORTEST = 3
_MOST_WORDS, _LONGEST = 1 << 14, 64
_WORD = expression(r"[A-Za-z_]{3,}")


class WordIndex:
    """Literals by a word that they hold.

    A word inside a literal is a whole word of every text that holds the literal. A word at the end of a literal
    may go on in the text, one at its beginning may have begun before it (torn lines glue words together): those
    are indexed by their first and last letters, one that is all of a literal by both. Literals without such a word
    are looked for in every text.
    """

    def __init__(self) -> None:
        self._whole: dict[str, list[tuple[str, Place]]] = {}
        self._begins: dict[str, list[tuple[str, Place]]] = {}
        self._ends: dict[str, list[tuple[str, Place]]] = {}
        # by what is left without digits in front: of ten literals that differ in these none is in most texts
        self._always: dict[str, list[tuple[str, Place]]] = {}
        self._of_word: dict[str, tuple[tuple[str, Place], ...]] = {}
        self._barren: set[str] = set()

    def add(self, literal: str, place: Place) -> None:
        """Adds one literal of an alternative."""
        self._of_word.clear()
        self._barren.clear()
        best = max(_keys(literal), key=lambda key: (key[0], len(key[1])), default=(0, ""))
        rank, word = best
        if rank == _WHOLE:
            self._whole.setdefault(word, []).append((literal, place))
        elif rank == _OPEN_RIGHT:
            self._begins.setdefault(word[:_SHORTEST], []).append((literal, place))
        elif rank == _OPEN_LEFT:
            self._ends.setdefault(word[-_SHORTEST:], []).append((literal, place))
        elif rank == _OPEN:
            # glued on one side at most: nothing has been seen that was torn on both
            self._begins.setdefault(word[:_SHORTEST], []).append((literal, place))
            self._ends.setdefault(word[-_SHORTEST:], []).append((literal, place))
        else:
            self._always.setdefault(literal.lstrip("0123456789") or literal, []).append((literal, place))

    def candidates(self, text: str) -> set[Place]:
        """The alternatives of which a literal is in the text."""
        found: set[Place] = set()
        for rest, weak in self._always.items():
            if rest in text:
                for literal, place in weak:
                    if literal in text:
                        found.add(place)
        of_word = self._of_word
        # logs repeat their words, and most of them are in no literal
        for word in set(_WORD.findall(text)).difference(self._barren):
            entries = of_word.get(word)
            if entries is None:
                entries = self._look_up(word)
            for literal, place in entries:
                if literal in text:
                    found.add(place)
        return found

    def _look_up(self, word: str) -> tuple[tuple[str, Place], ...]:
        """The literals that a text with this word can hold; they are kept for the lines that follow."""
        places = self._whole.get(word), self._begins.get(word[:_SHORTEST]), self._ends.get(word[-_SHORTEST:])
        entries = tuple(entry for entries in places if entries is not None for entry in entries)
        if len(self._of_word) >= _MOST_WORDS:
            self._of_word.clear()
            self._barren.clear()
        if len(word) <= _LONGEST:
            self._of_word[word] = entries
            if not entries:
                self._barren.add(word)
        return entries


_OPEN, _OPEN_LEFT, _OPEN_RIGHT, _WHOLE = 1, 2, 3, 4


def _keys(literal: str) -> Iterator[tuple[int, str]]:
    """The words of a literal, with how well each is bounded in it."""
    for found in _WORD.finditer(literal):
        left, right = found.start() > 0, found.end() < len(literal)
        if left and right:
            yield _WHOLE, found.group()
        elif left:
            yield _OPEN_RIGHT, found.group()
        elif right:
            yield _OPEN_LEFT, found.group()
        else:
            yield _OPEN, found.group()
