"""Facts about interfaces and addresses that cannot reach each other."""

from __future__ import annotations

import functools
import ipaddress
from collections import defaultdict
from collections.abc import Callable, Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.comparisons.network import chosen_interfaces, is_virtual, network_of
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.model import Event, Fact, Value

_FIELDS = ("interface", "address", "expected")
KINDS = {
    "interface_is_virtual": FactKind(
        (*_FIELDS, "seen_on"), "A host of a job with several hosts uses an interface that ends inside that host."
    ),
    "interface_is_link_local": FactKind(
        (*_FIELDS, "seen_on"), "A host of a job with several hosts uses an address that no router passes on."
    ),
    "address_shared": FactKind(
        ("interface", "address", "seen_on"), "Several hosts say that they have one address, on an interface as others."
    ),
    "address_family_differs": FactKind(_FIELDS, "Some hosts use IPv4, others IPv6."),
    "interface_subnet_differs": FactKind(_FIELDS, "Hosts use interfaces of different names and different networks."),
    "address_block_differs": FactKind(
        _FIELDS, "Hosts use addresses of different blocks (10., 172.16., 192.168., public) on an interface of one name."
    ),
}
_BLOCKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")


def find(job: Job) -> Iterator[Fact]:
    """What the interfaces that the hosts chose have against each other; nothing for a job of one host."""
    chosen = chosen_interfaces(job)
    if len({event.host for event in chosen if event.host}) < 2:
        return
    within, local, usual = _sorted_out(chosen)
    yield from _unreachable(job, "interface_is_virtual", within, usual)
    yield from _unreachable(job, "interface_is_link_local", local, usual)
    yield from _shared(job, usual)
    yield from _families(job, usual)
    yield from _subnets(job, usual)


def _unreachable(job: Job, kind: str, odd: list[Event], usual: list[Event]) -> Iterator[Fact]:
    """Interfaces that others cannot reach: on some hosts against others, or everywhere."""
    expected = _interface(usual[0]) if usual else ""
    by_choice: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in odd:
        by_choice[_interface(event), _address(event)].append(event)
    affected = ranks_of([job.process_of(event) for event in usual])
    why = "ends inside this host" if kind == "interface_is_virtual" else "has an address that no router passes on"
    for (interface, address), events in sorted(by_choice.items()):
        members = [job.process_of(event) for event in events]
        lines = [evidence_of(event, f"{interface} {why}") for event in _one_a_host(events)[:4]]
        lines += [evidence_of(event, "this setting chose it") for event in _settings_of(members)[:2]]
        lines += [evidence_of(event, "this host uses an interface that others can reach") for event in usual[:2]]
        on = hosts_of(members)
        fields: dict[str, Value] = {"interface": interface, "address": address, "expected": expected, "seen_on": on}
        ranks, hosts = (ranks_of(members), on) if usual else ((), ())
        yield Fact(kind, fields, ranks=ranks, hosts=hosts, affected=affected, evidence=tuple(lines))


def _one_a_host(events: list[Event]) -> list[Event]:
    """The first line of each host, then the others."""
    first: dict[str | None, Event] = {}
    for event in events:
        first.setdefault(event.host, event)
    return [*first.values(), *(event for event in events if first[event.host] is not event)]


def _settings_of(processes: list[Process]) -> list[Event]:
    return [
        event
        for process in processes
        for event in process.by_kind.of("nccl_setting")
        if event.fields.get("name") == "NCCL_SOCKET_IFNAME"
    ]


def _sorted_out(chosen: list[Event]) -> tuple[list[Event], list[Event], list[Event]]:
    """Interfaces that end inside their host, those with an address that no router passes on, and the others.

    Such an address is 169.254.x.x, or fe80:: when others have one that is routed; on one cable fe80:: works for all.
    """
    addresses = [_parsed(event) for event in chosen]
    is_v6_routed = any(
        a is not None and a.version == 6 and not a.is_link_local and not a.is_loopback for a in addresses
    )
    within: list[Event] = []
    local: list[Event] = []
    usual: list[Event] = []
    for event, address in zip(chosen, addresses, strict=True):
        is_local = address is not None and address.is_link_local and (address.version == 4 or is_v6_routed)
        (within if is_virtual(event) else local if is_local else usual).append(event)
    return within, local, usual


def _shared(job: Job, usual: list[Event]) -> Iterator[Fact]:
    """One address on several hosts: network namespaces, cloned machines, bridges with names of one's own."""
    by_address: dict[str, list[Event]] = defaultdict(list)
    for event in usual:
        if _parsed(event) is not None:
            by_address[_address(event)].append(event)
    for address, events in sorted(by_address.items()):
        on = hosts_of([job.process_of(event) for event in events])
        if len(on) > 1:
            lines = tuple(evidence_of(event, f"{address} is this host's, too") for event in _one_a_host(events)[:6])
            fields: dict[str, Value] = {"interface": _interface(events[0]), "address": address, "seen_on": on}
            yield Fact("address_shared", fields, evidence=lines)


def _families(job: Job, usual: list[Event]) -> Iterator[Fact]:
    yield from _parted(job, usual, "address_family_differs", lambda e: f"IPv{a.version}" if (a := _parsed(e)) else "")


def _subnets(job: Job, usual: list[Event]) -> Iterator[Fact]:
    """Interfaces of different names in different networks; nodes in several subnets with one name are usual.

    The mask is in no line: with one name, only addresses of different blocks are worth a word.
    """
    with_network = [event for event in usual if _is_v4(event)]
    names = {_interface(event) for event in with_network}
    if len(names) > 1 and len({network_of(_address(event)) for event in with_network}) > 1:
        yield from _parted(job, with_network, "interface_subnet_differs", _place)
    elif len(names) == 1:
        yield from _parted(job, with_network, "address_block_differs", _block)


def _parted(job: Job, events: list[Event], kind: str, side_of: Callable[[Event], str]) -> Iterator[Fact]:
    """One fact for each side that is not that of most hosts; with as many hosts on both sides nobody is blamed."""
    sides: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if side := side_of(event):
            sides[side].append(event)
    if len(sides) < 2:
        return
    hosts_in = {side: {event.host for event in members} for side, members in sides.items()}
    expected, *odd = sorted(sides, key=lambda side: (-len(hosts_in[side]), side))
    for side in odd:
        members = [job.process_of(event) for event in sides[side]]
        is_clear = len(hosts_in[expected]) > len(hosts_in[side])
        lines = [evidence_of(event, side) for event in sides[side][:3]]
        lines += [evidence_of(event, expected) for event in sides[expected][:3]]
        first, other = sides[side][0], sides[expected][0]
        said = _interface(other) if kind == "interface_subnet_differs" else f"{_interface(other)} ({_address(other)})"
        fields: dict[str, Value] = {"interface": _interface(first), "address": _address(first), "expected": said}
        ranks, hosts = (ranks_of(members), hosts_of(members)) if is_clear else ((), ())
        yield Fact(kind, fields, ranks=ranks, hosts=hosts, evidence=tuple(lines))


def _place(event: Event) -> str:
    return f"{_interface(event)}, network {network_of(_address(event))}"


def _block(event: Event) -> str:
    address = _parsed(event)
    return next((block for block in _BLOCKS if address in ipaddress.ip_network(block)), "public") if address else ""


def _interface(event: Event) -> str:
    return str(event.fields.get("interface", ""))


def _address(event: Event) -> str:
    return str(event.fields.get("address", ""))


def _is_v4(event: Event) -> bool:
    address = _parsed(event)
    return address is not None and address.version == 4


def _parsed(event: Event) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address; None for one that is redacted or cut."""
    return _read(_address(event).partition("%")[0])


@functools.lru_cache(1 << 12)
def _read(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    # the ranks of a host have one address, and a dozen questions are asked about it
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None
