"""Facts about bridges of containers and virtual machines among the interfaces that carry NCCL's data.

NCCL leaves out loopback and docker* when it finds anything else, but no other bridge (2.3.5 to 2.32.3): it spreads its
connections over all interfaces it lists, and those of a bridge end inside the host.
"""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.comparisons.network import VIRTUAL
from hangscope.model import Event, Fact, Value

KINDS = {
    "bridges_offered": FactKind(
        ("bridges", "usable"),
        "NCCL lists bridges next to an interface that other hosts can reach, its connections between ranks go over "
        "sockets, and nothing says that they came about.",
    ),
    "bridge_dialled": FactKind(
        ("peer", "bridge", "error"), "A connection to the address of a bridge, which every host has for itself, failed."
    ),
}
_LISTED = expression(r"\[\d+\](?P<name>[^\s:<>\[\]]+):(?P<address>[^\s<>]+)<\d+>")
_OWN_END = expression(r"veth\d")
# Networks that Docker and libvirt give to their first bridge; the MAC addresses of Docker begin with 02:42.
_USUAL = (("172.17.", "docker0"), ("192.168.122.", "virbr0"), ("fe80::42:", "docker0"))
_FAILED = ("connect_failed", "connect_retries_used_up", "connect_unanswered")


def find(job: Job) -> Iterator[Fact]:
    """Bridges among the listed interfaces first, then addresses of bridges that somebody dialled."""
    listed = [
        (found["name"], found["address"], event)
        for event in job.events.of("socket_interfaces")
        for found in _LISTED.finditer(str(event.fields.get("interfaces", "")))
    ]
    bridges = {address: (name, event) for name, address, event in listed if _ends_inside(name)}
    usable = {name: event for name, _, event in listed if not _ends_inside(name)}
    yield from _offered(job, bridges, usable)
    yield from _dialled(job, {address: name for address, (name, _) in bridges.items()})


def _ends_inside(name: str) -> bool:
    """Whether an interface is a bridge, by its name; veth0 is how a container calls its own way out."""
    return name.startswith(VIRTUAL) and not _OWN_END.fullmatch(name)


def _offered(job: Job, bridges: dict[str, tuple[str, Event]], usable: dict[str, Event]) -> Iterator[Fact]:
    if not bridges or not usable or job.events.has("connected"):
        return
    edges = [e for e in job.events.of("channel_edge") if str(e.fields.get("transport", "")).startswith("NET/Socket")]
    failed = job.events.of(*_FAILED)
    if not edges and not failed:
        return
    names = tuple(sorted({name for name, _ in bridges.values()}))
    lines = [evidence_of(event, f"{name} ends inside this host") for name, event in list(bridges.values())[:3]]
    lines += [evidence_of(event, "a connection between ranks over one of them") for event in edges[:3]]
    lines += [evidence_of(event, "it did not come about") for event in failed[:2]]
    hosts = tuple(sorted({event.host for _, event in bridges.values() if event.host}))
    fields: dict[str, Value] = {"bridges": names, "usable": min(usable)}
    yield Fact("bridges_offered", fields, hosts=hosts, evidence=tuple(lines))


def _dialled(job: Job, known: dict[str, str]) -> Iterator[Fact]:
    seen: set[str] = set()
    for event in job.events.of(*_FAILED):
        peer = str(event.fields.get("peer") or "")
        bridge = known.get(peer) or _bridge_of(peer)
        if not bridge or peer in seen:
            continue
        seen.add(peer)
        fields: dict[str, Value] = {
            "peer": peer,
            "bridge": bridge,
            "error": str(event.fields.get("error") or "no answer"),
        }
        line = evidence_of(event, f"{peer} belongs to a bridge that every host has for itself")
        yield Fact("bridge_dialled", fields, time=event.time, evidence=(line,))


def _bridge_of(address: str) -> str:
    bare, _, scope = address.partition("%")
    if _ends_inside(scope):
        return scope
    return next((name for beginning, name in _USUAL if bare.startswith(beginning)), "")
