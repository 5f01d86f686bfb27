"""Decides whether a rule's ``when`` holds for the facts of a job, and which facts it binds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hangscope.diagnose.index import FactIndex, Key, earliest, shared_values
from hangscope.diagnose.join import Columns, join
from hangscope.diagnose.rule import Condition, When
from hangscope.model import Fact
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class Match:
    """What a rule bound: every fact that takes part in a combination.

    Attributes:
        bound: facts by name, in order of time.
        culprits: facts whose ranks and hosts are blamed.
        excused_ranks: ranks of culprits that a ``none`` entry with ``same = "rank"`` takes out.
        excused_hosts: likewise for hosts.
    """

    bound: Mapping[str, Sequence[Fact]]
    culprits: Sequence[Fact]
    excused_ranks: frozenset[int]
    excused_hosts: frozenset[str]


def match(when: When, facts: FactIndex) -> Match | None:
    """What the conditions bind, or None when they do not hold."""
    if any(not condition.same and facts.meeting(condition) for condition in when.none):
        return None
    entries, some = _candidates(when, facts)
    if entries is None:
        return None
    blamed = _blamed_entries(when)
    excuses = _keys_of(facts, [condition for condition in when.none if condition.same])
    if excuses:
        for number in blamed:
            entries[number] = [fact for fact in entries[number] if not _is_excused(fact, excuses)]
    if when.all:
        for number in blamed or [0]:
            entries[number] = _accompanied(entries[number], when.any, facts)
        index = {condition.name: number for number, condition in enumerate(when.all)}
        entries = join(entries, when.share, [(index[first], index[second]) for first, second in when.before])
        if len(entries[0]) < when.min_count:
            return None
        some = _beside(some, when, entries[(blamed or [0])[0]])
    elif len({id(fact) for column in entries for fact in column}) < when.min_count:
        return None
    bound = _bind(when.all or when.any, entries) | (_bind(when.any, some) if when.all else {})
    return Match(
        bound,
        _culprits(when, bound),
        frozenset(key for name, key in excuses if name == "rank" and isinstance(key, int)),
        frozenset(key for name, key in excuses if name == "host" and isinstance(key, str)),
    )


def _candidates(when: When, facts: FactIndex) -> tuple[Columns | None, Columns]:
    """Facts for the entries that the rule is anchored on (``all``, else ``any``), and for those of ``any``."""
    some = [list(facts.meeting(condition)) for condition in when.any]
    if when.any and not any(some):
        return None, some
    if not when.all:
        return some, some
    entries = []
    for condition in when.all:
        found = facts.meeting(condition)
        if not found:
            return None, some
        entries.append(list(found))
    return entries, some


def _blamed_entries(when: When) -> list[int]:
    """Which of the anchoring entries bind culprits."""
    entries = when.all or when.any
    if when.culprits == "none":
        return []
    if when.culprits == "all" or (not when.culprits and not when.all):
        return list(range(len(entries)))
    if not when.culprits:
        return [0]
    return [number for number, condition in enumerate(entries) if condition.name == when.culprits]


def _keys_of(facts: FactIndex, conditions: Iterable[Condition]) -> set[tuple[str, Key]]:
    return {
        (condition.same, key)
        for condition in conditions
        for fact in facts.meeting(condition)
        for key in shared_values(fact, condition.same)
    }


def _is_excused(fact: Fact, excuses: set[tuple[str, Key]]) -> bool:
    """Whether nothing of the fact is left to blame: each of its ranks (or hosts) is excused."""
    for name in ("rank", "host", "group"):
        keys = shared_values(fact, name)
        if keys and excuses.issuperset((name, key) for key in keys):
            return True
    return False


def _accompanied(column: list[Fact], some: Sequence[Condition], facts: FactIndex) -> list[Fact]:
    """The facts that have one of ``any`` beside them; an entry without ``same`` that is met accompanies every fact."""
    if not some or any(not condition.same and facts.meeting(condition) for condition in some):
        return column
    keys = _keys_of(facts, some)
    names = {condition.same for condition in some}
    return [fact for fact in column if any((name, key) in keys for name in names for key in shared_values(fact, name))]


def _beside(some: Columns, when: When, anchors: list[Fact]) -> Columns:
    """Of the facts of ``any`` entries with ``same``, those that share that key with an anchoring fact."""
    kept = []
    for condition, column in zip(when.any, some, strict=True):
        keys = {key for fact in anchors for key in shared_values(fact, condition.same)} if condition.same else set()
        kept.append(
            [fact for fact in column if not condition.same or keys.intersection(shared_values(fact, condition.same))]
        )
    return kept


def _bind(conditions: Sequence[Condition], columns: Columns) -> dict[str, list[Fact]]:
    bound: dict[str, list[Fact]] = {}
    for condition, column in zip(conditions, columns, strict=True):
        earlier = bound.get(condition.name)
        bound[condition.name] = earliest([*earlier, *column]) if earlier else column
    return bound


def _culprits(when: When, bound: Mapping[str, Sequence[Fact]]) -> Sequence[Fact]:
    if when.culprits == "none":
        return ()
    if when.culprits and when.culprits != "all":
        return bound[when.culprits]
    names = [when.all[0].name] if when.all and not when.culprits else list(bound)
    return bound[names[0]] if len(names) == 1 else earliest(fact for name in names for fact in bound[name])
