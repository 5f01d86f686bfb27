"""Facts about connections: who cannot reach, resolve or open the store, which peers are unreachable, who left first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.align.world import size_in
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.addresses import host_part, is_loopback, is_malformed, is_numeric_name
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "name_never_resolved": FactKind(
        ("store_host", "error", "numeric", "sure"),
        "A process could not resolve the store's name and came no further; `sure` = again and again, or it gave up.",
    ),
    "store_never_answered": FactKind(
        ("store_host", "store_port", "errno", "error", "own_host_too", "gave_up"),
        "A process never reached the store's address; `gave_up` = it says so, else it still tries.",
    ),
    "port_taken_for_good": FactKind(
        ("port",), "A process could not open its store: the port belongs to another process."
    ),
    "store_gone": FactKind(("error",), "A process lost the store it was connected to."),
    "peer_on_loopback": FactKind(("peer",), "A rank looks for a peer of another host on its own loopback interface."),
    "peer_on_foreign_subnet": FactKind(
        ("peer", "local"), "A rank cannot connect to a peer that published an address of another network."
    ),
    "peer_unreachable": FactKind(("peer", "error"), "A rank cannot connect to a peer's data port."),
    "rank_left_early": FactKind(("last_words",), "A rank ended normally while its peers still needed it."),
}

_CONNECT_FAILURES = (
    "client_connect_timeout",
    "client_no_address",
    "client_connect_retry",
    "rendezvous_connection_failed",
)
_RETRIES = ("client_connect_failed", "server_not_listening")
_RETRYING = expression(r"(?:client|server) socket (?:has|on)|is listening yet")
_BIND_FAILURES = ("server_listen_failed", "server_bind_failed", "server_no_address", "port_taken")
_LOSSES = ("store_connection_lost", "store_closed", "store_check_failed", "store_call_failed")
_BROKEN = expression(r"[Cc]onnection (?:was )?(?:\w+ )?(?:reset|closed)|[Bb]roken pipe|got 0 bytes|not connected")
_PEER_LOSSES = ("gloo_peer_closed", "gloo_read_error", *_LOSSES)
_FAULTS = frozenset(
    {
        *_PEER_LOSSES,
        *_CONNECT_FAILURES,
        *_BIND_FAILURES,
        "watchdog_timeout",
        "gloo_wait_timeout",
        "clients_missing",
        "exception",
    }
    | {"worker_failed", "watchdog_thread_ended", "gloo_mesh_failed", "env_missing"}
)
_ADDRESS_IN_USE, _NO_SUCH_FAMILY = 98, 97
_GIVE_UP_COUNT = 3

LEAVING = expression(
    r"\b(?:finished|complete[d]?|done|leaving|exiting|saved|bye|end(?:ed)? of (?:training|run|epoch)|"
    r"out of data|no more (?:data|batches|work)|"
    r"exhausted|shutting down|success(?:ful(?:ly)?)?|all steps)\b",
    re.IGNORECASE,
)
_UNHAPPY = expression(r"\b(?:error|fail(?:ed|ure)?|exception|timed? ?out|abort|traceback|warning|not)\b", re.IGNORECASE)


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    yield from _names(job)
    yield from _store_silent(job)
    yield from _ports(job)
    yield from _store_gone(job)
    yield from _peers(job)
    yield from _left_early(job)


def _by_process(job: Job, kinds: Iterable[str]) -> list[tuple[Process, list[Event]]]:
    found: dict[int, tuple[Process, list[Event]]] = {}
    for event in job.events.of(*kinds):
        process = job.process_of(event)
        found.setdefault(id(process), (process, []))[1].append(event)
    for _, events in found.values():
        events.sort(key=lambda event: (event.line.file, event.line.number))
    return list(found.values())


def _fact(kind: str, process: Process, events: list[Event], fields: dict[str, Value], why: str = "") -> Fact:
    first = events[0]
    rank = first.rank if first.rank is not None else process.rank
    return Fact(
        kind,
        fields,
        ranks=() if rank is None else (rank,),
        hosts=() if first.host is None else (first.host,),
        time=next((event.time for event in events if event.time is not None), None),
        evidence=tuple(evidence_of(event, why) for event in _spread(events)),
    )


def _spread(events: list[Event]) -> list[Event]:
    """The first of each kind, then the last lines: what it began with and what it ended in."""
    firsts = list({event.kind: event for event in reversed(events)}.values())
    return [*firsts, *(event for event in events[-2:] if not any(event is first for first in firsts))][:6]


def _names(job: Job) -> Iterator[Fact]:
    """One or two such lines and then progress are a harmless IPv6 look-up; again and again, or last, they are not."""
    for process, events in _by_process(job, ("name_unresolved",)):
        names = [event for event in events if not is_malformed(str(event.fields.get("store_host", "")))]
        if not names or any(event.kind == "client_connected" for event in process.events):
            continue
        host = str(names[0].fields.get("store_host"))
        given_up = any(e.kind in _CONNECT_FAILURES and e.fields.get("store_host") == host for e in process.events)
        times = sum(event.count for event in names)
        last = max((e.line.number for e in process.events if e.line.file == names[-1].line.file), default=0)
        if given_up or times >= _GIVE_UP_COUNT or names[-1].line.number >= last:
            yield _fact(
                "name_never_resolved",
                process,
                names,
                {
                    "store_host": host,
                    "error": names[0].fields.get("error"),
                    "numeric": False,
                    "sure": given_up or times >= _GIVE_UP_COUNT,
                },
            )
    for process, events in _by_process(job, ("client_no_address", "client_connect_timeout")):
        numeric = [e for e in events if is_numeric_name(str(e.fields.get("store_host", "")))]
        if numeric:
            zero = [
                e
                for e in process.events
                if e.kind == "client_connect_failed"
                and ".".join(host_part(str(e.fields.get("address"))).split(":")[-1:]).startswith("0.")
            ]
            host = str(numeric[0].fields.get("store_host"))
            yield _fact(
                "name_never_resolved",
                process,
                [*numeric, *zero[:1]],
                {"store_host": host, "error": "a name of digits is read as a number", "numeric": True, "sure": True},
            )


def _store_silent(job: Job) -> Iterator[Fact]:
    """Connecting failed for good, to an address that is one, resolves, and is not the machine itself."""
    for process, events in _by_process(job, _CONNECT_FAILURES):
        named = [e for e in events if e.fields.get("store_host")]
        if any(
            event.kind == "client_connected" and event.line.number > events[-1].line.number for event in process.events
        ):
            continue
        if any(e.kind == "name_unresolved" for e in process.events) and not any(
            e.kind == "client_connect_failed" for e in process.events
        ):
            continue
        host = str(named[0].fields.get("store_host")) if named else ""
        if (is_malformed(host) and named) or is_numeric_name(host) or (is_loopback(host) and len(job.hosts) > 1):
            continue
        refused = [e for e in process.events if e.kind == "client_connect_failed"]
        reason = refused[-1] if refused else None
        fields: dict[str, Value] = {
            "store_host": host or None,
            "store_port": named[0].fields.get("store_port") if named else None,
            "errno": reason.fields.get("errno") if reason else None,
            "error": reason.fields.get("error") if reason else None,
            "own_host_too": process.host is not None and process.host == host,
            "gave_up": True,
        }
        yield _fact("store_never_answered", process, [*refused[:2], *events], fields)
    yield from _still_trying(job)


def _still_trying(job: Job) -> Iterator[Fact]:
    """Processes whose last word is that they try to connect again."""
    for process, tries in _by_process(job, _RETRIES):
        # a host without IPv6 says so once, and goes on with IPv4
        events = [event for event in tries if event.fields.get("errno") != _NO_SUCH_FAMILY]
        last = process.last_line
        if any(event.kind in _CONNECT_FAILURES for event in process.events) or last is None or not events:
            continue
        if _RETRYING.search(last.text):
            event = events[-1]
            host = event.fields.get("store_host") or host_part(str(event.fields.get("address", "")))
            fields: dict[str, Value] = {
                "store_host": host or None,
                "store_port": event.fields.get("store_port", _port(event)),
                "errno": event.fields.get("errno"),
                "error": event.fields.get("error"),
                "own_host_too": process.host is not None and process.host == host,
                "gave_up": False,
            }
            yield _fact("store_never_answered", process, events, fields)


def _ports(job: Job) -> Iterator[Fact]:
    for process, events in _by_process(job, _BIND_FAILURES):
        taken = [
            e
            for e in events
            if e.kind != "server_bind_failed" or e.fields.get("errno", _ADDRESS_IN_USE) == _ADDRESS_IN_USE
        ]
        taken = [e for e in taken if e.fields.get("name", "EADDRINUSE") == "EADDRINUSE"]
        if not taken or any(
            e.kind == "server_listening" and e.line.number > taken[-1].line.number for e in process.events
        ):
            continue
        # a first try on IPv6 that IPv4 makes good is no failure; the line says that it goes on
        final = [e for e in taken if "trying ipv4" not in e.line.text]
        if final:
            port = next((_port(e) for e in taken if _port(e) is not None), None)
            yield _fact("port_taken_for_good", process, [*final, *(e for e in taken if e not in final)], {"port": port})


def _port(event: Event) -> int | None:
    port = event.number("port")
    if port is not None:
        return port
    _, _, tail = str(event.fields.get("address", "")).rpartition(":")
    return int(tail) if tail.isdecimal() else None


def _store_gone(job: Job) -> Iterator[Fact]:
    """Connections that broke; also as the reason why a rank got no ncclUniqueId of rank 0 (1.12 on)."""
    for process, found in _by_process(job, (*_LOSSES, "unique_id_missing")):
        events = [e for e in found if e.kind in _LOSSES or _BROKEN.search(str(e.fields.get("error")))]
        if not events:
            continue
        error = next((str(e.fields["error"]) for e in events if e.fields.get("error")), None)
        yield _fact("store_gone", process, events, {"error": error})


def _peers(job: Job) -> Iterator[Fact]:
    kinds = ("gloo_connect_retry", "gloo_mesh_failed", "gloo_connect_failed", "gloo_remote_address")
    fallbacks = {id(job.process_of(e)): e for e in job.events.of("gloo_loopback_fallback")}
    for process, events in _by_process(job, kinds):
        named = [e for e in events if e.fields.get("peer")]
        fallback = fallbacks.get(id(process))
        loopback = [e for e in named if is_loopback(str(e.fields["peer"]))]
        if loopback and (fallback is not None or len(job.hosts) != 1):
            first = [fallback] if fallback is not None else []
            fields: dict[str, Value] = {"peer": str(loopback[0].fields["peer"])}
            fact = _fact("peer_on_loopback", process, [*first, *loopback], fields)
            says = fallback.fields.get("reporting_rank") if fallback is not None else None
            yield replace(fact, ranks=(says,)) if isinstance(says, int) and not fact.ranks else fact
        failed = [e for e in named if e not in loopback and e.fields.get("error") and e.kind != "gloo_remote_address"]
        foreign = [
            e for e in failed if e.fields.get("local") and _is_foreign(str(e.fields["local"]), str(e.fields["peer"]))
        ]
        if foreign:
            fields = {"peer": str(foreign[0].fields["peer"]), "local": str(foreign[0].fields["local"])}
            yield _fact("peer_on_foreign_subnet", process, foreign, fields)
        elif failed:
            fields = {"peer": str(failed[0].fields["peer"]), "error": failed[0].fields["error"]}
            yield _fact("peer_unreachable", process, failed, fields)


def _is_foreign(local: str, peer: str) -> bool:
    """Addresses that differ in their first half: rather two networks of a machine (docker0) than two nodes of one."""
    ours, theirs = local.split("."), peer.split(".")
    return len(ours) == len(theirs) == 4 and ours[:2] != theirs[:2]


def _left_early(job: Job) -> Iterator[Fact]:
    """Ranks whose last words are those of a normal end, while peers lose them or the store that they host."""
    losers: dict[int, Process] = {}
    evidence: list[Evidence] = []
    for process, events in _by_process(job, _PEER_LOSSES):
        if process.rank is not None:
            losers[process.rank] = process
            evidence.append(evidence_of(events[0], "a peer is gone"))
    if not losers:
        return
    spared = _not_in_failure_table(job)
    for rank, process in sorted(job.ranks.items()):
        words = _parting_words(process, spared=rank in spared)
        if rank in losers or words is None or any(event.kind in _FAULTS for event in process.events):
            continue
        text, own = words
        fields: dict[str, Value] = {"last_words": text}
        yield Fact(
            "rank_left_early",
            fields,
            ranks=(rank,),
            hosts=(process.host,) if process.host else (),
            affected=tuple(sorted(losers)),
            time=process.last_time,
            evidence=(own, *evidence[:4]),
        )


def _not_in_failure_table(job: Job) -> set[int]:
    """Ranks that a full table of failures does not list (2.10 on): the agent had seen them end with 0 before."""
    listed = {rank for e in job.events.of("failure_rank") if isinstance(rank := e.fields.get("failed_rank"), int)}
    absent = set(range(job.world_size or size_in(max(listed, default=-1) + 1))) - listed
    return absent if len(listed) > len(absent) else set()


def _parting_words(process: Process, *, spared: bool) -> tuple[str, Evidence] | None:
    line = process.last_line
    if line is None or _UNHAPPY.search(line.text) or not (spared or LEAVING.search(line.text)):
        return None
    return line.text[:160], Evidence(line.location, line.raw, "its last words")
