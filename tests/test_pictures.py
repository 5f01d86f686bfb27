"""README's pictures show what hangscope says today."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pictures

if TYPE_CHECKING:
    import pytest


def test_the_pictures_are_fresh() -> None:
    assert pictures.stale() == []


def test_every_picture_is_in_the_readme(checkout: Path) -> None:
    readme = (checkout / "README.md").read_text(encoding="utf-8")
    for picture in pictures.PICTURES:
        assert f"]({(pictures.FOLDER / picture.file).relative_to(checkout)})" in readme


def test_a_picture_of_something_else_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tuple(
        picture._replace(source=lambda: "another page") if picture.file == "terminal.svg" else picture
        for picture in pictures.PICTURES[:1]
    )
    monkeypatch.setattr(pictures, "PICTURES", changed)
    assert pictures.stale() == ["terminal.svg"]


def test_pictures_load_nothing_from_elsewhere() -> None:
    for file in sorted(pictures.FOLDER.glob("*.svg")):
        text = file.read_text(encoding="utf-8")
        assert "url(http" not in text
        assert "<image" not in text
        assert "<script" not in text
