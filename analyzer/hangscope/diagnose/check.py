"""Checks the facts and fields that rules name against those that grammars and facts modules produce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hangscope.diagnose.reader import suggest
from hangscope.diagnose.rule import FACT_KEYS, SHARED_KEYS, Condition, Operator, Rule
from hangscope.diagnose.template import placeholders
from hangscope.errors import RuleError

Kinds = Mapping[str, frozenset[str]]
"""Fields of each fact kind."""


def check_rules(rules: Iterable[Rule], kinds: Kinds) -> None:
    """Checks every rule.

    Raises:
        RuleError: a rule names a fact kind or a field that nothing produces.
    """
    for rule in rules:
        check_rule(rule, kinds)


def check_rule(rule: Rule, kinds: Kinds) -> None:
    """Checks one rule: its conditions, the fields it joins on, and the fields its texts quote."""
    for group, conditions in (("all", rule.when.all), ("any", rule.when.any), ("none", rule.when.none)):
        for number, condition in enumerate(conditions):
            _check_condition(rule, f"when.{group}[{number}]", condition, kinds)
    for key in rule.when.share:
        if key not in SHARED_KEYS:
            for condition in rule.when.all:
                _check_field(rule, "when.share", condition.fact, key, kinds)
    texts = [("title", rule.title), ("explanation", rule.explanation)]
    texts += [(f"remedies[{number}].text", remedy.text) for number, remedy in enumerate(rule.remedies)]
    for key, text in texts:
        _check_text(rule, key, text, kinds)


def _check_condition(rule: Rule, at: str, condition: Condition, kinds: Kinds) -> None:
    if condition.fact not in kinds:
        raise _error(rule, f"{at}.fact", f"no fact {condition.fact!r}{suggest(condition.fact, kinds)}")
    for field in kinds[condition.fact]:
        if any(suffix and field.endswith(suffix) for suffix in Operator):
            raise _error(rule, at, f"the field {condition.fact}.{field} has a name that reads as a test")
    for test in condition.tests:
        _check_field(rule, f"{at}.{test.field}{test.operator}", condition.fact, test.field, kinds)


def _check_field(rule: Rule, at: str, fact: str, field: str, kinds: Kinds) -> None:
    known = kinds[fact] | set(FACT_KEYS)
    if field not in known:
        what = f"the fact {fact!r} has no field {field!r}{suggest(field, known)}"
        raise _error(rule, at, what, f"It has {', '.join(sorted(known))}.")


def _check_text(rule: Rule, key: str, text: str, kinds: Kinds) -> None:
    for item in placeholders(text):
        facts = [condition.fact for condition in (*rule.when.all, *rule.when.any) if condition.name == item.name]
        known = set(FACT_KEYS).union(*(kinds[fact] for fact in facts))
        if item.field and item.field not in known:
            what = f"{', '.join(facts)} has no field {item.field!r}{suggest(item.field, known)}"
            raise _error(rule, key, f"{{{item.name}.{item.field}}}: {what}")


def _error(rule: Rule, key: str, what: str, advice: str = "") -> RuleError:
    return RuleError(f"{rule.file}: {key}: {what}", advice, key)
