"""Which rank an event speaks of when its own writer is not known: other words on its line, or of its process."""

from __future__ import annotations

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.model import Event

_TAG = expression(r"\[rank(\d+)\]:")
NAMING_RANKS = ("watchdog_thread_ended", "watchdog_timeout", "watchdog_takes_process_down")
"""Kinds of lines in which torch's watchdog prints its rank in the group."""
_MOST_RANKS = 2**20
_WORLD = (None, "default_pg", "0")


class RankFinder:
    """Finds the global rank of events, beyond what identity knows.

    It takes a rank tag that stands behind foreign text, the rank that torch's watchdog prints on the same line for
    the default group (to 2.3 without any other mark), and the rank that NCCL's proxy of the same process names when
    an operation fails.
    """

    def __init__(self, job: Job) -> None:
        self._lines: dict[tuple[str, int], int] = {}
        for event in job.events.of(*NAMING_RANKS):
            rank = event.fields.get("group_rank")
            of_world = event.fields.get("pg_desc") in _WORLD and event.fields.get("pg_name") in _WORLD
            if of_world and isinstance(rank, int) and 0 <= rank < _MOST_RANKS:
                self._lines[event.line.file, event.line.number] = rank
        named: dict[tuple[str | None, int], set[int]] = {}
        for event in job.events.of("proxy_operation_failed"):
            rank = event.fields.get("group_rank")
            if event.pid is not None and isinstance(rank, int):
                named.setdefault((event.host, event.pid), set()).add(rank)
        self._processes = {process: min(ranks) for process, ranks in named.items() if len(ranks) == 1}

    def rank_of(self, event: Event) -> int | None:
        """The global rank, or None."""
        if event.rank is not None:
            return event.rank
        tag = _TAG.search(event.line.raw[:200])
        if tag:
            return int(tag[1])
        rank = self._lines.get((event.line.file, event.line.number))
        if rank is None and event.pid is not None:
            rank = self._processes.get((event.host, event.pid))
        return rank
