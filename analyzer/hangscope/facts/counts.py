"""Tells how far each rank came in each group where no single call is known: by RAS reports, else by watchdogs."""

from __future__ import annotations

from collections.abc import Mapping

from hangscope.align.job import Job
from hangscope.facts.progress import group_progress
from hangscope.facts.ras import ras_counts
from hangscope.model import GroupCounts, History


def find_counts(job: Job) -> History | None:
    """A history of counts alone; None when nothing counts calls."""
    counts = _by_ras(job)
    if counts:
        return History("ras", (), counts=counts)
    counts = _by_watchdogs(job)
    return History("watchdog", (), counts=counts) if counts else None


def _by_ras(job: Job) -> tuple[GroupCounts, ...]:
    found: list[GroupCounts] = []
    for comm, counts in ras_counts(job):
        number = comm.head.fields.get("comm_hash")
        name = f"communicator 0x{number:x}" if isinstance(number, int) else f"communicator {number}"
        if counts:
            found.append(_counts(name, comm.size, counts, ()))
    return tuple(found)


def _by_watchdogs(job: Job) -> tuple[GroupCounts, ...]:
    found: list[GroupCounts] = []
    for group in group_progress(job):
        # the number of the call in which a rank waits is at least that of the last one it enqueued
        last = {rank: wait.seq for rank, wait in group.waiting.items()}
        for rank, enqueued in group.enqueued.items():
            last[rank] = max(enqueued, last.get(rank, enqueued))
        if last:
            members = group.members(job)
            found.append(_counts(group.name, len(members) or None, last, members))
    return tuple(found)


def _counts(name: str, size: int | None, counts: Mapping[int, int | None], members: tuple[int, ...]) -> GroupCounts:
    ranks = tuple(sorted({*counts, *members}))
    return GroupCounts(name, "", size, ranks, tuple(counts.get(rank) for rank in ranks))
