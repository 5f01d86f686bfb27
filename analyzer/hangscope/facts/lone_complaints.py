"""The fact that one rank, or the ranks of one host, alone warned of something or reported an error."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.comparisons import messages
from hangscope.model import Fact
from hangscope.parse.complaints import KIND

KINDS = {
    KIND: FactKind(("template",), "A warning or an error that no grammar knows; words with digits are # in it."),
    "lone_complaint": FactKind(
        ("template",), "A warning or an error, known or not, that one rank or host of many alone printed."
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """One fact a wording, errors first."""
    for comparison in messages.compare(job):
        printed, others = comparison.values
        evidence = () if printed.evidence is None else (printed.evidence,)
        fields = {"template": comparison.aspect}
        yield Fact("lone_complaint", fields, printed.ranks, printed.hosts, affected=others.ranks, evidence=evidence)
