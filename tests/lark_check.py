"""Parses a message with lark itself: the other way to read a grammar, to hold the compiled expressions against.

hangscope compiles an alternative of ``start`` into a regular expression. Here lark's Earley parser is built from the
same rules and finds every reading of a text that the alternative allows. What an expression adds to a grammar, lark
cannot say, so these differences are taken out first:

- Terminals that look at their surroundings and take no text (BOL, EOL, lookarounds only) are left out, because only
  the matched text is parsed; terminals that may be empty become optional.
- A lazy repetition becomes a greedy one, which stands for the same set of texts.
- A blank of a literal becomes a run of blanks and tabs.
- What is optional becomes a rule that may be empty: lark would write out every combination.

Where a text has several readings, a regular expression takes the first by its own order (terminals from the left, each
as long, or as short if lazy, as it can be; what is optional rather there). Lark has no such order. So the expression's
reading has to be one of lark's, and the only one when there is only one.
"""

from __future__ import annotations

import functools
import re
from unittest import mock

from lark import Lark
from lark.exceptions import LarkError
from lark.grammar import NonTerminal
from lark.parsers.earley_forest import ForestNode, PackedNode, SymbolNode

from hangscope.grammar import Alternative, Grammar, load_grammars
from hangscope.grammar.matcher import CONVERTERS
from hangscope.model import Value
from hangscope.resources import grammars_dir

Fields = dict[str, Value]
Reading = tuple[tuple[str, str], ...]
"""The fields of one reading in order of the text, each with the text it took."""

_TOKEN = re.compile(r'(?:"(?:\\.|[^"\\])*"i?|/(?:\\.|[^/\\])+/[imslux]*|\w+)\??|->.*|\)\??|.', re.DOTALL)
_TERMINAL = re.compile(r"^(?P<name>[A-Z_][A-Z0-9_]*): */(?P<body>.*)/ *$", re.MULTILINE)
_LAZY = re.compile(r"(?<!\\)([*+?}])\?")
_LOOKS = re.compile(r"\(\?<?[=!](?:[^()\\]|\\.|\[[^\]]*\]|\([^()]*\))*\)|[\^$]")


def _with_blank_runs(literal: str) -> str:
    """A quoted string as an expression in which a blank stands for one or more."""
    body, flag = (literal[1:-2], "i") if literal.endswith("i") else (literal[1:-1], "")
    body = body.replace('\\"', '"')
    pieces = [re.escape(piece).replace("/", "\\/") for piece in re.split(" +", body)]
    return "/" + r"[ \t]+".join(pieces) + "/" + flag if " " in body else literal


def _is_nullable(body: str) -> bool:
    return re.fullmatch(_LOOKS.sub("", body), "") is not None


@functools.cache
def _base_terminals() -> dict[str, str]:
    return _terminals((grammars_dir() / "base.lark").read_text(encoding="utf-8"))


def _terminals(text: str) -> dict[str, str]:
    return {found["name"]: found["body"] for found in _TERMINAL.finditer(text)}


class LarkGrammar:
    """The parsers of one ``.lark`` file, one an alternative, made when needed."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        text = (grammars_dir() / grammar.file).read_text(encoding="utf-8")
        self._lines = text.splitlines()
        self._terminals = _base_terminals() | _terminals(text)
        self._parsers: dict[int, Lark] = {}

    def readings(self, alternative: Alternative, text: str) -> list[Fields]:
        """The fields of every reading of a whole text; empty when lark cannot read it."""
        try:
            forest = self.parser(alternative).parse(text)
        except LarkError:
            return []
        found: list[Fields] = []
        for reading in _Reader(text, frozenset(alternative.fields)).readings(forest):
            fields: Fields = {}
            for name, value in reading:
                fields.setdefault(name, CONVERTERS[alternative.fields[name]](value))
            if fields not in found:
                found.append(fields)
        return found

    def parser(self, alternative: Alternative) -> Lark:
        """Lark's parser of the grammar file with this alternative as start."""
        if alternative.line not in self._parsers:
            self._parsers[alternative.line] = self._build(alternative)
        return self._parsers[alternative.line]

    def _build(self, alternative: Alternative) -> Lark:
        first = re.sub(r"^\s*(?:start:|\|)", "", self._lines[alternative.line - 1])
        writer = _Rewriter(self._terminals)
        writer.add("start", first)
        for line in self._lines:
            name, colon, body = line.partition(":")
            if colon and name != "start" and re.fullmatch(r"_?[a-z][a-z0-9_]*", name):
                writer.add(name, body)
        for name, body in self._terminals.items():
            if _LOOKS.sub("", body):
                greedy = _LAZY.sub(r"\1", body)
                writer.rules.append(f"{name}: /{greedy}/")
        # lark refuses terminals that may be empty, even where the rules say that there may be none
        with mock.patch("lark.parser_frontends.get_regexp_width", return_value=(1, 1)):
            return Lark("\n".join(writer.rules), parser="earley", lexer="dynamic_complete", ambiguity="forest")


class _Rewriter:
    """Writes rules without what lark cannot say."""

    def __init__(self, terminals: dict[str, str]) -> None:
        self._terminals = terminals
        self.rules: list[str] = []

    def add(self, name: str, body: str) -> None:
        groups: list[list[str]] = [[]]
        for found in _TOKEN.finditer(body):
            word = found[0]
            if word in ("[", "("):
                groups.append([])
            elif word in ("]", ")?"):
                groups[-2].append(self._optional("".join(groups.pop())))
            elif word == ")":
                groups[-2].append("(" + "".join(groups.pop()) + ")")
            elif not word.startswith("->"):
                groups[-1].append(self._symbol(word) if len(word) > 1 else word)
        self.rules.append(f"{name}: {''.join(groups[0])}")

    def _optional(self, body: str) -> str:
        name = f"optional_{len(self.rules)}"
        self.rules.append(f"{name}: {body} |")
        return name

    def _symbol(self, token: str) -> str:
        symbol = token.removesuffix("?")
        expression = symbol.strip("/") if symbol.startswith("/") else self._terminals.get(symbol)
        if symbol.startswith('"'):
            symbol = _with_blank_runs(symbol)
        elif symbol.startswith("/"):
            symbol = _LAZY.sub(r"\1", symbol)
        if expression is not None and not _LOOKS.sub("", expression):
            return ""
        is_optional = token.endswith("?") or (expression is not None and _is_nullable(expression))
        return self._optional(symbol) if is_optional else symbol


class _Reader:
    """Collects the readings of a parse forest; what two readings take alike is looked at once."""

    def __init__(self, text: str, fields: frozenset[str]) -> None:
        self._text = text
        self._fields = fields
        self._known: dict[ForestNode, frozenset[Reading]] = {}

    def readings(self, node: object) -> frozenset[Reading]:
        if isinstance(node, PackedNode):
            parts = [self.readings(child) for child in (node.left, node.right) if child is not None]
            found: set[Reading] = {()}
            for part in parts:
                found = {one + other for one in found for other in part}
            return frozenset(found)
        if not isinstance(node, SymbolNode):
            return frozenset({()})
        if isinstance(node.s, NonTerminal) and node.s.name in self._fields:
            return frozenset({((node.s.name, self._text[node.start : node.end]),)})
        if node not in self._known:
            self._known[node] = frozenset().union(*(self.readings(child) for child in node.children))
        return self._known[node]


@functools.cache
def lark_grammars() -> dict[str, LarkGrammar]:
    """By file name."""
    return {grammar.file: LarkGrammar(grammar) for grammar in load_grammars()}
