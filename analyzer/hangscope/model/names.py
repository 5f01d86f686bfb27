"""Names as people take them: in which order they stand, and a group by what the job calls it, too."""

from __future__ import annotations

from hangscope.expressions import expression

_NUMBER = expression(r"(\d+)")
_MOST_DIGITS = 18
"""int() refuses thousands of digits, and a name may be anything."""


def natural_order(name: str) -> tuple[tuple[bool, int, str], ...]:
    """The key that sorts ``node2`` before ``node10``; numbers stand before letters, and no two names are equal."""
    parts = (part for part in _NUMBER.split(name) if part)
    key = (
        (False, int(part), "") if part.isdecimal() and len(part) <= _MOST_DIGITS else (True, 0, part) for part in parts
    )
    return (*key, (True, 0, name))


def group_title(name: str, description: str) -> str:
    """``5 (DATA_PARALLEL_GROUP)``, ``world``: the name of a group alone is often a mere number."""
    return name if description in ("", name) else f"{name} ({description})"
