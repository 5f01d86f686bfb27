"""Facts about NCCL settings and networks that must be alike on all ranks and are not.

NCCL prints ``X set by environment to V`` when a parameter is first read, so a rank that has not come that far
says nothing about it: a rank counts as one without the setting only when it passed the milestone that followed
the line on the ranks that have it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.agreed_settings import must_agree
from hangscope.facts.collect import evidence_of
from hangscope.facts.majority import expected_value, hosts_of, ranks_of
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "setting_differs": FactKind(
        ("name", "value", "expected"),
        "A setting that must be equal on all ranks has another value on some, or is missing there.",
    ),
    "network_choice_differs": FactKind(("network", "expected"), "Some ranks use another network than the rest."),
    "net_plugin_differs": FactKind(
        ("plugin", "expected"), "Some ranks loaded another network plugin than the rest, or none."
    ),
    "edge_transport_differs": FactKind(
        ("source", "target", "transport", "other_transport"), "The two ends of a connection chose different transports."
    ),
}

NOT_SET = "not set"
# What every rank prints on its way; not what rank 0 alone prints (version, ring order).
_MILESTONES = frozenset(
    {
        "network_chosen",
        "bootstrap_timings",
        "comm_init_start",
        "comm_layout",
        "trees",
        "channel_counts",
        "comm_init_complete",
        "connected",
    }
)
_EXTERNAL = ("Socket", "IB")


def find(job: Job) -> Iterator[Fact]:
    """Facts about what differs between the processes that print NCCL's INFO lines."""
    speaking = {n: p for n, p in enumerate(job.processes) if any(e.kind in _MILESTONES for e in p.events)}
    if len(speaking) > 1:
        yield from _settings(speaking)
        yield from _networks(speaking)
        yield from _plugins(speaking)
    yield from _edges(job)


def _settings(speaking: dict[int, Process]) -> Iterator[Fact]:
    """One fact a setting and differing value."""
    lines: dict[str, dict[int, Event]] = defaultdict(dict)
    for number, process in speaking.items():
        for event in process.events:
            name = str(event.fields.get("name", "")) if event.kind == "nccl_setting" else ""
            if must_agree(name):
                lines[name].setdefault(number, event)
    for name, said in sorted(lines.items()):
        values = {number: str(event.fields.get("value", "")) for number, event in said.items()}
        passed = _milestone_after(speaking, said)
        have_head = any(_has_head(speaking[number]) for number in said)
        for number, process in speaking.items():
            if have_head and not _has_head(process):
                # the beginning of its log is lost, and the setting may be with it
                continue
            if number not in values and passed and passed <= _milestones(process):
                values[number] = NOT_SET
        yield from _differing(("setting_differs", "value"), speaking, values, said, {"name": name})


def _has_head(process: Process) -> bool:
    """Whether the first lines that NCCL prints are there."""
    return any(event.kind in ("bootstrap_interface", "nccl_version") for event in process.events)


def _milestones(process: Process) -> set[str]:
    return {event.kind for event in process.events if event.kind in _MILESTONES}


def _milestone_after(speaking: dict[int, Process], said: dict[int, Event]) -> set[str]:
    """Kinds of which a rank must have printed all to count as past the setting: those before it, and the next."""
    after: set[str] = set()
    before: set[str] | None = None
    for number, event in said.items():
        seen: set[str] = set()
        following = ""
        is_past = False
        for other in speaking[number].events:
            is_past = is_past or other is event
            if other.kind in _MILESTONES:
                if is_past:
                    following = other.kind
                    break
                seen.add(other.kind)
        before = seen if before is None else before & seen
        if following and following not in seen:
            after.add(following)
    return (before or set()) | after if len(after) == 1 else set()


def _networks(speaking: dict[int, Process]) -> Iterator[Fact]:
    said = {n: e for n, p in speaking.items() if (e := _first(p, "network_chosen")) is not None}
    values = {number: str(event.fields.get("network", "")) for number, event in said.items()}
    yield from _differing(("network_choice_differs", "network"), speaking, values, said, {})


def _plugins(speaking: dict[int, Process]) -> Iterator[Fact]:
    """An external plugin on some ranks only; ranks that chose no network yet say nothing."""
    said: dict[int, Event] = {}
    values: dict[int, str] = {}
    for number, process in speaking.items():
        loaded = next(
            (e for e in process.events if e.kind == "net_plugin_loaded" and e.fields.get("plugin") not in _EXTERNAL),
            None,
        )
        chosen = _first(process, "network_chosen")
        if loaded is not None:
            said[number], values[number] = loaded, str(loaded.fields.get("plugin", ""))
        elif chosen is not None:
            said[number], values[number] = chosen, "none"
    yield from _differing(("net_plugin_differs", "plugin"), speaking, values, said, {})


def _first(process: Process, kind: str) -> Event | None:
    return next((event for event in process.events if event.kind == kind), None)


def _differing(
    kind_and_key: tuple[str, str],
    speaking: dict[int, Process],
    values: dict[int, str],
    said: dict[int, Event],
    fields: dict[str, Value],
) -> Iterator[Fact]:
    """One fact for each value that is not the expected one; lines of the odd ones first, then of the others."""
    kind, key = kind_and_key
    if len(set(values.values())) < 2:
        return
    expected = expected_value(values, speaking)
    for value in sorted(set(values.values()) - {expected}):
        odd = [speaking[number] for number, has in values.items() if has == value]
        rest = [speaking[number] for number, has in values.items() if has == expected]
        lines = [said[number] for number, has in values.items() if has == value and number in said]
        others = [said[number] for number, has in values.items() if has == expected and number in said]
        evidence = [evidence_of(event, f"it is {value} here") for event in lines[:4]]
        evidence += [evidence_of(event, f"it is {expected} here") for event in others[:4]]
        evidence += _proof_of_absence(odd if value == NOT_SET else rest if expected == NOT_SET else [])
        time = min((e.time for e in (*lines, *others) if e.time is not None), default=None)
        yield Fact(
            kind,
            {**fields, key: value, "expected": expected},
            ranks_of(odd),
            hosts_of(odd),
            "",
            ranks_of(rest),
            time,
            tuple(evidence),
        )


def _proof_of_absence(processes: list[Process]) -> list[Evidence]:
    """A line of one process that had to read the setting and printed none."""
    for process in processes:
        for event in process.events:
            if event.kind in ("comm_init_start", "comm_init_complete", "network_chosen"):
                return [evidence_of(event, "this process prints its settings too, and not this one")]
    return []


def _edges(job: Job) -> Iterator[Fact]:
    """Connections whose sender names P2P or shared memory while the receiver waits on the network, or the reverse.

    Only the sender prints P2P and SHM lines; both ends print NET lines, with [send] and [receive].
    """
    sent: dict[tuple[str, int, int], Event] = {}
    received: dict[tuple[str, int, int], Event] = {}
    sizes = _group_keys(job)
    for event in job.events.of("channel_edge"):
        source, target = event.fields.get("source"), event.fields.get("target")
        group = sizes.get(id(job.process_of(event)), "")
        if isinstance(source, int) and isinstance(target, int) and group:
            is_receiver = event.fields.get("direction") == "receive"
            (received if is_receiver else sent).setdefault((group, source, target), event)
    for key, receiver in sorted(received.items()):
        sender = sent.get(key)
        if (
            sender is None
            or _transport(sender) == _transport(receiver)
            or job.process_of(sender) is job.process_of(receiver)
        ):
            continue
        ranks = tuple(sorted({r for r in (sender.rank, receiver.rank) if r is not None}))
        hosts = tuple(sorted({h for h in (sender.host, receiver.host) if h}))
        fields: dict[str, Value] = {
            "source": key[1],
            "target": key[2],
            "transport": _transport(sender),
            "other_transport": _transport(receiver),
        }
        lines = (evidence_of(sender, "the sender's end"), evidence_of(receiver, "the receiver's end"))
        yield Fact("edge_transport_differs", fields, ranks, hosts, "", (), sender.time, lines)
        return


def _group_keys(job: Job) -> dict[int, str]:
    """Process -> its only communicator; edges name ranks inside one, so a process with several is left out."""
    return {
        id(process): str(starts[0].fields.get("comm_id") or starts[0].fields.get("nranks"))
        for process in job.processes
        if len(starts := [e for e in process.events if e.kind == "comm_init_start"]) == 1
    }


def _transport(event: Event) -> str:
    return str(event.fields.get("transport", "")).split("/", 1)[0]
