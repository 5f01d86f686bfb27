"""Loads the grammar files: their headers (source, anchors, samples) and, through lark, their rules."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from lark import Lark, Tree
from lark.exceptions import LarkError

from hangscope.errors import GrammarError
from hangscope.grammar.compile import Definitions, compile_start, literal_pattern
from hangscope.grammar.matcher import Grammar, GrammarSet, Sample
from hangscope.resources import grammars_dir

_HEADER = re.compile(r"//\s*(?P<key>source|about|anchors)\s*:\s*(?P<value>.*)")
_SAMPLE = re.compile(r"//\s?(?:match (?P<kind>\w+)|(?P<no>no-match)):[ ]?(?P<text>.*)")


@functools.cache
def load_grammars() -> tuple[Grammar, ...]:
    """All grammars of grammars/, by file name; checked and compiled once a process.

    Raises:
        GrammarError: naming the file and line that is wrong.
    """
    folder = grammars_dir()
    base = folder / "base.lark"
    return tuple(load_grammar(path, base) for path in sorted(folder.glob("*.lark")) if path.name != base.name)


@functools.cache
def load_set() -> GrammarSet:
    """All grammars as one matcher."""
    return GrammarSet(load_grammars())


def load_grammar(path: Path, base: Path) -> Grammar:
    """One grammar file, with the terminals of the base file."""
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
        samples=_samples(path.name, text),
        file=path.name,
    )


def _samples(file: str, text: str) -> tuple[Sample, ...]:
    samples = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _SAMPLE.match(line)
        if found is None:
            continue
        body, arrow, expected = found["text"].rpartition(" => ")
        fields = None
        if arrow and expected.startswith("{"):
            try:
                fields = json.loads(expected)
            except ValueError as error:
                raise GrammarError(f"{file}:{number}: the expected fields are not JSON: {error}") from error
        else:
            body = found["text"]
        samples.append(Sample(body, found["kind"], fields, number))
    return tuple(samples)


@functools.cache
def _meta_parser() -> Lark:
    return Lark.open_from_package("lark", "lark.lark", ["grammars"], parser="lalr", maybe_placeholders=False)


def _definitions(name: str, text: str, base: Path) -> Definitions:
    definitions = Definitions(name)
    if base.name != name:
        definitions.terminals.update(_definitions(base.name, base.read_text(encoding="utf-8"), base).terminals)
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
    return definitions


def _checked(file: str, terminal: str, token: str) -> str:
    """The expression of a terminal. Only these are checked: what is put together from them is right if they are."""
    pattern = literal_pattern(token)
    try:
        re.compile(pattern)
    except re.error as error:
        raise GrammarError(f"{file}: terminal {terminal} is a wrong expression: {error}") from error
    return pattern
