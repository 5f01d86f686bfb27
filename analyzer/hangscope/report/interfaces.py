"""Picks the network interface that a command about interfaces can name."""

from __future__ import annotations

from collections import defaultdict

from hangscope.facts.comparisons.network import VIRTUAL
from hangscope.report.inputs import JobView
from hangscope.report.reach import is_name

_KINDS = ("bootstrap_interface", "net_interface", "ib_devices")
_NOT_ROUTED = ("127.", "169.254.", "::1", "fe80:")


def common_interface(job: JobView) -> str | None:
    """The interface that NCCL was seen to use on every host of the job; None when no line shows one, or they differ.

    Bridges, loopback and addresses that no router passes on are no such interface.

    Args:
        job: the aligned job; NCCL's lines "Bootstrap : Using eth0:10.0.0.1<0>" and "NET/Socket : Using [0]eth0:..."
            name interfaces.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    for process in job.processes:
        for event in process.by_kind.of(*_KINDS):
            name, address = event.fields.get("interface"), str(event.fields.get("address", ""))
            if not event.host or not isinstance(name, str) or not is_name(name):
                continue
            if not name.startswith(VIRTUAL) and not address.startswith(_NOT_ROUTED):
                seen[name].add(event.host)
    everywhere = [name for name, hosts in seen.items() if hosts >= set(job.hosts)]
    return everywhere[0] if len(everywhere) == 1 else None
