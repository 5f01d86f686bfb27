"""Loads the rules together with those of a site, which nobody has tested yet: every one of them is checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hangscope.diagnose.check import check_rule
from hangscope.diagnose.kinds import known_kinds
from hangscope.diagnose.loader import load_rule, load_rules, rule_files
from hangscope.diagnose.rule import Rule
from hangscope.diagnose.where import find_line
from hangscope.errors import RuleError
from hangscope.resources import rules_dir


def check_own_rules(folders: Iterable[str | Path]) -> None:
    """Checks the rules of a site, each by itself; before work that a wrong one would make vain.

    Raises:
        RuleError: as `load_checked_rules`; also when a folder holds no rule.
    """
    for folder in map(Path, folders):
        paths = _own_files((folder,))
        if not paths:
            raise RuleError(f"{folder}: holds no rule", "--rules takes a folder that holds <family>/<rule-id>.toml.")
        for path in paths:
            _check(path, load_rule(path))


def load_checked_rules(folders: Iterable[str | Path]) -> tuple[Rule, ...]:
    """The shipped rules and those in the folders of ``--rules``.

    Raises:
        RuleError: one of them is wrong in its form, or names a fact or a field that nothing produces; with the file,
            the line and the key.
    """
    dirs = tuple(folders)
    rules = load_rules(dirs)
    own = set(_own_files(dirs))
    for path, rule in zip(rule_files(dirs), rules, strict=True):
        if path in own:
            _check(path, rule)
    return rules


def _own_files(folders: Iterable[Path | str]) -> list[Path]:
    """Files that do not ship with hangscope: those that do are tested."""
    shipped = rules_dir()
    return [path for path in rule_files(folders) if shipped not in path.parents]


def _check(path: Path, rule: Rule) -> None:
    try:
        check_rule(rule, known_kinds())
    except RuleError as error:
        raise error.on_line(find_line(path.read_text(encoding="utf-8"), error.key)) from error
