"""Facts about errors on their way up through NCCL ("misc/socket.cc:58 (socketProgress) -> 6")."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.model import Event, Fact

KINDS = {
    "nccl_error_chain": FactKind(
        ("source_file", "source_line", "function", "code"),
        "An error went up through a process's NCCL; where its chain begins (not that of a missing InfiniBand).",
    ),
}
_INTERNAL_ERROR = 3
_FIELDS = ("source_file", "source_line", "function", "code")
_MOST_LINES = 6


def find(job: Job) -> Iterator[Fact]:
    """One fact a process, of its first chain."""
    for process in job.processes:
        chain = [event for event in process.events if event.kind == "error_arrow" and not is_harmless(event)]
        if chain:
            yield Fact(
                "nccl_error_chain",
                {name: chain[0].fields[name] for name in _FIELDS if name in chain[0].fields},
                ranks=ranks_of([process]),
                hosts=hosts_of([process]),
                time=chain[0].time,
                evidence=tuple(evidence_of(event) for event in chain[:_MOST_LINES]),
            )


def is_harmless(arrow: Event) -> bool:
    """Whether it is of the chain that NCCL 2.28 to 2.30 print at every start where there is no InfiniBand.

    It ends in net_ib ("transport/net_ib.cc:852 -> 3", "transport/net_ib/init.cc:526 (ncclIbInit) -> 3"): NCCL goes on
    with sockets. Where InfiniBand is there and fails, the chain has another code, or goes on through other files.
    """
    return "net_ib" in str(arrow.fields.get("source_file", "")) and arrow.fields.get("code") == _INTERNAL_ERROR
