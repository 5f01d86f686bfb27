"""Turns times into words: ISO 8601 for the report, clocks and durations for people."""

from __future__ import annotations

from datetime import UTC, datetime

_AT_ONCE_S = 1.0
"""What comes so soon has no delay worth telling."""


def iso_time(seconds: float | None) -> str | None:
    """ISO 8601 without a zone, since logs do not say theirs; None for an unknown or impossible time."""
    if seconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")


def split_time(iso: str | None) -> tuple[str, str]:
    """Date and clock of an ISO time ("" when there is none)."""
    date, _, clock = (iso or "").partition("T")
    return (date, clock) if clock else ("", date)


def seconds_between(first: str | None, later: str | None) -> float | None:
    """Seconds from one ISO time to another, or None when either is unknown."""
    if not first or not later:
        return None
    try:
        return (datetime.fromisoformat(later) - datetime.fromisoformat(first)).total_seconds()
    except (TypeError, ValueError):
        return None


def duration_words(seconds: float) -> str:
    """``250 ms``, ``4.2 s``, ``10 min 2 s``, ``3 h 5 min``."""
    if seconds < 0:
        return "-" + duration_words(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def delay_words(seconds: float | None, since: str = "later") -> str:
    """`` (10 min 2 s later)`` to put behind what happened; "" for what came at once, or at an unknown time.

    An effect that seems earlier than its cause was logged late, or by another clock: there is nothing true to say.
    """
    if seconds is None or seconds < _AT_ONCE_S:
        return ""
    return f" ({duration_words(seconds)} {since})"
