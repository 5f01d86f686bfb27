"""Compares how far the ranks came in the init of a communicator that not all have completed."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts.comparisons.said import Said, compared
from hangscope.facts.init_stages import NAMES, Stand, unfinished_inits
from hangscope.model import Comparison

TOPIC = "init"
ORDER = 6

_MOST = 4


def compare(job: Job) -> Iterator[Comparison]:
    """A comparison for each unfinished init: the last milestone of each rank."""
    for init in unfinished_inits(job)[:_MOST]:
        found = compared(TOPIC, f"init of {init.name}", [_said(stand) for stand in init.stands], must_agree=True)
        if found is not None:
            yield found


def _said(stand: Stand) -> Said:
    text = NAMES[stand.stage] + (" or further (the end of its log is lost)" if stand.cut else "")
    hosts = (stand.process.host,) if stand.process.host else ()
    ranks = () if stand.rank is None else (stand.rank,)
    name = stand.process.files[0] if not ranks and not hosts and stand.process.files else ""
    return Said(text, stand.shown_by, ranks, hosts, name)
