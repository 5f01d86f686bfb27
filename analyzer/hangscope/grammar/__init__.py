"""Turns the ``.lark`` files of grammars/ into matchers; the only importer of lark."""

from hangscope.grammar.layouts import Layout
from hangscope.grammar.loader import load_grammars, load_set
from hangscope.grammar.matcher import Alternative, Grammar, GrammarSet, Match
from hangscope.grammar.samples import Sample

__all__ = ["Alternative", "Grammar", "GrammarSet", "Layout", "Match", "Sample", "load_grammars", "load_set"]
