"""What a run has to know of every shipped rule, kept from run to run: which few it reads, the index tells.

Reading all of the hundreds of files takes longer than a small analysis.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hangscope.cache import kept, stamps
from hangscope.diagnose.loader import load_rule, read_head, read_needs, rule_files
from hangscope.diagnose.rule import Heading, Rule
from hangscope.records import dataclass
from hangscope.resources import rules_dir


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index knows of a rule.

    Attributes:
        file: its path below the folder of the rules.
        heading: what a list of rules shows of it.
        explains: the causes that it accounts for.
        needed: the kinds of facts without which it cannot fire.
        either: the kinds of which one is needed, too; none if empty.
    """

    file: str
    heading: Heading
    explains: tuple[str, ...]
    needed: tuple[str, ...]
    either: tuple[str, ...]

    def can_fire(self, kinds: frozenset[str]) -> bool:
        """Whether facts of these kinds are enough for the rule."""
        return kinds.issuperset(self.needed) and not (self.either and kinds.isdisjoint(self.either))

    def load(self) -> Rule:
        """Reads the rule."""
        return load_rule(rules_dir() / self.file)


@functools.cache
def shipped_rules() -> tuple[Entry, ...]:
    """All shipped rules, in the order of `rule_files`.

    Raises:
        RuleError: a file is wrong.
    """
    made_of = [*stamps(rules_dir(), ".toml"), *stamps(Path(__file__).parent, ".py")]
    return kept("rules", made_of, lambda: tuple(map(_entry, rule_files())), _pack, _unpack)


def load_rules_about(kinds: frozenset[str]) -> tuple[Rule, ...]:
    """Loads those of the shipped rules that can fire on facts of these kinds: ten of hundreds, and as much faster.

    Raises:
        RuleError: a file is wrong.
    """
    return tuple(entry.load() for entry in shipped_rules() if entry.can_fire(kinds))


def load_rules_naming(cause: str) -> tuple[Rule, ...]:
    """Loads the shipped rules that name a cause.

    Raises:
        RuleError: a file is wrong.
    """
    return tuple(entry.load() for entry in shipped_rules() if entry.heading.cause == cause)


def list_rules(extra_dirs: Iterable[str | Path] = (), family: str = "") -> list[Heading]:
    """What a list of rules shows: of those shipped, and of those in the user's folders.

    Raises:
        RuleError: a file is wrong.
    """
    own = rule_files(extra_dirs, family, shipped=False)
    headings = [entry.heading for entry in shipped_rules() if family in ("", entry.heading.family)]
    return [*headings, *(read_head(path)[0] for path in own)]


def _entry(path: Path) -> Entry:
    return Entry(str(path.relative_to(rules_dir())), *read_head(path), *read_needs(path))


def _pack(entries: Sequence[Entry]) -> object:
    return [
        [entry.file, dataclasses.astuple(entry.heading), entry.explains, entry.needed, entry.either]
        for entry in entries
    ]


def _unpack(packed: Any) -> tuple[Entry, ...]:  # noqa: ANN401 - what was in the file
    return tuple(
        Entry(file, Heading(*heading), *(tuple(names) for names in (explains, needed, either)))
        for file, heading, explains, needed, either in packed
    )
