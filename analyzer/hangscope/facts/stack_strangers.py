"""Leaves out the dumps of processes that run another program than the job's ranks: a notebook, somebody else's job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hangscope.expressions import expression
from hangscope.facts.stack_stands import Stand

_PROGRAM = expression(r"(?:^|\s)-m\s+(?P<module>[\w.]+)|(?:^|[\s/])(?P<script>[\w.+-]+\.pyz?)(?=\s|$)")
_WORKER = expression(r"multiprocessing|<string>|-c\b|::")
"""Command lines that tell nothing of the program: of children, and titles that processes gave themselves."""


def of_the_job(stands: tuple[Stand, ...]) -> tuple[Stand, ...]:
    """Without those of no rank whose program is none of the ranks'; where no rank is known, none of those that wait."""
    known = [stand for stand in stands if stand.rank is not None] or _most([stand for stand in stands if stand.waits])
    programs = {program_of(stand) for stand in known}
    if not programs or "" in programs:
        return stands
    return tuple(s for s in stands if s.rank is not None or program_of(s) in programs or not program_of(s))


def _most(waiting: Sequence[Stand]) -> list[Stand]:
    """Those that run the program of most, when more than one does."""
    programs = Counter(program_of(stand) for stand in waiting)
    program, count = programs.most_common(1)[0] if programs else ("", 0)
    return [s for s in waiting if program_of(s) == program] if count > 1 and count * 2 > len(waiting) else []


def program_of(stand: Stand) -> str:
    """The script or module on the command line; "" when it names none."""
    command = stand.position.dump.command
    found = _PROGRAM.search(command) if not _WORKER.search(command) else None
    return (found["module"] or found["script"]) if found else ""
