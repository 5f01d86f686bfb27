"""Compares how far the ranks came in the init of a communicator that not all have completed."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts.comparisons.said import Said, compared
from hangscope.facts.init_stages import NAMES, Init, Stand, unfinished_inits
from hangscope.model import Comparison

TOPIC = "init"
ORDER = 6

_MOST = 4


def compare(job: Job) -> Iterator[Comparison]:
    """A comparison for each unfinished init: the last milestone of each rank."""
    for init in unfinished_inits(job)[:_MOST]:
        said = [*(_said(stand) for stand in init.stands), *_silent(job, init)]
        found = compared(TOPIC, f"init of {init.name}", said, must_agree=True)
        if found is not None:
            yield found


def _silent(job: Job, init: Init) -> Iterator[Said]:
    """Ranks of the world that NCCL printed nothing of."""
    if init.group is None or init.group.size != job.world_size:
        return
    known = {stand.rank for stand in init.stands}
    for rank in init.group.missing_group_ranks:
        if rank not in known:
            process = job.ranks.get(rank)
            yield Said("no line of NCCL", None, (rank,), (process.host,) if process and process.host else ())


def _said(stand: Stand) -> Said:
    text = NAMES[stand.stage] + (" or further (the end of its log is lost)" if stand.cut else "")
    hosts = (stand.process.host,) if stand.process.host else ()
    ranks = () if stand.rank is None else (stand.rank,)
    name = stand.process.files[0] if not ranks and not hosts and stand.process.files else ""
    return Said(text, stand.shown_by, ranks, hosts, name)
