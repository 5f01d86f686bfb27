"""Reads one grammar file: its header (source, anchors) and, through lark, its rules; takes lark's time, see `cache`."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from lark import Lark, Tree
from lark.exceptions import LarkError

from hangscope.errors import GrammarError
from hangscope.expressions import expression
from hangscope.grammar.compile import Definitions, compile_start, literal_pattern
from hangscope.grammar.matcher import Grammar

_HEADER = expression(r"//\s*(?P<key>source|about|anchors)\s*:\s*(?P<value>.*)")


def load_grammar(path: Path, base: Path) -> Grammar:
    """One grammar file, with the terminals of the base file.

    Raises:
        GrammarError: naming the file and line that is wrong.
    """
    text = path.read_text(encoding="utf-8")
    header = {m["key"]: m["value"].strip() for line in text.splitlines() if (m := _HEADER.match(line))}
    for key in ("source", "about", "anchors"):
        if key not in header:
            raise GrammarError(f"{path.name}: the header comment lacks '// {key}:'")
    definitions = _definitions(path.name, text, base)
    anchors = tuple(anchor.strip(" ") for anchor in header["anchors"].split(" | ") if anchor.strip())
    return Grammar(
        header["source"],
        header["about"],
        anchors,
        compile_start(definitions),
        path=path,
    )


@functools.cache
def _meta_parser() -> Lark:
    return Lark.open_from_package("lark", "lark.lark", ["grammars"], parser="lalr", maybe_placeholders=False)


def _definitions(name: str, text: str, base: Path) -> Definitions:
    definitions = Definitions(name, terminals=dict(_shared_terminals(base)))
    _read_into(definitions, text)
    return definitions


@functools.cache
def _shared_terminals(base: Path) -> dict[str, str]:
    definitions = Definitions(base.name)
    _read_into(definitions, base.read_text(encoding="utf-8"))
    return definitions.terminals


def _read_into(definitions: Definitions, text: str) -> None:
    name = definitions.file
    try:
        tree = _meta_parser().parse(text + "\n")
    except LarkError as error:
        raise GrammarError(f"{name}: not a grammar: {error}") from error
    for item in tree.children:
        if not isinstance(item, Tree):
            continue
        if item.data == "token":
            body = item.children[-1]
            if not (isinstance(body, Tree) and body.data == "literal"):
                raise GrammarError(f"{name}: terminal {item.children[0]!s} has to be one string or /expression/")
            definitions.terminals[str(item.children[0])] = _checked(name, str(item.children[0]), str(body.children[0]))
        elif item.data == "rule":
            definitions.rules[str(item.children[0])] = item.children[-1]
        elif item.data not in ("import", "multi_import"):
            raise GrammarError(f"{name}: %{item.data} is not allowed in a message grammar")


def _checked(file: str, terminal: str, token: str) -> str:
    """The expression of a terminal. Only these are checked: what is put together from them is right if they are."""
    pattern = literal_pattern(token)
    try:
        re.compile(pattern)
    except re.error as error:
        raise GrammarError(f"{file}: terminal {terminal} is a wrong expression: {error}") from error
    return pattern
