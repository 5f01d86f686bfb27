"""How much of the job the evidence covers: the share of ranks that left any line."""

from __future__ import annotations

from hangscope.align.job import Job


def coverage(job: Job) -> float:
    """Share of the job's ranks of which there is evidence; 1 when the world's size is not known.

    Evidence without any rank in it (NCCL_DEBUG=WARN, a kernel log) counts by its processes, at least by half:
    it may well speak of all of them.
    """
    if not job.world_size:
        return 1.0
    if not job.ranks:
        return max(0.5, min(1.0, len(job.processes) / job.world_size))
    return min(1.0, len(job.ranks) / job.world_size)
