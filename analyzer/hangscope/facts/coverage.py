"""How much of the job the evidence covers: the share of ranks that left all their lines."""

from __future__ import annotations

from hangscope.align.job import Job
from hangscope.align.process import Process

_OF_A_CUT_LOG = 0.5
"""What a rank counts whose last lines are lost: they are the ones that tell."""


def coverage(job: Job) -> float:
    """Share of the job's ranks of which there is evidence; a rank whose last lines are lost counts half.

    When the world's size is not known, inputs that could not be read count as one more process each. Evidence without
    any rank in it (NCCL_DEBUG=WARN, a kernel log) counts by its processes, at least by half: it may well speak of all
    of them.
    """
    ranked = sum(_share(process, job) for process in job.ranks.values())
    if not job.world_size:
        unread = sum(record.error is not None and record.lines == 0 for record in job.sources)
        known = ranked if job.ranks else float(len(job.processes))
        whole = (len(job.ranks) or len(job.processes)) + unread
        return known / whole if whole else 1.0
    if not job.ranks:
        return max(0.5, min(1.0, len(job.processes) / job.world_size))
    return min(1.0, ranked / job.world_size)


def _share(process: Process, job: Job) -> float:
    return _OF_A_CUT_LOG if any(file in job.lost_tails for file in process.files) else 1.0
