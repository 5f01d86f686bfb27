"""The fact that ranks cannot be of one PyTorch release, by what their lines let infer (`align.releases`)."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.align.releases import common_releases
from hangscope.align.versions import Inferred
from hangscope.facts import FactKind
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.model import Fact

KINDS = {
    "torch_releases_differ": FactKind(
        ("version", "expected"),
        "Some ranks cannot be of the PyTorch release of the rest: source lines, wording or headers tell them apart.",
    ),
}

_Members = list[tuple[Process, Inferred]]


def find(job: Job) -> Iterator[Fact]:
    """One fact for each set of ranks whose releases have none in common with those of the most."""
    groups: list[_Members] = []
    ranked = [(process, inferred) for process, inferred in job.releases["torch"] if process.rank is not None]
    # exact ones first: a wide range fits several groups, and belongs to the first of them
    for member in sorted(ranked, key=lambda member: (len(member[1].releases), member[0].rank)):
        home = next((group for group in groups if common_releases("torch", [*group, member]) is not None), None)
        if home is None:
            groups.append([member])
        else:
            home.append(member)
    if len(groups) < 2:
        return
    expected, *odd = sorted(groups, key=lambda group: (-len(group), min(ranks_of([p for p, _ in group]))))
    most = common_releases("torch", expected)
    rest = [process for process, _ in expected]
    for group in odd:
        own = common_releases("torch", group)
        if own is None or most is None:
            continue
        members = [process for process, _ in group]
        yield Fact(
            "torch_releases_differ",
            {"version": str(own), "expected": str(most)},
            ranks_of(members),
            hosts_of(members),
            affected=ranks_of(rest),
            evidence=(*own.evidence[:2], *most.evidence[:2]),
        )
