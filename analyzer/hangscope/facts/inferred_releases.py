"""Facts that ranks cannot be of one release of PyTorch or NCCL, by what their lines let infer (`align.releases`)."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.releases import common_releases, group_by_release
from hangscope.facts import FactKind
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.model import Fact

KINDS = {
    "torch_releases_differ": FactKind(
        ("version", "expected"),
        "Some ranks cannot be of the PyTorch release of the rest: source lines, wording or headers tell them apart.",
    ),
    "nccl_releases_differ": FactKind(
        ("version", "expected"),
        "Some ranks cannot be of the NCCL release of the rest: wording or headers tell them apart.",
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """One fact for each product and set of ranks whose releases have none in common with those of the most."""
    for product, found in sorted(job.releases.items()):
        groups = group_by_release((process, own) for process, own in found if process.rank is not None)
        if len(groups) < 2:
            continue
        expected, *odd = sorted(groups, key=lambda group: (-len(group), min(ranks_of([p for p, _ in group]))))
        most = common_releases(product, expected)
        rest = [process for process, _ in expected]
        for group in odd:
            own = common_releases(product, group)
            if own is None or most is None:
                continue
            members = [process for process, _ in group]
            yield Fact(
                f"{product}_releases_differ",
                {"version": str(own), "expected": str(most)},
                ranks_of(members),
                hosts_of(members),
                affected=ranks_of(rest),
                evidence=(*own.evidence[:2], *most.evidence[:2]),
            )
