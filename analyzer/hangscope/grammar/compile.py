"""Compiles a parsed ``.lark`` file into one regular expression for each alternative of ``start``.

lark takes about 100 microseconds a line; NCCL logs have millions. The message grammars are regular
on purpose, so the same definition can be matched by a regular expression at a fraction of that.
tests/test_grammars.py proves that both ways give equal fields.
"""

from __future__ import annotations

import re
from dataclasses import field

from lark import Token, Tree

from hangscope.errors import GrammarError
from hangscope.grammar.matcher import Alternative, squeeze
from hangscope.records import dataclass

_TYPES = {"INT": "int", "UINT": "int", "HEX": "hex", "FLOAT": "float"}
_NUMBERS = frozenset({"INT", "UINT"})
_WEAK = 2
Node = Tree[Token] | Token


@dataclass(slots=True)
class Piece:
    """A compiled part.

    Attributes:
        pattern: its expression.
        literals: strings of which a matching text must hold one; () when nothing is known.
        is_number: whatever it matches ends in a digit.
    """

    pattern: str
    literals: tuple[str, ...] = ()
    is_number: bool = False

    def strength(self) -> int:
        return min((len(text) for text in self.literals), default=0)


@dataclass(slots=True)
class Definitions:
    """Rules and terminals of one grammar file, by name."""

    file: str
    rules: dict[str, Node] = field(default_factory=dict)
    terminals: dict[str, str] = field(default_factory=dict)

    def field_type(self, rule: str) -> str | None:
        """Type of the field that a rule makes; None when it contains other rules (structure only)."""
        names = list(_names(self.rules[rule]))
        if any(name in self.rules for name in names):
            return None
        kinds = {_TYPES.get(name, "str") for name in names} or {"str"}
        return kinds.pop() if len(kinds) == 1 else "str"


def _names(node: Node) -> list[str]:
    if isinstance(node, Token):
        return []
    if node.data == "name":
        return [str(node.children[0])]
    return [name for child in node.children for name in _names(child)]


def literal_pattern(token: str) -> str:
    """The expression of a quoted string or of a ``/regex/`` token of a ``.lark`` file."""
    if token.startswith("/"):
        body, _, flags = token[1:].rpartition("/")
        body = body.replace("\\/", "/")
        return f"(?{flags}:{body})" if flags else f"(?:{body})"
    ignore_case = token.endswith("i")
    text = _unquote(token)
    pattern = "".join(r"[ \t]+" if part.isspace() else re.escape(part) for part in re.split(r"( +)", text) if part)
    return f"(?i:{pattern})" if ignore_case else pattern


def _unquote(token: str) -> str:
    body = token.removesuffix("i")
    return body[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape") if "\\" in body else body[1:-1]


def compile_start(definitions: Definitions) -> tuple[Alternative, ...]:
    """Compiles every alternative of ``start``.

    Raises:
        GrammarError: when there is no ``start``, an alternative has no alias, or a rule is recursive.
    """
    if "start" not in definitions.rules:
        raise GrammarError(f"{definitions.file}: no rule named start")
    start = definitions.rules["start"]
    nodes = start.children if isinstance(start, Tree) and start.data == "expansions" else [start]
    return tuple(_alternative(node, definitions) for node in nodes)


def _alternative(node: Node, definitions: Definitions) -> Alternative:
    line = _line(node)
    if not (isinstance(node, Tree) and node.data == "alias"):
        raise GrammarError(f"{definitions.file}:{line}: an alternative of start has no '-> event_kind'")
    body, kind = node.children[0], str(node.children[1])
    compiler = _Compiler(definitions, f"{definitions.file}:{line}")
    piece = compiler.piece(body, ())
    return Alternative(kind, piece.pattern, compiler.fields, piece.literals, line)


def _line(node: Node) -> int:
    if isinstance(node, Token):
        return node.line or 0
    return next((found for child in node.children if (found := _line(child))), 0)


class _Compiler:
    """Walks one alternative; collects its fields on the way."""

    def __init__(self, definitions: Definitions, place: str) -> None:
        self._definitions = definitions
        self._place = place
        self._uses: dict[str, int] = {}
        self.fields: dict[str, str] = {}

    def piece(self, node: Node, inside: tuple[str, ...]) -> Piece:
        """Compiles a node; `inside` are the rules being expanded, to find recursion."""
        if isinstance(node, Token):
            raise GrammarError(f"{self._place}: cannot use {node!s} here")
        kind, children = str(node.data), node.children
        if kind == "literal":
            return self._literal(str(children[0]))
        if kind == "name":
            return self._name(str(children[0]), inside)
        if kind == "expansion":
            return _sequence([self.piece(child, inside) for child in children])
        if kind == "expansions":
            return _choice([self.piece(child, inside) for child in children])
        if kind == "maybe":
            return Piece(f"(?:{self.piece(children[0], inside).pattern})?")
        if kind == "expr":
            return self._repeated(node, inside)
        raise GrammarError(f"{self._place}: {kind} is not allowed in a message grammar")

    def _literal(self, token: str) -> Piece:
        pattern = literal_pattern(token)
        if token.startswith("/") or token.endswith("i"):
            return Piece(pattern)
        return Piece(pattern, (squeeze(_unquote(token)),))

    def _name(self, name: str, inside: tuple[str, ...]) -> Piece:
        if name in self._definitions.terminals:
            return Piece(self._definitions.terminals[name], is_number=name in _NUMBERS)
        if name not in self._definitions.rules:
            raise GrammarError(f"{self._place}: {name} is not defined")
        if name in inside:
            raise GrammarError(f"{self._place}: {name} is recursive; message grammars are regular")
        kind = self._definitions.field_type(name)
        body = self.piece(self._definitions.rules[name], (*inside, name))
        if kind is None:
            return Piece(f"(?:{body.pattern})", body.literals, body.is_number)
        self.fields[name] = kind
        self._uses[name] = self._uses.get(name, 0) + 1
        group = name if self._uses[name] == 1 else f"{name}__{self._uses[name]}"
        return Piece(f"(?P<{group}>{body.pattern})", body.literals, body.is_number)

    def _repeated(self, node: Tree[Token], inside: tuple[str, ...]) -> Piece:
        operator = str(node.children[1])
        body = self.piece(node.children[0], inside)
        return Piece(f"(?:{body.pattern}){operator}", body.literals if operator == "+" else ())


def _sequence(pieces: list[Piece]) -> Piece:
    merged = max(pieces, key=Piece.strength, default=Piece(""))
    literals = merged.literals
    at = next((at for at, piece in enumerate(pieces) if piece is merged), 0)
    if 0 < merged.strength() < _WEAK and pieces[at - 1].is_number and at:
        # a slash stands in many lines, a digit with a slash behind it in few
        literals = tuple(f"{digit}{literal}" for literal in literals for digit in "0123456789")
    return Piece("".join(piece.pattern for piece in pieces), literals, bool(pieces) and pieces[-1].is_number)


def _choice(pieces: list[Piece]) -> Piece:
    certain = all(piece.literals for piece in pieces)
    literals = tuple(dict.fromkeys(text for piece in pieces for text in piece.literals)) if certain else ()
    return Piece("(?:" + "|".join(piece.pattern for piece in pieces) + ")", literals)
