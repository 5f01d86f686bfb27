"""Matches names against globs as in file names, without a regular expression for the forms that nearly all have."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from hangscope.records import dataclass

_SPECIAL = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Globs:
    """Globs of which one has to fit: ``wait``, ``all_gather*``, ``*_object``, and what else ``*``, ``?``, ``[`` allow.

    Attributes:
        names: those that are plain names.
        beginnings, endings: the text of those that have one star, at their end or beginning.
        others: the rest.
    """

    names: frozenset[str]
    beginnings: tuple[str, ...]
    endings: tuple[str, ...]
    others: tuple[str, ...]

    def fit(self, name: str) -> bool:
        return (
            name in self.names
            or name.startswith(self.beginnings)
            or name.endswith(self.endings)
            or any(fnmatchcase(name, glob) for glob in self.others)
        )


def read_globs(globs: Iterable[str]) -> Globs:
    """Sorts globs by their form."""
    names, beginnings, endings, others = [], [], [], []
    for glob in globs:
        if _SPECIAL.isdisjoint(glob):
            names.append(glob)
        elif _SPECIAL.isdisjoint(glob[:-1]) and glob.endswith("*"):
            beginnings.append(glob[:-1])
        elif _SPECIAL.isdisjoint(glob[1:]) and glob.startswith("*"):
            endings.append(glob[1:])
        else:
            others.append(glob)
    return Globs(frozenset(names), tuple(beginnings), tuple(endings), tuple(others))
