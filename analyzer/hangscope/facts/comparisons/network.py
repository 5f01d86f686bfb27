"""Compares what carries the traffic: interface and its network, devices, NCCL's network, plugin, GPU Direct."""

from __future__ import annotations

import functools
import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts.comparisons.said import Holders, Said, compared
from hangscope.model import Comparison, Event

TOPIC = "network"
ORDER = 3

_BUILT_IN = ("Socket", "IB")
_ADDRESS_KINDS = ("bootstrap_interface", "net_interface", "ib_devices")
VIRTUAL = (
    "docker",
    "virbr",
    "br-",
    "veth",
    "lo",
    "cni",
    "flannel",
    "podman",
    "lxc",
    "lxdbr",
    "vmnet",
    "vboxnet",
    "cali",
    "tunl",
    "ip6tnl",
    "sit",
    "gre",
    "ip6gre",
    "erspan",
    "ip_vti",
    "cilium",
    "weave",
    "kube-",
    "nodelocaldns",
    "dummy",
)
"""Beginnings of the names of bridges and tunnels that end inside a host."""
_DEVICE = expression(r"(?<![\w.+\-])(?P<name>[A-Za-z][\w.+\-]*):(?P<port>\d+)/(?P<layer>[A-Za-z]+)")


def compare(job: Job) -> Iterator[Comparison]:
    """A comparison an aspect."""
    holders = Holders(job)
    found = (
        compared(TOPIC, "interface", _interfaces(holders), must_agree=any(map(is_virtual, chosen_interfaces(job)))),
        compared(TOPIC, "network of the interface", _networks(holders), must_agree=False),
        compare_devices(job),
        compared(TOPIC, "names of HCAs", _device_names(holders), must_agree=False),
        compared(TOPIC, "NCCL's network", holders.fields(job.events.of("network_chosen"), "network"), must_agree=True),
        compared(TOPIC, "network plugin", _plugins(holders), must_agree=True),
        compared(TOPIC, "GPU Direct RDMA", _gpu_direct(holders), must_agree=False),
    )
    yield from (comparison for comparison in found if comparison is not None)


def compare_devices(job: Job) -> Comparison | None:
    """How many devices for RDMA each host uses, and of which kind; hosts without any that say so count with none."""
    holders = Holders(job)
    said = [holders.of_host(host, _devices_text(event), event) for host, event in _devices(job).items()]
    none = {e.host: e for e in job.events.of("ib_no_device") if e.host}
    if said:
        known = {host for one in said for host in one.hosts}
        said += [holders.of_host(host, "none", event) for host, event in sorted(none.items()) if host not in known]
    return compared(TOPIC, "HCAs", said, must_agree=True)


@functools.lru_cache(1 << 12)
def network_of(address: str) -> str:
    """``10.20.x.x``: the first half of an IPv4 address, or the first four groups of an IPv6 address; "" for neither.

    Masks are in no log, and nodes of one cluster often sit in several /24.
    """
    bare = address.partition("%")[0]
    try:
        found = ipaddress.ip_address(bare)
    except ValueError:
        return ""
    if found.version == 4:
        return ".".join(bare.split(".")[:2]) + ".x.x"
    return str(ipaddress.ip_network(f"{found}/64", strict=False))


def chosen_interfaces(job: Job) -> list[Event]:
    """Each process's line about the interface of its bootstrap."""
    found: dict[int, Event] = {}
    for event in job.events.of(*_ADDRESS_KINDS):
        found.setdefault(id(job.process_of(event)), event)
    return list(found.values())


def is_virtual(event: Event) -> bool:
    """Whether the interface of such a line ends inside its host: a bridge of containers or machines, or loopback."""
    name, address = str(event.fields.get("interface", "")), str(event.fields.get("address", ""))
    return name.startswith(VIRTUAL) or address.startswith("127.") or address == "::1"


def _interfaces(holders: Holders) -> list[Said]:
    chosen = chosen_interfaces(holders.job)
    return [holders.of_process(holders.job.process_of(e), str(e.fields.get("interface", "")), e) for e in chosen]


def _networks(holders: Holders) -> list[Said]:
    said = ((e, network_of(str(e.fields.get("address", "")))) for e in chosen_interfaces(holders.job))
    return [holders.of_process(holders.job.process_of(e), network, e) for e, network in said if network]


def _devices(job: Job) -> dict[str, Event]:
    """Host -> its line with the devices for RDMA, the first one."""
    found: dict[str, Event] = {}
    for event in job.events.of("ib_devices"):
        if event.host and not event.line.damaged and _DEVICE.search(str(event.fields.get("devices", ""))):
            found.setdefault(event.host, event)
    return dict(sorted(found.items()))


def _devices_text(event: Event) -> str:
    """``8 IB``, ``4 IB, 1 RoCE``."""
    layers = Counter(found["layer"] for found in _DEVICE.finditer(str(event.fields.get("devices", ""))))
    return ", ".join(f"{count} {layer}" for layer, count in sorted(layers.items(), key=lambda one: (-one[1], one[0])))


def _device_names(holders: Holders) -> list[Said]:
    said = []
    for host, event in _devices(holders.job).items():
        names = sorted({found["name"] for found in _DEVICE.finditer(str(event.fields.get("devices", "")))})
        said.append(holders.of_host(host, " ".join(names), event))
    return said


_ABOUT_PLUGINS = ("net_plugin_loaded", "net_plugin_path", "net_plugin_absent", "network_chosen")


def find_plugins(job: Job) -> dict[int, tuple[str, Event]]:
    """Index of each process -> the external network plugin it loaded, or "none", and the line that says so.

    Processes that chose no network yet and looked for no plugin are left out.
    """
    told = job.events.of("net_plugin_loaded", "net_plugin_path")
    names = {str(name) for event in told if (name := event.fields.get("plugin")) not in (None, *_BUILT_IN)}
    found: dict[int, tuple[str, Event]] = {}
    for number, process in enumerate(job.processes):
        first: dict[str, Event] = {}
        for event in process.by_kind.of(*_ABOUT_PLUGINS):
            if event.kind != "net_plugin_loaded" or event.fields.get("plugin") not in _BUILT_IN:
                first.setdefault(event.kind, event)
        if (loaded := first.get("net_plugin_loaded")) is not None:
            found[number] = str(loaded.fields.get("plugin", "")), loaded
        elif (loading := first.get("net_plugin_path")) is not None:
            # what a plugin prints while it is loaded: its name stands in another line, which may be cut off
            name = min(names) if len(names) == 1 else str(loading.fields.get("path") or "external")
            found[number] = name, loading
        elif (without := first.get("net_plugin_absent") or first.get("network_chosen")) is not None:
            found[number] = "none", without
    return found


def _plugins(holders: Holders) -> list[Said]:
    processes = holders.job.processes
    return [holders.of_process(processes[n], name, event) for n, (name, event) in find_plugins(holders.job).items()]


def _gpu_direct(holders: Holders) -> list[Said]:
    """By host, of verbs devices: over sockets there is no GPU Direct anywhere."""
    states: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in holders.job.events.of("gpu_direct_hca"):
        if event.fields.get("network") == "IB" and event.host:
            states[event.host].setdefault(str(event.fields.get("state", "")).lower(), event)
    return [
        holders.of_host(host, " and ".join(sorted(by_state)), next(iter(by_state.values())))
        for host, by_state in sorted(states.items())
    ]
