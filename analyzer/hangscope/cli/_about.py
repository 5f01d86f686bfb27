"""Tells what modules that are found by being there are for, without running them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def first_line(module: Path) -> str:
    """The first line of a module's docstring."""
    with module.open(encoding="utf-8") as source:
        return source.readline().strip().strip('"') or module.stem


def listed(what: str, package: str, names: Iterable[str]) -> str:
    """``pictures: init (how far the ranks came); ...``.

    Args:
        what: what the modules are.
        package: the file that the package of the modules was loaded from.
        names: theirs.
    """
    folder = Path(package).parent
    about = ((name, first_line(folder / f"{name}.py").rstrip(".")) for name in names)
    # a name with several capitals keeps them
    words = (f"{name} ({text if text[1:2].isupper() else text[:1].lower() + text[1:]})" for name, text in about)
    return f"{what}: {'; '.join(words)}"
