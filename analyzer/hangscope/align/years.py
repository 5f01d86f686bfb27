"""Gives times whose year no line of their file names the year that the job's other files name.

torch's C++ lines, glog and syslog print month and day only; `sources.stamps` puts them into a reference year. Beside
files that do name a year they would all seem to be from long before.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from hangscope.model import Line
from hangscope.parse.source import ParsedSource
from hangscope.sources.stamps import REFERENCE_YEAR

_END_OF_REFERENCE = dt.datetime(REFERENCE_YEAR + 1, 1, 1, tzinfo=dt.UTC).timestamp()
"""Logs of GPU jobs are younger: an earlier time is one without a year."""


def adopt_years(sources: Sequence[ParsedSource]) -> None:
    """Moves the times of all files without a year, in place, next to those of the files with one.

    Nothing changes when no file names a year, or all do. A job over New Year's Eve gets the nearest of the years.
    """
    known = [time for source in sources for time in _times(source) if time >= _END_OF_REFERENCE]
    if not known:
        return
    middle = sorted(known)[(len(known) - 1) // 2]
    for source in sources:
        if any(time < _END_OF_REFERENCE for time in _times(source)):
            _move(source, middle)


def nearest_year(time: float, middle: float) -> float:
    """A time of the reference year, in the year that brings it nearest to another time; other times as they are."""
    if not 0 <= time < _END_OF_REFERENCE:
        return time
    moment = dt.datetime.fromtimestamp(time, dt.UTC)
    year = dt.datetime.fromtimestamp(middle, dt.UTC).year
    choices = []
    for candidate in (year - 1, year, year + 1):
        # February 29th is no day of most years
        day = 28 if (moment.month, moment.day) == (2, 29) and not _is_leap(candidate) else moment.day
        choices.append(moment.replace(year=candidate, day=day).timestamp())
    return min(choices, key=lambda choice: abs(choice - middle))


def _times(source: ParsedSource) -> Iterator[float]:
    for writer in source.writers:
        for time in (writer.first_time, writer.last_time):
            if time is not None:
                yield time


def _move(source: ParsedSource, middle: float) -> None:
    moved: set[int] = set()
    for line in _lines(source):
        if line.time is not None and id(line) not in moved:
            moved.add(id(line))
            line.time = nearest_year(line.time, middle)
    for writer in source.writers:
        writer.first_time = None if writer.first_time is None else nearest_year(writer.first_time, middle)
        writer.last_time = None if writer.last_time is None else nearest_year(writer.last_time, middle)
    for dump in source.dumps:
        dump.time = None if dump.time is None else nearest_year(dump.time, middle)


def _lines(source: ParsedSource) -> Iterator[Line]:
    yield from (event.line for event in source.events)
    for writer in source.writers:
        yield from (line for line in (writer.first_line, writer.last_line) if line is not None)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
