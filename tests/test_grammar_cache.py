"""The cache of compiled grammars: equal to what was compiled, or not used; never in the way."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from hangscope.grammar import Grammar, cache, loader

ORIGINALS = loader.load_grammars()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache is; nothing is in it yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = cache._path()
    assert path is not None and path.is_relative_to(tmp_path) and not path.exists()
    return path


def _load() -> tuple[tuple[Grammar, ...], bool]:
    """What a new process would load, and whether it had to compile."""
    load_grammars = loader.load_grammars.__wrapped__
    with mock.patch("hangscope.grammar.definition.load_grammar", side_effect=_original) as compiled:
        grammars = load_grammars()
    return grammars, compiled.called


def _original(path: Path, _: Path) -> Grammar:
    return next(grammar for grammar in ORIGINALS if grammar.file == path.name)


def _content(grammars: tuple[Grammar, ...]) -> list[object]:
    return [(g.source, g.about, g.anchors, g.alternatives, g.samples, g.file) for g in grammars]


def test_second_run_does_not_compile_and_gets_the_same(kept: Path) -> None:
    assert _load()[1]
    assert kept.is_file() and [path.name for path in kept.parent.iterdir()] == [kept.name]
    grammars, compiled = _load()
    assert not compiled
    assert _content(grammars) == _content(ORIGINALS)


@pytest.mark.parametrize(
    "damage", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"key": 1}', b'{"key": "KEY", "grammars": [1]}']
)
def test_damaged_cache_is_made_anew(damage: bytes, kept: Path) -> None:
    _load()
    whole = kept.read_bytes()
    key = whole.split(b'"')[3]
    for wrong in (damage.replace(b"KEY", key), whole[: len(whole) // 2]):
        kept.write_bytes(wrong)
        grammars, compiled = _load()
        assert compiled and _content(grammars) == _content(ORIGINALS)
        assert kept.read_bytes() == whole


def test_any_change_of_the_files_or_the_code_asks_for_another_key() -> None:
    texts = {"a.lark": "one", "b.lark": "two"}
    keys = {cache.key(texts), cache.key(texts | {"a.lark": "One"}), cache.key({"a.lark": "onetwo", "b.lark": ""})}
    with mock.patch.object(Path, "read_text", return_value="other code"):
        keys.add(cache.key(texts))
    assert len(keys) == 4


@pytest.mark.usefixtures("kept")
def test_cache_of_another_user_is_not_read() -> None:
    _load()
    with mock.patch("os.geteuid", return_value=os.geteuid() + 1):
        assert _load()[1]
    assert not _load()[1]


def test_nothing_is_kept_where_nothing_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert _load() == (ORIGINALS, True)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    with mock.patch.object(Path, "home", side_effect=RuntimeError):
        assert _load() == (ORIGINALS, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
