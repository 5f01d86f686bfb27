"""Loads all grammars, from the cache when nothing has changed since they were compiled."""

from __future__ import annotations

import functools

from hangscope.grammar import cache
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
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.lark"))}
    key = cache.key(texts)
    kept = cache.recall(key, texts)
    if kept is not None:
        return kept
    # lark takes longer to import and to read the files than the rest of a short run
    from hangscope.grammar.definition import load_grammar

    grammars = tuple(load_grammar(folder / name, folder / _BASE) for name in texts if name != _BASE)
    cache.keep(key, grammars)
    return grammars


@functools.cache
def load_set() -> GrammarSet:
    """All grammars as one matcher."""
    return GrammarSet(load_grammars())
