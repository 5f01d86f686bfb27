"""What is kept from run to run: equal to what was worked out, or not used; never in the way."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from hangscope import cache
from hangscope.diagnose import catalogue, shipped
from hangscope.grammar import Grammar, loader
from hangscope.resources import grammars_dir, rules_dir

ORIGINALS = loader.load_grammars()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where things are kept; it does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hangscope"


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


def test_second_run_does_not_compile_and_gets_the_same(folder: Path) -> None:
    assert _load()[1]
    assert len(list(folder.iterdir())) == 1
    grammars, compiled = _load()
    assert not compiled
    assert _content(grammars) == _content(ORIGINALS)


def test_second_run_reads_no_rule_for_the_index_and_gets_the_same(folder: Path) -> None:
    shipped_rules = shipped.shipped_rules.__wrapped__
    first = shipped_rules()
    assert [path.name.partition(".")[0] for path in folder.iterdir()] == ["rules"]
    with mock.patch.object(shipped, "read_head", side_effect=AssertionError):
        assert shipped_rules() == first


def test_second_run_gets_the_same_catalogue(folder: Path) -> None:
    read = catalogue.causes.__wrapped__
    first = read()
    assert [path.name.partition(".")[0] for path in folder.iterdir()] == ["causes"]
    with mock.patch.object(catalogue, "read_causes", side_effect=AssertionError):
        again = read()
    assert again == first == catalogue.read_causes(rules_dir() / "causes.toml")
    assert list(again) == list(first)


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"key": 1}', b'{"key": KEY, "kept": [1]}', b'{"key": KEY}'),
        b"[" * 100_000,
    ],
    ids=lambda damage: damage[:12].decode("latin-1"),
)
def test_what_is_damaged_is_made_anew(damage: bytes, folder: Path) -> None:
    _load()
    path = next(folder.iterdir())
    whole = path.read_bytes()
    key = whole.partition(b'"key": ')[2].partition(b', "kept"')[0]
    for wrong in (damage.replace(b"KEY", key), whole[: len(whole) // 2]):
        path.write_bytes(wrong)
        grammars, compiled = _load()
        assert compiled and _content(grammars) == _content(ORIGINALS)
        assert path.read_bytes() == whole


def test_any_change_of_a_file_makes_another_stamp(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    file = below / "a.toml"
    file.write_text("one")
    (tmp_path / "b.txt").write_text("not looked at")
    seen = [cache.stamps(tmp_path, ".toml")]
    assert [stamp[0] for stamp in seen[0]] == [str(file)]

    file.write_text("other size")
    seen.append(cache.stamps(tmp_path, ".toml"))
    before = file.stat()
    other = below / "new"
    other.write_text("same sizes")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)
    seen.append(cache.stamps(tmp_path, ".toml"))
    file.rename(below / "c.toml")
    seen.append(cache.stamps(tmp_path, ".toml"))
    assert all(one != other for at, one in enumerate(seen) for other in seen[:at])


@pytest.mark.usefixtures("folder")
def test_grammars_are_compiled_anew_when_they_or_their_code_change() -> None:
    real = cache.stamps
    for changed in (grammars_dir(), Path(loader.__file__).parent):
        _load()

        def stamps(place: Path, suffix: str, changed: Path = changed) -> list[cache.Stamp]:
            further: list[cache.Stamp] = [["new", 1, 2, 3, 4]] if place == changed else []
            return real(place, suffix) + further

        with mock.patch("hangscope.grammar.cache.stamps", side_effect=stamps):
            assert _load()[1]


def test_installations_side_by_side_keep_their_own(folder: Path, tmp_path: Path) -> None:
    _load()
    with mock.patch.object(cache, "__file__", str(tmp_path / "cache.py")):
        assert _load()[1]
        assert not _load()[1]
    assert not _load()[1]
    assert len(list(folder.iterdir())) == 2


@pytest.mark.usefixtures("folder")
def test_what_another_user_keeps_is_not_read() -> None:
    _load()
    with mock.patch("os.geteuid", return_value=os.geteuid() + 1):
        assert _load()[1]
    assert not _load()[1]


def test_links_and_pipes_in_the_folder_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    _load()
    kept = next(folder.iterdir())
    content = kept.read_bytes()
    precious = tmp_path / "precious"
    precious.write_text("mine")

    kept.unlink()
    (folder / f"{kept.name}.{os.getpid()}").symlink_to(precious)
    assert _load()[1]
    assert precious.read_text() == "mine"

    os.mkfifo(kept)
    assert _load()[1]
    assert kept.read_bytes() == content

    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    assert _load()[1]
    assert not kept.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_nothing_is_kept_where_nothing_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert _load() == (ORIGINALS, True)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    with mock.patch.object(Path, "home", side_effect=RuntimeError):
        assert _load() == (ORIGINALS, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
