"""Turns the times that logs print into seconds, as if every printed time were UTC."""

from __future__ import annotations

import datetime as dt
import functools

from hangscope.expressions import expression

REFERENCE_YEAR = 2000
"""Year of a time whose year is nowhere in its file: a leap year far from any log, so that it can be told apart."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# a date, and a time before a year; both begin with a literal, which is quick to look for, and what stands before it
# is looked at later
_DATE = expression(r"20(?<![\d.]20)(\d\d)-(?:\d\d|[A-Z][a-z]{2})-\d\d(?!\d)")
_BEHIND_TIME = expression(r" 20(?<=\d\d:\d\d:\d\d 20)(\d\d)\b")
_TIME_LENGTH = len("00:00:00")
_DAY = 86400


@functools.lru_cache(maxsize=1024)
def _midnight(year: int, month: int, day: int) -> float | None:
    try:
        return dt.datetime(year, month, day, tzinfo=dt.UTC).timestamp()
    except ValueError:
        return None


def moment(year: int, month: int, day: int, clock: str, fraction: str = "") -> float | None:
    """Seconds of a date and ``HH:MM`` or ``HH:MM:SS``; None when there is no such time."""
    start = _midnight(year, month, day)
    if start is None:
        return None
    hours, minutes, *rest = clock.split(":")
    seconds = int(hours) * 3600 + int(minutes) * 60 + (int(rest[0]) if rest else 0)
    # a leap second still belongs to its day
    if seconds > _DAY:
        return None
    return start + seconds + (float(f"0.{fraction}") if fraction else 0.0)


def month_number(name: str) -> int:
    """1 to 12 for an English month name or number; 0 for anything else."""
    if name.isdecimal():
        return int(name)
    short = name[:3].lower()
    return _MONTHS.index(short) + 1 if short in _MONTHS else 0


def year_in(text: str) -> int | None:
    """The year that is printed first in some date of this text, of one line or many."""
    date, behind = _DATE.search(text), _BEHIND_TIME.search(text)
    if date is None or (behind is not None and behind.start() - _TIME_LENGTH < date.start()):
        date = behind
    return 2000 + int(date[1]) if date is not None else None
