"""Writes what the rules say for people: the pages of ``hangscope explain``, and rules/README.md.

``python -m hangscope.diagnose.reference`` writes rules/README.md; with ``--check`` it only says whether it is fresh.
"""

from __future__ import annotations

import difflib
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from hangscope.diagnose.catalogue import Cause, causes, families
from hangscope.diagnose.defects import FOLDER
from hangscope.diagnose.loader import family_of, load_rules, rule_files
from hangscope.diagnose.rule import Rule
from hangscope.diagnose.template import outline
from hangscope.errors import UnknownNameError
from hangscope.resources import rules_dir

_WIDTH = 100
_MOST_CASE_LINES = 6
_NONE_KNOWN = "None known."


def explain_text(name: str, extra_dirs: Iterable[str | Path] = ()) -> str:
    """The page of a cause or of a rule.

    Raises:
        UnknownNameError: there is neither a cause nor a rule of that name; it names similar ones.
    """
    folders = tuple(extra_dirs)
    name = name.strip()
    if name in causes():
        cause = causes()[name]
        rules = [rule for rule in load_rules(folders, cause.family) if rule.cause == name]
        return _cause_page(cause, rules)
    # A rule's file has its name, so that one page costs one folder and not all of them.
    for path in rule_files(folders):
        if path.stem == name:
            return _rule_page(next(rule for rule in load_rules(folders, family_of(path)) if rule.id == name))
    for rule in load_rules(folders):
        if name in rule.aliases:
            return _rule_page(rule)
    known = sorted({*causes(), *(path.stem for path in rule_files(folders))})
    raise _unknown(name, known)


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
    lines = [f"### {cause.id} ({cause.role})", "", cause.means, ""]
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


def _cause_page(cause: Cause, rules: Sequence[Rule]) -> str:
    blocks = [f"{cause.id}  ({cause.role}; family {cause.family})", _wrap(cause.means)]
    if not rules:
        blocks.append("No rule names this cause yet.")
    else:
        listing = [f"  {rule.id}: {outline(rule.title)}" for rule in rules]
        blocks.append("\n".join(["Rules that name it:", *listing]))
        blocks += _shared_blocks(rules)
        blocks.append(f"More about one rule: hangscope explain {rules[0].id}")
    return "\n\n".join(blocks) + "\n"


def _rule_page(rule: Rule) -> str:
    cause = causes()[rule.cause]
    head = f"{rule.id}  (rule; {rule.status} since {rule.since}; {rule.file})"
    blocks = [
        head,
        outline(rule.title),
        _wrap(outline(rule.explanation)),
        _wrap(f"Names the cause {cause.id}: {cause.means}"),
    ]
    blocks += _shared_blocks([rule])
    if rule.explains:
        blocks.append(_wrap(f"Accounts for: {', '.join(rule.explains)}."))
    if rule.aliases:
        blocks.append(f"Earlier names: {', '.join(rule.aliases)}")
    return "\n\n".join(blocks) + "\n"


def _shared_blocks(rules: Sequence[Rule]) -> list[str]:
    """What the page of a cause and the page of a rule have in common."""
    samples = list(dict.fromkeys(sample for rule in rules for sample in [_sample(rule)] if sample))
    remedies: dict[str, None] = {}
    for rule in rules:
        for remedy in rule.remedies:
            where = f" ({remedy.versions})" if remedy.versions else ""
            command = f"\n      {remedy.command}" if remedy.command else ""
            remedies[_item(outline(remedy.text) + where) + command] = None
    blocks = []
    if samples:
        blocks.append("\n".join(["In the logs:", *samples]))
    if remedies:
        blocks.append("\n".join(["What to do:", *remedies]))
    wrong = [text for rule in rules for text in rule.false_positives]
    blocks.append(_list("It can be wrong when:", [text for text in wrong if text != _NONE_KNOWN] or [_NONE_KNOWN]))
    blocks.append(_list("References:", [text for rule in rules for text in rule.references]))
    return blocks


def _sample(rule: Rule) -> str:
    case = next(case for case in rule.cases if case.fires)
    if case.fixture:
        return f"  (see fixtures/{case.fixture})"
    lines = [line.rstrip() for line in case.lines.strip().splitlines() if line.strip()]
    shown = [f"  {line}" for line in lines[:_MOST_CASE_LINES]]
    return "\n".join([*shown, "  ..."] if len(lines) > _MOST_CASE_LINES else shown)


def _list(title: str, texts: Sequence[str]) -> str:
    return "\n".join([title, *(_item(text) for text in dict.fromkeys(texts))])


def _item(text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _wrap(text: str) -> str:
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
        for paragraph in paragraphs
    )


def _unknown(name: str, known: Sequence[str]) -> UnknownNameError:
    close = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=3, cutoff=0.5)
    close += [other for other in known if name.lower() in other and other not in close][: 5 - len(close)]
    advice = f"Did you mean {', '.join(close)}?" if close else "`hangscope rules` lists rules and their causes."
    return UnknownNameError(f"there is no cause or rule named {name!r}", advice)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
