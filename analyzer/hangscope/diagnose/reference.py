"""Writes rules/README.md: every cause and rule on one page.

``python -m hangscope.diagnose.reference`` writes rules/README.md; with ``--check`` it only says whether it is fresh.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from hangscope.diagnose.catalogue import Cause, causes, families
from hangscope.diagnose.defects import FOLDER
from hangscope.diagnose.loader import load_rules
from hangscope.diagnose.outline import outline
from hangscope.diagnose.rule import Rule
from hangscope.resources import rules_dir


def render_reference(rules: Iterable[Rule] | None = None) -> str:
    """The text of rules/README.md."""
    every = load_rules() if rules is None else tuple(rules)
    parts = [_README_HEAD]
    for family in families():
        parts.append(f"## {family}\n")
        members = [cause for cause in causes().values() if cause.family == family]
        parts += [_cause_section(cause, [rule for rule in every if rule.cause == cause.id]) for cause in members]
    return "\n".join(parts).rstrip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes or checks rules/README.md."""
    path = rules_dir() / "README.md"
    text = render_reference()
    if "--check" not in arguments:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write("rules/README.md is stale; run: python -m hangscope.diagnose.reference\n")
    return 1


_README_HEAD = """\
# Rules

One file is one rule: `<family>/<rule-id>.toml`. It is found by being there; CONTRIBUTING.md tells how to write one.
`hangscope explain ID` prints the full page of a cause or of a rule.

This page is made by `python -m hangscope.diagnose.reference`; a test fails when it is stale.
"""


def _cause_section(cause: Cause, rules: Sequence[Rule]) -> str:
    lines = [f"### {cause.id} ({cause.role})", "", f"{cause.means} {cause.why}", ""]
    if rules:
        lines += ["| rule | what it says | role | weight | explains |", "|---|---|---|---|---|"]
        lines += [
            f"| [{rule.id}]({_link(rule)}) | {_cell(outline(rule.title))} | {rule.role} | {rule.weight} "
            f"| {', '.join(rule.explains)} |"
            for rule in rules
        ]
        lines.append("")
    return "\n".join(lines)


def _link(rule: Rule) -> str:
    folder = f"{rule.family}/{FOLDER}" if rule.affected else rule.family
    return f"{folder}/{rule.id}.toml"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
