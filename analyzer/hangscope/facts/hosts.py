"""Facts about hosts that NCCL cannot tell apart, and about what some hosts have and others lack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.majority import ranks_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "host_name_shared": FactKind(
        ("name", "addresses"),
        "Processes of one host name have different addresses on one interface: several machines share the name.",
    ),
    "gpu_direct_differs": FactKind(("state", "device"), "GPU Direct RDMA is off on some hosts and on for the others."),
}


def find(job: Job) -> Iterator[Fact]:
    """Facts about shared names, then about GPU Direct."""
    yield from _shared_names(job)
    yield from _gpu_direct(job)


def _shared_names(job: Job) -> Iterator[Fact]:
    seen: dict[tuple[str, str], dict[str, Event]] = defaultdict(dict)
    for event in job.events.of("bootstrap_interface", "net_interface", "ib_devices"):
        address = str(event.fields.get("address", ""))
        if event.host and ":" not in address:
            seen[event.host, str(event.fields.get("interface", ""))].setdefault(address, event)
    for (name, interface), by_address in sorted(seen.items()):
        if len(by_address) > 1:
            addresses = tuple(sorted(by_address))
            lines = tuple(evidence_of(e, f"{name} has {a} on {interface}") for a, e in sorted(by_address.items())[:6])
            fields: dict[str, Value] = {"name": name, "addresses": addresses}
            yield Fact("host_name_shared", fields, hosts=(name,), evidence=lines)


def _gpu_direct(job: Job) -> Iterator[Fact]:
    """Of the verbs devices only: over sockets there is no GPU Direct anywhere."""
    off: dict[str, Event] = {}
    on: dict[str, Event] = {}
    for event in job.events.of("gpu_direct_hca"):
        if event.fields.get("network") == "IB" and event.host:
            (on if event.fields.get("state") == "Enabled" else off).setdefault(event.host, event)
    lacking = sorted(set(off) - set(on))
    if not lacking or not on:
        return
    lines = [evidence_of(off[host], "off here") for host in lacking[:4]]
    lines += [evidence_of(event, "on here") for _, event in sorted(on.items())[:2]]
    members = [p for p in job.processes if p.host in lacking]
    fields: dict[str, Value] = {"state": "Disabled", "device": str(off[lacking[0]].fields.get("device", ""))}
    yield Fact("gpu_direct_differs", fields, ranks=ranks_of(members), hosts=tuple(lacking), evidence=tuple(lines))
