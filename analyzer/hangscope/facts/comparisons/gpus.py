"""Compares the GPUs of the hosts: which they are, and how many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts.comparisons.said import Holders, Said, compared
from hangscope.model import Comparison, Event

TOPIC = "GPUs"
ORDER = 5

_CUT = "..."
"""The end of a long name in the table of nvidia-smi."""


def compare(job: Job) -> Iterator[Comparison]:
    """The types of GPUs, and how many ranks each host has in the job's largest communicator."""
    found = (compare_models(job), compared(TOPIC, "ranks on the host", _local_ranks(Holders(job)), must_agree=False))
    yield from (comparison for comparison in found if comparison is not None)


def compare_models(job: Job) -> Comparison | None:
    """The GPU types of each host, ``NVIDIA H100 80GB HBM3`` (collect_env, nvidia-smi)."""
    holders = Holders(job)
    models: dict[str, set[str]] = defaultdict(set)
    lines: dict[str, Event] = {}
    named = [(e, str(e.fields.get("model") or "").strip()) for e in job.events.of("gpu_model", "smi_gpu") if e.host]
    whole = sorted({model for _, model in named if not model.endswith(_CUT)})
    for event, model in named:
        if model and event.host:
            begin = model.removesuffix(_CUT)
            models[event.host].add(model if begin == model else next((n for n in whole if n.startswith(begin)), begin))
            lines.setdefault(event.host, event)
    said = [holders.of_host(host, " and ".join(sorted(names)), lines[host]) for host, names in sorted(models.items())]
    return compared(TOPIC, "GPU type", said, must_agree=False)


def _local_ranks(holders: Holders) -> list[Said]:
    """By the first communicator of each process: NCCL's own count of its ranks on that host (2.20.3 and later)."""
    first: dict[str, Event] = {}
    largest = max((e.number("nranks") or 0 for e in holders.job.events.of("comm_layout")), default=0)
    for event in holders.job.events.of("comm_layout"):
        if event.host and event.number("nranks") == largest:
            first.setdefault(event.host, event)
    return [holders.of_host(host, str(e.fields.get("local_ranks")), e) for host, e in sorted(first.items())]
