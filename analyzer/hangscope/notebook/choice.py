"""Which rows of the tables somebody wants to see: by rank, host, group and time."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from datetime import datetime

import numpy as np
import pandas as pd

from hangscope.errors import UsageError
from hangscope.expressions import expression
from hangscope.ranges import rank_words
from hangscope.records import dataclass

Ranks = int | str | Iterable[int]
"""A rank, several, or what reports write: ``"0-3,8"``, ``"0-63:8"``."""
Names = str | Iterable[str]
"""A name or several; ``*`` and ``?`` stand for anything."""
Moment = str | float | datetime
"""ISO 8601, a clock time of the job's first day (``"10:02:11"``), seconds since 1970, or a datetime."""

_SPAN = expression(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_CLOCK = expression(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?")
_MOST = 1 << 24


@dataclass(frozen=True, slots=True)
class Choice:
    """What was asked for; None where everything will do.

    Attributes:
        ranks: global ranks.
        hosts, groups: patterns of names.
        after, before: the first and the last moment, without a zone.
    """

    ranks: frozenset[int] | None = None
    hosts: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    after: pd.Timestamp | None = None
    before: pd.Timestamp | None = None

    def words(self) -> str:
        """The same in words ("ranks 0-3, after 2026-03-01 10:00:00"); "" when everything will do."""
        parts = [] if self.ranks is None else [rank_words(self.ranks, most=60)]
        parts += [] if self.hosts is None else ["hosts " + ", ".join(self.hosts)]
        parts += [] if self.groups is None else ["groups " + ", ".join(self.groups)]
        parts += [] if self.after is None else [f"from {self.after}"]
        parts += [] if self.before is None else [f"to {self.before}"]
        return ", ".join(parts)


def parse_ranks(given: Ranks) -> frozenset[int]:
    """The ranks meant.

    Raises:
        UsageError: the text is no list of ranks.
    """
    wrong = UsageError(f"{given!r} is no list of ranks", "Write 5, [0, 1, 2], or as reports do: '0-3,8'.")
    # what stands in a column is numpy's
    if isinstance(given, int | np.integer):
        return frozenset({int(given)})
    if not isinstance(given, str):
        try:
            return frozenset(int(rank) for rank in given)
        except (ValueError, TypeError, OverflowError):
            raise wrong from None
    found: set[int] = set()
    for part in given.replace(" ", "").split(","):
        span = _SPAN.fullmatch(part)
        first, last, step = (int(span[1]), int(span[2] or span[1]), int(span[3] or 1)) if span else (1, 0, 1)
        if last < first or not step or last > _MOST:
            raise wrong
        found.update(range(first, last + 1, step))
    return frozenset(found)


def parse_names(given: Names) -> tuple[str, ...]:
    """The patterns meant."""
    return (given,) if isinstance(given, str) else tuple(given)


def parse_moment(given: Moment, day: pd.Timestamp | None) -> pd.Timestamp:
    """The moment meant, without a zone: logs do not say theirs, so a zone can only be taken off.

    Args:
        given: what the user wrote.
        day: the job's first moment; a clock time alone is one of that day.

    Raises:
        UsageError: it is no time, or a clock time alone while no line of the job has a date.
    """
    wrong = f"{given!r} is no time"
    if isinstance(given, str) and _CLOCK.fullmatch(given):
        if day is None:
            raise UsageError(f"{wrong} of this job: none of its lines has one")
        given = f"{day.date()} {given.replace(',', '.')}"
    try:
        moment = pd.Timestamp(given, unit="s") if isinstance(given, int | float | np.number) else pd.Timestamp(given)
    except (ValueError, TypeError, OverflowError):
        raise UsageError(wrong, "Write 2026-03-01T10:02:11, or 10:02:11 for the job's first day.") from None
    if pd.isna(moment):
        raise UsageError(wrong, "Write 2026-03-01T10:02:11, or 10:02:11 for the job's first day.")
    return moment.tz_localize(None)


def named(names: Iterable[str], patterns: Iterable[str]) -> frozenset[str]:
    """Those names that a pattern is about, without regard to case."""
    wanted = [pattern.casefold() for pattern in patterns]
    return frozenset(n for n in names if any(fnmatch.fnmatchcase(n.casefold(), pattern) for pattern in wanted))
