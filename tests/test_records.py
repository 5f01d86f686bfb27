"""Dataclasses that load quickly are dataclasses: whatever can be done with one gives the same."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hangscope
from hangscope.records import dataclass

OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
    {"frozen": True, "slots": True, "order": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "unsafe_hash": True},
]
SOURCES = sorted(Path(hangscope.__file__).parent.rglob("*.py"))


def _class() -> type:
    class Call:
        """A call."""

        op: str
        seq: int = 0
        ranks: tuple[int, ...] = ()
        line: str = dataclasses.field(default="", compare=False)
        secret: str = dataclasses.field(default="s", repr=False)

        @property
        def next(self) -> int:
            return self.seq + 1

    return Call


def _outcome(action: Callable[[], object]) -> object:
    try:
        return action()
    except (AttributeError, TypeError) as error:
        return type(error)


def _seen(kind: Any) -> list[object]:  # noqa: ANN401 - a class made here
    a, same, other = kind(op="send", line="x"), kind(op="send", line="y"), kind(op="recv", seq=3, ranks=(1,))
    return [
        repr(a) if kind.__repr__ is not object.__repr__ else "object",
        [a == same, a != same, a == other, a == "send", a == a],  # noqa: PLR0124 - that, too
        _outcome(lambda: hash(a) == hash(same)),
        _outcome(lambda: len({a, same, other})),
        _outcome(lambda: min([a, other]).op),
        _outcome(lambda: setattr(copy.copy(a), "op", "other")),
        _outcome(lambda: delattr(copy.copy(a), "op")),
        dataclasses.replace(a, seq=7).next,
        dataclasses.asdict(other),
        dataclasses.astuple(other),
        [field.name for field in dataclasses.fields(kind)],
        kind.__match_args__,
        str(inspect.signature(kind)),
        getattr(kind, "__slots__", None),
        kind.__doc__,
        kind.__name__,
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(options) or "plain")
def test_it_gives_what_dataclasses_gives(options: dict[str, Any]) -> None:
    ours: type = dataclass(**options)(_class())
    theirs: type = dataclasses.dataclass(**options)(_class())
    assert _seen(ours) == _seen(theirs)


def test_methods_of_its_own_stay() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd:
        rank: int

        def __repr__(self) -> str:
            return "odd"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, int)

        def __hash__(self) -> int:
            return 7

    @dataclass(frozen=True, slots=True)
    class Loose:  # noqa: PLW1641 - it gets one
        rank: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose)

    assert hash(Loose(1)) == hash(Loose(1)) != hash(Loose(2))
    assert (repr(Odd(1)), Odd(1) == 3, Odd(1) == Odd(1), hash(Odd(1))) == ("odd", True, False, 7)


@dataclass(frozen=True, slots=True)
class Base:
    rank: int


@dataclass(frozen=True, slots=True)
class Derived(Base):
    host: str = "node01"


@dataclass(frozen=True, slots=True)
class Empty:
    pass


def test_a_derived_class_compares_its_own_fields_too() -> None:
    assert Derived(1) != Derived(1, "node02")
    assert Derived(1) != Base(1)
    assert repr(Derived(1)) == "Derived(rank=1, host='node01')"


def test_a_class_without_fields_is_equal_to_itself() -> None:
    assert Empty() == Empty() and len({Empty(), Empty()}) == 1 and repr(Empty()) == "Empty()"


def test_they_travel() -> None:
    assert pickle.loads(pickle.dumps(Derived(3))) == Derived(3)  # noqa: S301 - made here


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_every_module_takes_them(path: Path) -> None:
    if path.name == "records.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses":
            assert "dataclass" not in {name.name for name in node.names}, f"{path}: import it from hangscope.records"
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) != "dataclasses.dataclass", f"{path}: import it from hangscope.records"
