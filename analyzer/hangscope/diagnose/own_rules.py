"""Loads the rules together with those of a site, which nobody has tested yet: every one of them is checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hangscope.diagnose.check import check_rule
from hangscope.diagnose.kinds import known_kinds
from hangscope.diagnose.loader import load_rules, rule_files
from hangscope.diagnose.rule import Rule
from hangscope.diagnose.where import find_line
from hangscope.errors import RuleError
from hangscope.resources import rules_dir


def load_checked_rules(folders: Iterable[str | Path]) -> tuple[Rule, ...]:
    """The shipped rules and those in the folders of ``--rules``.

    Raises:
        RuleError: one of them is wrong in its form, or names a fact or a field that nothing produces; with the file,
            the line and the key.
    """
    dirs = tuple(folders)
    rules = load_rules(dirs)
    kinds = known_kinds()
    shipped = rules_dir()
    for path, rule in zip(rule_files(dirs), rules, strict=True):
        if shipped in path.parents:
            continue
        try:
            check_rule(rule, kinds)
        except RuleError as error:
            raise error.on_line(find_line(path.read_text(encoding="utf-8"), error.key)) from error
    return rules
