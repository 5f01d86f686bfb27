"""Finds the facts that meet a condition, in order of time, and the keys that facts are joined on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hangscope.diagnose.rule import Condition, FieldTest, Operator
from hangscope.diagnose.template import field_value
from hangscope.facts.collect import Facts
from hangscope.model import Fact, Value

Key = object
"""One value of a shared key: a rank, a host, a group, the value of a field."""


class FactIndex:
    """The facts of one job by kind, earliest first, those without a time last."""

    def __init__(self, facts: Facts | Iterable[Fact]) -> None:
        self._facts = facts if isinstance(facts, Facts) else None
        self._kinds: dict[str, list[Fact]] = {}
        for fact in facts if self._facts is None else ():
            self._kinds.setdefault(fact.kind, []).append(fact)
        for found in self._kinds.values():
            found.sort(key=_order)
        # Rules share conditions (the rank died, the call is stuck): each is answered once.
        self._answers: dict[str, list[Fact]] = {}

    def _of(self, kind: str) -> list[Fact]:
        if self._facts is not None and kind not in self._kinds:
            self._kinds[kind] = sorted(self._facts.of(kind), key=_order)
        return self._kinds.get(kind, [])

    def meeting(self, condition: Condition) -> list[Fact]:
        """Facts of the condition's kind that pass all of its tests."""
        candidates = self._of(condition.fact)
        if not condition.tests or not candidates:
            return candidates
        # repr, because True and 1 are equal as keys and differ as tests.
        key = f"{condition.fact} {condition.tests!r}"
        if key not in self._answers:
            self._answers[key] = [fact for fact in candidates if all(passes(fact, test) for test in condition.tests)]
        return self._answers[key]


def passes(fact: Fact, test: FieldTest) -> bool:
    """Whether a fact passes a test; a field that is not there passes only ``_exists = false``."""
    value = field_value(fact, test.field)
    match test.operator:
        case Operator.EXISTS:
            return (value not in (None, "", ())) is test.value
        case Operator.EQUALS:
            return _equal(value, test.value)
        case Operator.IN:
            return any(_equal(item, wanted) for item in _items(value) for wanted in _items(test.value))
        case Operator.CONTAINS:
            texts = [str(item).casefold() for item in _items(value)]
            return any(str(wanted) in text for wanted in _items(test.value) for text in texts)
        case Operator.MIN:
            return _is_number(value) and float(str(value)) >= float(str(test.value))
        case Operator.MAX:
            return _is_number(value) and float(str(value)) <= float(str(test.value))


def shared_values(fact: Fact, key: str) -> tuple[Key, ...]:
    """The values a fact has of a shared key; facts are joined when they have one in common.

    A file that tells neither rank nor host is a writer of its own: its facts belong together, and to no other's.
    """
    match key:
        case "rank":
            return fact.ranks or _files(fact)
        case "host":
            return fact.hosts or _files(fact)
        case "group":
            return (fact.group,) if fact.group else ()
        case _:
            value = field_value(fact, key)
            return () if value is None else (value,)


def earliest(facts: Iterable[Fact]) -> list[Fact]:
    """The facts once each, in order of time."""
    return sorted({id(fact): fact for fact in facts}.values(), key=_order)


def _files(fact: Fact) -> tuple[Key, ...]:
    return (("file", fact.evidence[0].at.file),) if fact.evidence else ()


def _order(fact: Fact) -> tuple[bool, float, str, int, tuple[int, ...]]:
    at = fact.evidence[0].at if fact.evidence else None
    place = (at.file, at.line or 0) if at else ("", 0)
    return (fact.time is None, fact.time or 0.0, *place, fact.ranks)


def _items(value: Value | Sequence[object]) -> tuple[object, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple) else (value,)


def _equal(value: object, wanted: object) -> bool:
    return value == wanted and isinstance(value, bool) is isinstance(wanted, bool)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
