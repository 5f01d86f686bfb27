"""Findings: what a rule says of facts."""

from __future__ import annotations

import enum

from hangscope.model.evidence import Evidence
from hangscope.records import dataclass


class Role(enum.StrEnum):
    """What part a finding plays (report contract)."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    CONTRIBUTING = "contributing"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to do: plain words, and the command or setting when there is one."""

    text: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Consequence:
    """A finding that another one explains.

    Attributes:
        cause, rule: of the finding that is explained.
        ranks: at fault in it, or, where it blames none, those that suffer.
        delay_s: how much later it happened; None when either time is unknown, below 0 when clocks disagree.
    """

    cause: str
    rule: str
    ranks: tuple[int, ...]
    delay_s: float | None


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that a rule found: the report contract's keys, its time, what it explains, what was said beside it.

    `is_time_of_report`: the time is that of a report or dump that shows the fault, and the fault itself was earlier.
    """

    cause: str
    role: Role
    title: str
    ranks: tuple[int, ...]
    affected_ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    confidence: float
    explanation: str
    remedies: tuple[Remedy, ...]
    evidence: tuple[Evidence, ...]
    rule: str
    explained_by: str | None = None
    time: float | None = None
    explains: tuple[Consequence, ...] = ()
    also_said: tuple[Evidence, ...] = ()
    is_time_of_report: bool = False
