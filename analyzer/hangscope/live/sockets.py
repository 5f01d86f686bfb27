"""Lists the TCP sockets of processes, in the form that ``ss -tanp`` prints."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from hangscope.expressions import expression
from hangscope.live import procfs
from hangscope.records import dataclass

_STATES = {
    "01": "ESTAB", "02": "SYN-SENT", "03": "SYN-RECV", "04": "FIN-WAIT-1", "05": "FIN-WAIT-2", "06": "TIME-WAIT",
    "07": "UNCONN", "08": "CLOSE-WAIT", "09": "LAST-ACK", "0A": "LISTEN", "0B": "CLOSING",
}  # fmt: skip
_SOCKET = expression(r"socket:\[(\d+)\]")
_HEAD = f"{'State':<10} {'Recv-Q':>6} {'Send-Q':>6} {'Local Address:Port':>28} {'Peer Address:Port':>28} Process"


@dataclass(frozen=True, slots=True)
class Socket:
    """A TCP socket; ``owners`` are (process name, pid, descriptor)."""

    state: str
    received: int
    unsent: int
    local: tuple[str, int]
    peer: tuple[str, int]
    inode: int
    owners: tuple[tuple[str, int, int], ...] = ()


def sockets_of(pids: Mapping[int, str]) -> list[Socket]:
    """The sockets of these processes (pid -> name), listening ones first.

    They are read from the first process that shows them: all processes of a container share their network.
    """
    owners: dict[int, list[tuple[str, int, int]]] = {}
    for pid, name in pids.items():
        for descriptor, target in (procfs.open_files(pid) or {}).items():
            found = _SOCKET.fullmatch(target)
            if found:
                owners.setdefault(int(found[1]), []).append((name, pid, descriptor))
    known: dict[int, Socket] = {}
    for pid in pids:
        if owners and not set(owners) <= set(known):
            for one in _read_table(pid):
                if one.inode in owners and one.inode not in known:
                    known[one.inode] = one
        if len(known) > 0 and same_network(pid):
            break
    listed = [
        Socket(one.state, one.received, one.unsent, one.local, one.peer, one.inode, tuple(owners[one.inode]))
        for one in known.values()
    ]
    return sorted(listed, key=lambda one: (one.state != "LISTEN", one.owners, one.local, one.peer))


def format_sockets(sockets: Iterable[Socket]) -> str:
    """The table that ``ss -tanp`` would print."""
    lines = [_HEAD]
    for one in sockets:
        users = ",".join(f'("{name}",pid={pid},fd={descriptor})' for name, pid, descriptor in one.owners)
        lines.append(
            f"{one.state:<10} {one.received:>6} {one.unsent:>6} {_address(one.local):>28} {_address(one.peer):>28} "
            f"users:({users})"
        )
    return "\n".join([*lines, ""])


def same_network(pid: int) -> bool:
    """Whether the process sees the same network as we do: then every other process of the host was in its table."""
    here = procfs.PROC / "self/ns/net"
    there = procfs.PROC / str(pid) / "ns/net"
    try:
        return here.stat().st_ino == there.stat().st_ino
    except OSError:
        return False


def _read_table(pid: int) -> Iterable[Socket]:
    for name in ("tcp", "tcp6"):
        text = procfs.read_text(procfs.PROC / str(pid) / "net" / name, 64 << 20) or ""
        for line in text.splitlines()[1:]:
            one = _parse(line.split())
            if one is not None:
                yield one


def _parse(fields: list[str]) -> Socket | None:
    """``sl local rem st tx:rx ...  inode`` (proc(5), tcp_diag)."""
    if len(fields) < 10:
        return None
    try:
        unsent, _, received = fields[4].partition(":")
        return Socket(
            state=_STATES.get(fields[3], fields[3]),
            received=int(received, 16),
            unsent=int(unsent, 16),
            local=_endpoint(fields[1]),
            peer=_endpoint(fields[2]),
            inode=int(fields[9]),
        )
    except ValueError:
        return None


def _endpoint(text: str) -> tuple[str, int]:
    """``0100007F:7164``: the address in words of four bytes, each in the machine's order."""
    address, _, port = text.partition(":")
    data = bytes.fromhex(address)
    turned = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    parsed = ipaddress.ip_address(turned)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return str(parsed), int(port, 16)


def _address(endpoint: tuple[str, int]) -> str:
    host, port = endpoint
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port or '*'}"
