"""Finds the data that ships with hangscope: grammars, rules and the catalogue of causes.

An installed package carries them in ``hangscope/_data``; in a checkout they lie two levels up.
"""

from __future__ import annotations

from pathlib import Path

from hangscope.errors import HangscopeError

_PACKAGE = Path(__file__).resolve().parent


def _data(name: str) -> Path:
    candidates = (_PACKAGE / "_data" / name, _PACKAGE.parent.parent / name)
    for path in candidates:
        if path.is_dir():
            return path
    raise HangscopeError(
        f"hangscope's own {name} are missing (looked in {candidates[0]} and {candidates[1]})",
        "Reinstall hangscope.",
    )


def grammars_dir() -> Path:
    """Folder of the ``.lark`` files."""
    return _data("grammars")


def rules_dir() -> Path:
    """Folder of the rules, one sub-folder a family, with ``causes.yaml``'s successor ``causes.toml`` at its top."""
    return _data("rules")
