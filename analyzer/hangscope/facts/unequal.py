"""Facts about hosts that are not equipped alike: GPU types, devices for RDMA, and numbers of channels."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.comparisons.channels import compare_counts
from hangscope.facts.comparisons.differing import facts_of
from hangscope.facts.comparisons.gpus import compare_models
from hangscope.facts.comparisons.network import compare_devices
from hangscope.model import Fact

KINDS = {
    "gpu_type_differs": FactKind(("gpu", "expected", "who"), "Some hosts have other GPUs than the rest."),
    "device_count_differs": FactKind(
        ("devices", "expected", "who"),
        "Some hosts use another number or kind of devices for RDMA than the rest, or none.",
    ),
    "channel_count_differs": FactKind(
        ("channels", "expected", "who"), "Some ranks of a communicator have another number of channels than the rest."
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """One fact for each value that most hosts or ranks do not have."""
    yield from facts_of(compare_models(job), "gpu_type_differs", {"value": "gpu"})
    yield from facts_of(compare_devices(job), "device_count_differs", {"value": "devices"})
    yield from facts_of(compare_counts(job), "channel_count_differs", {"value": "channels"})
