"""Compares the GPUs of the hosts: which they are, and how many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts.comparisons.said import Holders, Said, compared
from hangscope.model import Comparison, Event

TOPIC = "GPUs"
ORDER = 5


def compare(job: Job) -> Iterator[Comparison]:
    """The types of GPUs, and how many ranks each host has in the job's largest communicator."""
    found = (compare_models(job), compared(TOPIC, "ranks on the host", _local_ranks(Holders(job)), must_agree=False))
    yield from (comparison for comparison in found if comparison is not None)


def compare_models(job: Job) -> Comparison | None:
    """The GPU types of each host, ``NVIDIA H100 80GB HBM3`` (collect_env, nvidia-smi)."""
    holders = Holders(job)
    models: dict[str, Counter[str]] = defaultdict(Counter)
    lines: dict[str, Event] = {}
    seen: set[tuple[str, object]] = set()
    for event in job.events.of("gpu_model", "smi_gpu"):
        model = str(event.fields.get("model") or "").strip()
        index = event.fields.get("gpu_index", event.fields.get("bus"))
        if model and event.host and (event.host, index) not in seen:
            seen.add((event.host, index))
            models[event.host][model] += 1
            lines.setdefault(event.host, event)
    said = [holders.of_host(host, " and ".join(sorted(counts)), lines[host]) for host, counts in sorted(models.items())]
    return compared(TOPIC, "GPU type", said, must_agree=False)


def _local_ranks(holders: Holders) -> list[Said]:
    """By the first communicator of each process: NCCL's own count of its ranks on that host (2.20.3 and later)."""
    first: dict[str, Event] = {}
    largest = max((e.number("nranks") or 0 for e in holders.job.events.of("comm_layout")), default=0)
    for event in holders.job.events.of("comm_layout"):
        if event.host and event.number("nranks") == largest:
            first.setdefault(event.host, event)
    return [holders.of_host(host, str(e.fields.get("local_ranks")), e) for host, e in sorted(first.items())]
