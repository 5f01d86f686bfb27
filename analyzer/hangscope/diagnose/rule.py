"""The shape of a rule: what must hold, what it then says, and the cases that prove it."""

from __future__ import annotations

import enum

from hangscope.diagnose.defects import Affected
from hangscope.model import Role
from hangscope.records import dataclass

Scalar = str | int | float | bool

FACT_KEYS = ("ranks", "hosts", "group", "affected")
"""What every fact carries beside its fields; tests and templates may name these like fields."""

SHARED_KEYS = ("rank", "host", "group")
"""Keys that facts are joined on (``share``, ``same``); ``share`` may name a field as well."""


class Operator(enum.StrEnum):
    """How a test compares; the value is the suffix of its key in the rule file."""

    EQUALS = ""
    IN = "_in"
    CONTAINS = "_contains"
    MIN = "_min"
    MAX = "_max"
    EXISTS = "_exists"


class Status(enum.StrEnum):
    """Where a rule stands in its life."""

    PREVIEW = "preview"
    STABLE = "stable"
    DEPRECATED = "deprecated"


@dataclass(frozen=True, slots=True)
class FieldTest:
    """A test on one field of a fact."""

    field: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of ``all``, ``any`` or ``none``.

    Attributes:
        fact: kind of the fact.
        name: what the bound facts are called in templates, ``before`` and ``culprits``.
        tests: all of them must hold.
        same: key that the fact must share with a culprit ("rank", "host", "group"), "" = any fact counts.
    """

    fact: str
    name: str
    tests: tuple[FieldTest, ...] = ()
    same: str = ""


@dataclass(frozen=True, slots=True)
class When:
    """The condition of a rule. ``culprits``: a bound name, "none", "all", or "" for the default."""

    all: tuple[Condition, ...] = ()
    any: tuple[Condition, ...] = ()
    none: tuple[Condition, ...] = ()
    share: tuple[str, ...] = ()
    before: tuple[tuple[str, str], ...] = ()
    culprits: str = ""
    min_count: int = 1


@dataclass(frozen=True, slots=True)
class RuleRemedy:
    """A remedy as a rule offers it; ``versions`` says where it is valid, "" = everywhere."""

    text: str
    command: str | None = None
    versions: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Log lines, or the name of a folder in fixtures/, that fire the rule or must not."""

    name: str
    fires: bool
    lines: str = ""
    fixture: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """What a list of rules shows of one."""

    family: str
    id: str
    cause: str
    role: str
    status: str
    since: str
    weight: int
    title: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule file.

    Attributes:
        file: the file as messages name it.
        weight: how deep it looks: 90 hardware or kernel says so, 80 the rank itself says the reason, 60 strong
            inference from alignment, 40 weak inference, 20 symptom of somebody else's fault.
        confidence: how sure the finding is when no evidence is missing.
        explains: causes of other findings that it accounts for.
        explains_late: it accounts for them even when its own line has a clearly later time (another clock).
        affected: of a known defect, the versions that have it.
    """

    id: str
    file: str
    cause: str
    family: str
    role: Role
    status: Status
    since: str
    title: str
    weight: int
    confidence: float
    explanation: str
    when: When
    explains: tuple[str, ...]
    explains_late: bool
    remedies: tuple[RuleRemedy, ...]
    false_positives: tuple[str, ...]
    references: tuple[str, ...]
    aliases: tuple[str, ...]
    cases: tuple[Case, ...]
    affected: Affected | None = None
