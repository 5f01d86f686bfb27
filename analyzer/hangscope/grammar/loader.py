"""Loads all grammars, from the cache when nothing has changed since they were compiled."""

from __future__ import annotations

import functools
from pathlib import Path

from hangscope.grammar.cache import kept_grammars
from hangscope.grammar.matcher import Grammar, GrammarSet
from hangscope.resources import grammars_dir

_BASE = "base.lark"


@functools.cache
def load_grammars() -> tuple[Grammar, ...]:
    """All grammars of grammars/, by file name; checked and compiled once a process at most.

    Raises:
        GrammarError: naming the file and line that is wrong.
    """
    folder = grammars_dir()
    return kept_grammars(folder, lambda: _compiled(folder))


def _compiled(folder: Path) -> tuple[Grammar, ...]:
    # lark takes longer to import and to read the files than the rest of a short run
    from hangscope.grammar.definition import load_grammar

    return tuple(load_grammar(path, folder / _BASE) for path in sorted(folder.glob("*.lark")) if path.name != _BASE)


@functools.cache
def load_set() -> GrammarSet:
    """All grammars as one matcher."""
    return GrammarSet(load_grammars())
