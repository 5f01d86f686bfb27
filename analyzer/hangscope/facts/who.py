"""Which rank an event speaks of when its own writer is not known: other words on its line, or of its process."""

from __future__ import annotations

import re

from hangscope.align.job import Job
from hangscope.model import Event

_TAG = re.compile(r"\[rank(\d+)\]:")
_WORLD = (None, "default_pg", "0")


def rank_of(job: Job, event: Event) -> int | None:
    """The global rank, or None.

    Beyond what identity knows: a rank tag that stands behind foreign text, the rank that torch's watchdog prints on
    the same line for the default group (to 2.3 without any other mark), and the rank that NCCL's proxy of the same
    process names when an operation fails.
    """
    if event.rank is not None:
        return event.rank
    tag = _TAG.search(event.line.raw[:200])
    if tag:
        return int(tag[1])
    watchdog = job.events.of("watchdog_thread_ended", "watchdog_timeout", "watchdog_takes_process_down")
    for other in watchdog:
        if other.line is event.line and other.fields.get("pg_desc") in _WORLD and other.fields.get("pg_name") in _WORLD:
            rank = other.fields.get("group_rank")
            return rank if isinstance(rank, int) else None
    if event.pid is None:
        return None
    named = {
        other.fields.get("group_rank")
        for other in job.events.of("proxy_operation_failed")
        if other.pid == event.pid and other.host == event.host
    }
    rank = named.pop() if len(named) == 1 else None
    return rank if isinstance(rank, int) else None
