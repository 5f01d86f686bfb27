"""Writes the pages of ``hangscope explain``: what a cause or a rule means, how it looks, why, and what to do."""

from __future__ import annotations

import difflib
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, Cause, causes
from hangscope.diagnose.loader import load_rule, load_rules, rule_files
from hangscope.diagnose.outline import outline
from hangscope.diagnose.rule import Rule, RuleRemedy
from hangscope.diagnose.settings import costs_of, leaves_fast_path
from hangscope.diagnose.shipped import load_rules_naming, shipped_rules
from hangscope.errors import UnknownNameError

Link = tuple[str, tuple[str, ...]]
"""The cause that a rule names, and those that it accounts for."""

WIDTH = 100
"""Columns of a page, when nothing else is asked for."""

_NARROWEST, _WIDEST = 60, 110
_MOST_CASE_LINES = 6
_MOST_ROWS = 3
_NONE_KNOWN = "None known."
_HOW_TO_FIX = "How to fix it"
_NEW_FILE = "### FILE "
# Of a cause with many rules, its page shows this much; the page of each rule shows the rest.
_SAMPLES, _REMEDIES, _DOUBTS, _REFERENCES, _RELATIONS = 3, 12, 8, 8, 10


def explain_text(name: str, extra_dirs: Iterable[str | Path] = (), *, width: int = WIDTH) -> str:
    """The page of a cause or of a rule.

    Args:
        name: id of a cause, id of a rule, or an earlier id of a rule.
        extra_dirs: folders of further rules.
        width: columns of the terminal; commands are never broken, whatever it is.

    Raises:
        RuleError: a rule of one of the folders is wrong.
        UnknownNameError: there is neither a cause nor a rule of that name; it names similar ones.
    """
    folders = tuple(extra_dirs)
    name = name.strip()
    page = _Page(max(_NARROWEST, min(width, _WIDEST)))
    rules = _checked(folders) if folders else ()
    if name in causes():
        if folders:
            links = [(rule.cause, rule.explains) for rule in rules]
            return page.of_cause(causes()[name], [rule for rule in rules if rule.cause == name], links)
        links = [(entry.heading.cause, entry.explains) for entry in shipped_rules()]
        return page.of_cause(causes()[name], load_rules_naming(name), links)
    # A rule's file has its name, so that one page costs one file and not all of them.
    for path in rule_files(folders):
        if path.stem == name:
            return page.of_rule(next((rule for rule in rules if rule.id == name), None) or load_rule(path))
    for rule in load_rules(folders):
        if name in rule.aliases:
            return page.of_rule(rule)
    raise _unknown(name, sorted({*causes(), *(path.stem for path in rule_files(folders))}))


def _checked(folders: Sequence[str | Path]) -> tuple[Rule, ...]:
    """A page out of rules that can never be used would mislead who wrote them."""
    from hangscope.diagnose.own_rules import load_checked_rules  # noqa: PLC0415 - it loads the grammars

    return load_checked_rules(folders)


class _Page:
    """Writes pages of one width."""

    def __init__(self, width: int) -> None:
        self._width = width

    def of_cause(self, cause: Cause, rules: Sequence[Rule], links: Sequence[Link]) -> str:
        """The page of a cause, out of the catalogue and of its rules."""
        # what is surest and deepest first: it looks most like the cause
        ranked = sorted(rules, key=lambda rule: (-rule.weight, -rule.confidence, rule.id))
        blocks = [
            f"{cause.id}  ({cause.role}; family {cause.family})",
            self._prose(cause.means),
            self._part("How it looks", cause.looks),
            *self._samples(ranked, _SAMPLES),
            self._part("Why it happens", cause.why),
            self._list("How to confirm", list(cause.confirm)),
            *self._remedies(ranked, _REMEDIES, "What to collect" if cause.id == INSUFFICIENT_EVIDENCE else _HOW_TO_FIX),
            *self._doubts(ranked, _DOUBTS),
            *self._relations(cause, rules, links),
        ]
        if rules:
            # a list of many would hide the rest
            listing = [f"{rule.id}: {outline(rule.title)}" for rule in rules]
            blocks.append(self._list(f"Rules that name it ({len(rules)})", listing))
            blocks += self._references(ranked, _REFERENCES)
            blocks.append(self._prose(f"More about one rule: hangscope explain {ranked[0].id}"))
        else:
            blocks.append("No rule names this cause yet.")
        return "\n\n".join(blocks) + "\n"

    def of_rule(self, rule: Rule) -> str:
        """The page of one rule, in full."""
        cause = causes()[rule.cause]
        blocks = [
            self._prose(f"{rule.id}  (rule; {rule.status} since {rule.since}; {rule.file})"),
            self._prose(outline(rule.title)),
            self._prose(outline(rule.explanation)),
            self._prose(f"Names the cause {cause.id}: {cause.means}"),
            *self._samples([rule], 1),
            *self._remedies([rule], len(rule.remedies)),
            *self._doubts([rule], len(rule.false_positives)),
        ]
        if rule.affected is not None:
            fixed = f"; fixed in {rule.affected.fixed_in}" if rule.affected.fixed_in else ""
            blocks.insert(3, self._prose(f"Versions: {rule.affected.words()}{fixed}."))
        if rule.explains:
            blocks.append(self._prose(f"Accounts for: {', '.join(rule.explains)}."))
        if rule.aliases:
            blocks.append(self._prose(f"Earlier names: {', '.join(rule.aliases)}"))
        blocks += self._references([rule], len(rule.references))
        blocks.append(self._prose(f"More about the cause: hangscope explain {cause.id}"))
        return "\n\n".join(blocks) + "\n"

    def _samples(self, rules: Sequence[Rule], most: int) -> list[str]:
        found = list(dict.fromkeys(sample for rule in rules if (sample := self._sample(rule))))
        shown = "\n  --\n".join(found[:most])
        return ["In the logs, for example:\n" + shown] if found else []

    def _sample(self, rule: Rule) -> str:
        case = next(case for case in rule.cases if case.fires)
        if case.fixture:
            return f"  (see fixtures/{case.fixture})"
        lines = [line.rstrip() for line in case.lines.strip().splitlines() if line.strip()]
        shown = [self._quoted(line) for line in lines[:_MOST_CASE_LINES]]
        return "\n".join([*shown, "  ..."] if len(lines) > _MOST_CASE_LINES else shown)

    def _quoted(self, line: str) -> str:
        """A line of a log, over a few rows at most."""
        if line.startswith(_NEW_FILE):
            return f"  {line.removeprefix(_NEW_FILE)}:"
        if len(line) + 2 <= self._width:
            return f"  {line}"
        return textwrap.fill(
            line,
            self._width,
            initial_indent="  ",
            subsequent_indent="      ",
            break_on_hyphens=False,
            max_lines=_MOST_ROWS,
            placeholder=" ...",
        )

    def _remedies(self, rules: Sequence[Rule], most: int, title: str = _HOW_TO_FIX) -> list[str]:
        found: dict[str, RuleRemedy] = {}
        for rule in rules:
            for remedy in rule.remedies:
                found.setdefault(remedy.command or remedy.text, remedy)
        # as in reports: a fast path is given up last
        texts = [self._remedy(one) for one in sorted(found.values(), key=lambda one: leaves_fast_path(one.command))]
        return [self._some(f"{title}:", texts, most)] if texts else []

    def _remedy(self, remedy: RuleRemedy) -> str:
        costs = costs_of(remedy.command or "")
        where = f" ({remedy.versions})" if remedy.versions else ""
        text = self._item(" ".join(part for part in (outline(remedy.text) + where, costs) if part))
        return f"{text}\n      {remedy.command}" if remedy.command else text

    def _doubts(self, rules: Sequence[Rule], most: int) -> list[str]:
        texts = [text for rule in rules for text in rule.false_positives if text != _NONE_KNOWN] or [_NONE_KNOWN]
        return [self._some("It can be wrong when:", [self._item(text) for text in dict.fromkeys(texts)], most)]

    def _references(self, rules: Sequence[Rule], most: int) -> list[str]:
        texts = list(dict.fromkeys(self._item(text) for rule in rules for text in rule.references))
        return [self._some("References:", texts, most)] if texts else []

    def _relations(self, cause: Cause, rules: Sequence[Rule], links: Sequence[Link]) -> list[str]:
        """What follows from it, and what it may follow from; a few of each, the closest ones."""
        # what most of its rules account for is the most usual
        effects = Counter(effect for rule in rules for effect in rule.explains if effect != cause.id)
        # a rule that accounts for few other causes knows best what it leads to
        sources: dict[str, int] = {}
        for source, explains in links:
            if cause.id in explains and source != cause.id:
                sources[source] = min(len(explains), sources.get(source, len(explains)))
        after = sorted(effects, key=lambda effect: (-effects[effect], effect))
        before = sorted(sources, key=lambda source: (sources[source], source))
        titles = (("What may follow from it", after), ("What it may follow from", before))
        return [self._prose(f"{title}: {_few(names)}.") for title, names in titles if names]

    def _some(self, title: str, items: Sequence[str], most: int) -> str:
        rest = len(items) - most
        more = [f"  and {rest} more, on the pages of the rules"] if rest > 0 else []
        return "\n".join([title, *items[:most], *more])

    def _part(self, title: str, text: str) -> str:
        return f"{title}:\n{self._indented(text)}"

    def _list(self, title: str, texts: Sequence[str]) -> str:
        return "\n".join([f"{title}:", *(self._item(text) for text in texts)])

    def _item(self, text: str) -> str:
        return self._fill(text, "  - ", "    ")

    def _indented(self, text: str) -> str:
        return self._fill(text, "  ", "  ")

    def _prose(self, text: str) -> str:
        return "\n\n".join(self._fill(" ".join(part.split()), "", "") for part in text.strip().split("\n\n"))

    def _fill(self, text: str, first: str, later: str) -> str:
        return textwrap.fill(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=later,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _few(names: Sequence[str]) -> str:
    rest = len(names) - _RELATIONS
    return ", ".join(names[:_RELATIONS]) + (f", and {rest} more" if rest > 0 else "")


def _unknown(name: str, known: Sequence[str]) -> UnknownNameError:
    close = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=3, cutoff=0.5)
    close += [other for other in known if name.lower() in other and other not in close][: 5 - len(close)]
    advice = f"Did you mean {', '.join(close)}?" if close else "`hangscope rules` lists rules and their causes."
    return UnknownNameError(f"there is no cause or rule named {name!r}", advice)
