"""Facts about machines that NCCL takes for one host, by the GPUs that it joins by peer-to-peer access there.

A process prints the edges of its channels as ``rank[GPU] -> rank[GPU] via P2P/...`` (2.3.5 to 2.32.3; the GPU is an
index, from 2.5 to 2.18 a bus id). No two ranks of one host have the same GPU: NCCL refuses that. Two that have are of
two hosts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "gpu_in_two_hosts": FactKind(
        ("gpu", "first_rank", "second_rank"),
        "Within what NCCL takes for one host, two ranks are joined by peer-to-peer access and have the same GPU.",
    ),
}

_ENDS = (("source", "source_dev"), ("target", "target_dev"))


def find(job: Job) -> Iterator[Fact]:
    """One fact a host name, with the first GPU that two ranks have."""
    by_host: dict[str, dict[int, dict[str, Event]]] = defaultdict(lambda: defaultdict(dict))
    printed_by: dict[object, set[tuple[str, int | None]]] = defaultdict(set)
    known: set[tuple[object, ...]] = set()
    for event in job.events.of("channel_edge"):
        fields = event.fields
        if str(fields.get("transport", "")).startswith("P2P") and (host := event.host):
            # the channels of a pair are alike, and there are dozens
            edge = host, event.line.pid, *map(fields.get, ("source", "source_dev", "target", "target_dev"))
            if edge in known:
                continue
            known.add(edge)
            printed_by[fields.get("source")].add((host, event.line.pid))
            for end, device in _ENDS:
                rank, gpu = fields.get(end), fields.get(device)
                if isinstance(rank, int) and gpu is not None:
                    by_host[host][rank].setdefault(str(gpu), event)
    if any(len(processes) > 1 for processes in printed_by.values()):
        # the source of an edge prints it: a rank of two processes is one of two jobs, or of two attempts
        return
    for host, ranks in sorted(by_host.items()):
        yield from _doubled(host, ranks)


def _doubled(host: str, ranks: dict[int, dict[str, Event]]) -> Iterator[Fact]:
    # A rank on two GPUs belongs to two communicators, and a process that sees one GPU only calls it 0.
    if any(len(gpus) > 1 for gpus in ranks.values()) or len({gpu for gpus in ranks.values() for gpu in gpus}) < 2:
        return
    holders: dict[str, dict[int, Event]] = defaultdict(dict)
    for rank, gpus in ranks.items():
        for gpu, event in gpus.items():
            holders[gpu][rank] = event
    for gpu, found in sorted(holders.items()):
        if len(found) > 1:
            (first, one), (second, other) = sorted(found.items())[:2]
            fields: dict[str, Value] = {"gpu": gpu, "first_rank": first, "second_rank": second}
            lines = (evidence_of(other, f"rank {second} has GPU {gpu}"), evidence_of(one, f"rank {first} has it too"))
            yield Fact("gpu_in_two_hosts", fields, hosts=(host,), evidence=lines)
            return
