"""Explains a cause or a rule; reads no logs, and loads nothing that does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hangscope.diagnose.pages import explain_text


def explain(name: str, rules: Sequence[str | Path] = ()) -> str:
    """What a cause or a rule means, how it looks in logs, why it happens, how to confirm it, and what to do.

    Args:
        name: id of a cause or of a rule.
        rules: folders of further rules.

    Raises:
        UnknownNameError: when there is no such cause or rule.
        RuleError: when a rule of one of the folders is wrong.
    """
    return explain_text(name, rules)
