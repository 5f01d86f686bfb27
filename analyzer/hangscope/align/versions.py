"""The versions of a job's software: as its evidence states them, or lets infer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hangscope.model import Evidence
from hangscope.records import dataclass

Version = str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Inferred:
    """The releases that fit all that a process, or all of a job, printed.

    Attributes:
        releases: of NCCL in full, of PyTorch as ``major.minor``; ascending, never empty.
        older, newer: releases before the first, or after the last that hangscope knows, would fit as well.
        by: what tells, in words ("source line numbers").
        evidence: the lines that narrow it down, the most telling one first.
    """

    releases: tuple[str, ...]
    older: bool
    newer: bool
    by: str
    evidence: tuple[Evidence, ...]
    mask: int

    @property
    def first(self) -> str | None:
        return None if self.older else self.releases[0]

    @property
    def last(self) -> str | None:
        return None if self.newer else self.releases[-1]

    def __str__(self) -> str:
        """``2.3``, ``2.3 to 2.4``, ``2.29.2 or newer``, ``2.12.12 or older``."""
        low, high = self.releases[0], self.releases[-1]
        if self.newer:
            return f"{low} or newer"
        if self.older:
            return f"{high} or older"
        return low if low == high else f"{low} to {high}"


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions as stated: None when nothing says, one, or several when ranks differ.

    Attributes:
        inferred: "torch", "nccl" -> the releases that fit all lines, where no line states the version.
    """

    torch: Version = None
    nccl: Version = None
    cuda: Version = None
    driver: Version = None
    ofi: Version = None
    inferred: Mapping[str, Inferred] = field(default_factory=dict)
