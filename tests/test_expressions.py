"""Constant expressions wait for their first use; then they are what `re.compile` gives."""

import ast
import copy
import gc
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hangscope
from hangscope.expressions import expression

SOURCES = sorted(Path(hangscope.__file__).parent.rglob("*.py"))


def test_an_expression_is_compiled_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    real = re.compile

    def watched(pattern: str, flags: int) -> re.Pattern[str]:
        compiled.append(pattern)
        return real(pattern, flags)

    monkeypatch.setattr(re, "compile", watched)

    digits = expression(r"(?P<number>\d+)", re.ASCII)
    copy.copy(digits)
    assert compiled == []
    found = digits.search("rank 12 of 16")
    assert found is not None
    assert found["number"] == "12"
    assert digits.search("rank 3") is not None
    assert compiled == [r"(?P<number>\d+)"]
    assert digits.sub("N", "rank 12") == "rank N"
    assert dict(digits.groupindex) == {"number": 1}


def test_bytes_are_as_good_as_text() -> None:
    assert expression(rb"\d+").findall(b"1 and 22") == [b"1", b"22"]


def test_nothing_else_than_a_pattern_has_is_there() -> None:
    with pytest.raises(AttributeError):
        _ = expression("a").reach  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_no_module_compiles_while_it_loads(path: Path) -> None:
    calls = [
        node.lineno
        for node in _run_at_import(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"
    ]
    assert not calls, f"{path}: use expression() for constants, in line {calls}"


def test_every_constant_expression_is_right() -> None:
    for module in pkgutil.walk_packages(hangscope.__path__, "hangscope."):
        importlib.import_module(module.name)
    kind = type(expression(""))
    found = [one for one in gc.get_objects() if isinstance(one, kind)]
    assert len(found) > 300
    for one in found:
        assert one.groups >= 0  # what a compiled one knows; a wrong one raises


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _run_at_import(child)
