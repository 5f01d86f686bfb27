"""Facts about versions that differ between ranks: NCCL, PyTorch and its CUDA, the driver."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.comparisons import versions as compared
from hangscope.facts.comparisons.differing import facts_of, name_holders
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.facts.nccl_releases import release_groups
from hangscope.model import Fact

KINDS = {
    "nccl_version_differs": FactKind(
        ("version", "expected", "who"),
        "Some processes run another NCCL version than the rest, by their version lines or by the shape of their lines.",
    ),
    "torch_version_differs": FactKind(
        ("product", "version", "expected", "who"),
        "Some processes or hosts have another PyTorch, or one for another CUDA.",
    ),
    "driver_version_differs": FactKind(
        ("product", "version", "expected", "who"), "Some hosts have another NVIDIA driver than the rest."
    ),
    "image_differs": FactKind(("version", "expected", "who"), "Some hosts run another container image than the rest."),
}
_OTHERS = 3


def find(job: Job) -> Iterator[Fact]:
    """One fact for each set of processes or hosts whose version is not, or cannot be, that of the rest."""
    yield from _nccl(job)
    for product in (compared.TORCH, compared.CUDA):
        # what is only inferred is another fact, and weighs less
        comparison = compared.compare_product(job, product, infer=False)
        yield from facts_of(comparison, "torch_version_differs", {"product": product})
    for product in (compared.DRIVER, compared.CUDA_DRIVER):
        yield from facts_of(compared.compare_product(job, product), "driver_version_differs", {"product": product})
    yield from facts_of(compared.compare_product(job, compared.IMAGE), "image_differs")


def _nccl(job: Job) -> Iterator[Fact]:
    groups = release_groups(job.processes)
    if len(groups) < 2:
        return
    expected, *odd = groups
    for group in odd:
        own = group.releases
        lines = [
            evidence_of(own.shown_by, f"NCCL {own.text()}"),
            evidence_of(expected.releases.shown_by, f"NCCL {expected.releases.text()}"),
            *(evidence_of(r.shown_by, f"NCCL {r.text()}") for r in group.shown_by[:_OTHERS] if r is not own),
        ]
        members = [job.processes[n] for n in group.members]
        rest = [job.processes[n] for n in expected.members]
        apart = set(hosts_of(members)).isdisjoint(hosts_of(rest))
        who = name_holders(() if apart and hosts_of(members) else ranks_of(members), hosts_of(members))
        fields = {"version": own.text(), "expected": expected.releases.text(), "who": who}
        yield Fact(
            "nccl_version_differs",
            fields,
            ranks_of(members),
            hosts_of(members),
            affected=ranks_of(rest),
            time=own.shown_by.time,
            evidence=tuple(lines),
        )
