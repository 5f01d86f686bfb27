"""Facts about InfiniBand and RoCE errors: what the numbers mean, and which host they accuse (`codes/verbs.toml`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.codes.verbs import mlx5_status, status_of, vendor_words
from hangscope.facts.collect import evidence_of
from hangscope.facts.majority import ranks_of
from hangscope.model import Event, Fact, Value

_FIELDS = ("status", "name", "meaning", "vendor_err", "vendor", "peer", "hca", "accused", "usual", "check", "between")

KINDS = {
    "ib_first_error": FactKind(
        _FIELDS,
        "The first completion error of a status that is no flush; its hosts are those the status accuses. `vendor` "
        "says what the vendor's number adds, as a sentence; `between` names the two hosts of its first line.",
    ),
    "ib_flush_only": FactKind(_FIELDS, "Only flushed requests were reported: the error before them is not shown."),
    "mlx5_completion_dump": FactKind(
        ("said_host", "vendor_err", "syndrome"), "The mlx5 library dumped a completion with an error (parse/blocks)."
    ),
}
_FLUSH = 5
_DEVICES = expression(r"\[\d+\](\w+)")
_SIDES = {
    "own": "the host that prints it",
    "peer": "the peer's host",
    "path": "the path between the two hosts",
    "nobody": "nobody",
}


def find(job: Job) -> Iterator[Fact]:
    """One fact a status, flushes only when there is nothing else."""
    by_status: dict[int, list[Event]] = defaultdict(list)
    for event in job.events.of("ib_completion_error", "mlx5_completion_dump"):
        status = _status(event)
        if status is not None:
            by_status[status].append(event)
    flushed = by_status.pop(_FLUSH, [])
    for status, events in sorted(by_status.items()):
        yield _error(job, "ib_first_error", status, events)
    if flushed and not by_status:
        yield _error(job, "ib_flush_only", _FLUSH, flushed)


def _status(event: Event) -> int | None:
    syndrome = event.fields.get("syndrome")
    status = mlx5_status(syndrome) if isinstance(syndrome, int) else event.fields.get("status")
    return status if isinstance(status, int) else None


def _error(job: Job, kind: str, number: int, events: list[Event]) -> Fact:
    # NCCL's line tells the peer and the device, mlx5's dump does not
    events = sorted(events, key=lambda event: event.kind == "mlx5_completion_dump")
    first = events[0]
    status = status_of(number)
    hosts: tuple[str, ...] = ()
    if status.accuses == "own":
        hosts = tuple(sorted({host for event in events if (host := _speaker(event))}))
    elif status.accuses != "nobody":
        hosts = _common_peer(job, events)
    code = first.fields.get("vendor_err")
    here, there = _speaker(first), first.fields.get("peer")
    fields: dict[str, Value] = {
        "status": number,
        "name": f"IBV_WC_{status.name}" if status.name else None,
        "meaning": status.meaning,
        "vendor_err": code,
        "vendor": _vendor_note(job, first, number) if isinstance(code, int) else None,
        "peer": first.fields.get("peer"),
        "hca": first.fields.get("hca"),
        "accused": _accused(job, status.accuses, events),
        "usual": status.usual,
        "check": _filled(status.check, first),
        "between": f"between {here} and {there}" if here and there else None,
    }
    lines = tuple(evidence_of(event, status.meaning) for event in events[:8])
    times = [event.time for event in events if event.time is not None]
    return Fact(kind, fields, hosts=hosts, affected=_ranks(job, events), time=min(times, default=None), evidence=lines)


def _accused(job: Job, side: str, events: list[Event]) -> str:
    """Whom a status accuses; a peer that reports no error itself may be dead, while two that do share a bad path."""
    silent = sorted(_peers(job, events) & set(job.hosts) - {event.host for event in events})
    if side != "path" or not silent:
        return _SIDES[side]
    return f"{_SIDES[side]}, or {', '.join(silent)}, where no such error is reported"


def _vendor_note(job: Job, event: Event, status: int) -> str:
    code = int(str(event.fields["vendor_err"]))
    return vendor_words(code, status, _device(job, event)) or f"Vendor error {code} is the adapter's own number."


def _filled(check: str, event: Event) -> str:
    """A check with device and peer in place of DEVICE and HOST, where the line names them."""
    for hole, field in (("DEVICE", "hca"), ("HOST", "peer")):
        check = check.replace(hole, str(event.fields.get(field) or hole))
    return check


def _device(job: Job, event: Event) -> str:
    """The adapter's name; that of the others' lines when all have the same family, "" when nobody says."""
    if event.kind == "mlx5_completion_dump":
        return "mlx5"
    if hca := event.fields.get("hca"):
        return str(hca)
    names = set(_DEVICES.findall(" ".join(str(e.fields.get("devices", "")) for e in job.events.of("ib_devices"))))
    names |= {str(e.fields["device"]) for e in job.events.of("ib_async_event") if e.fields.get("device")}
    families = {name.partition("_")[0] for name in names}
    return min(names) if len(families) == 1 else ""


def _speaker(event: Event) -> str | None:
    said = event.fields.get("said_host")
    return str(said) if said else event.host


def _common_peer(job: Job, events: list[Event]) -> tuple[str, ...]:
    """The host that all complaints name, when they come from two hosts or more; one complaint alone accuses nobody."""
    peers = _peers(job, events)
    witnesses = {event.host for event in events}
    known = {host for host in peers if host in job.hosts}
    return tuple(str(host) for host in known) if len(peers) == len(known) == 1 and len(witnesses) > 1 else ()


def _peers(job: Job, events: list[Event]) -> set[str]:
    """The hosts that complaints name, as far as their addresses are known; else what stands before the first dot."""
    addresses = {
        str(event.fields.get("address", "")): event.host
        for event in job.events.of("bootstrap_interface", "ib_devices")
        if event.host
    }
    return {addresses.get(peer := str(event.fields.get("peer", "")), peer.split(".", 1)[0]) for event in events}


def _ranks(job: Job, events: list[Event]) -> tuple[int, ...]:
    return ranks_of([job.process_of(event) for event in events])
