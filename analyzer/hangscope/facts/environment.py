"""Facts about settings and networks that must be alike on all ranks and are not."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.agreed_settings import effect_of
from hangscope.facts.collect import evidence_of
from hangscope.facts.comparisons.channels import transport_kind, unlike_ends
from hangscope.facts.comparisons.differing import name_holders
from hangscope.facts.comparisons.network import BUILT_IN
from hangscope.facts.majority import expected_value, hosts_of, ranks_of
from hangscope.facts.settings import MILESTONES, NOT_SET, settings_of
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "setting_differs": FactKind(
        ("name", "value", "expected", "effect", "who"),
        "A setting that must be equal on all ranks has another value on some, or is missing there.",
    ),
    "network_choice_differs": FactKind(("network", "expected", "who"), "Some ranks use another network than the rest."),
    "net_plugin_differs": FactKind(
        ("plugin", "expected", "who"), "Some ranks loaded another network plugin than the rest, or none."
    ),
    "edge_transport_differs": FactKind(
        ("source", "target", "transport", "other_transport"), "The two ends of a connection chose different transports."
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """Facts about what differs between the processes that print their settings or NCCL's INFO lines."""
    yield from _settings(job)
    speaking = {n: p for n, p in enumerate(job.processes) if any(e.kind in MILESTONES for e in p.events)}
    if len(speaking) > 1:
        yield from _networks(speaking)
    yield from _plugins(job)
    yield from _edges(job)


def _settings(job: Job) -> Iterator[Fact]:
    """One fact a setting and differing value."""
    processes = dict(enumerate(job.processes))
    for setting in settings_of(job):
        if not setting.agrees(job):
            fields: dict[str, Value] = {"name": setting.name, "effect": effect_of(setting.name)}
            yield from _differing(("setting_differs", "value"), processes, setting.values, setting.said, fields)


def _networks(speaking: dict[int, Process]) -> Iterator[Fact]:
    said = {n: e for n, p in speaking.items() if (e := _first(p, "network_chosen")) is not None}
    values = {number: str(event.fields.get("network", "")) for number, event in said.items()}
    yield from _differing(("network_choice_differs", "network"), speaking, values, said, {})


def _plugins(job: Job) -> Iterator[Fact]:
    """An external plugin on some ranks only; ranks that chose no network yet and looked for no plugin say nothing."""
    speaking: dict[int, Process] = {}
    said: dict[int, Event] = {}
    values: dict[int, str] = {}
    names = {
        str(e.fields["plugin"])
        for e in job.events.of("net_plugin_loaded", "net_plugin_path")
        if e.fields.get("plugin") not in (None, *BUILT_IN)
    }
    for number, process in enumerate(job.processes):
        loaded = next(
            (e for e in process.events if e.kind == "net_plugin_loaded" and e.fields.get("plugin") not in BUILT_IN),
            None,
        )
        of_plugin = _first(process, "net_plugin_path")
        without = _first(process, "net_plugin_absent") or _first(process, "network_chosen")
        event = loaded or of_plugin or without
        if event is None:
            continue
        speaking[number], said[number] = process, event
        if loaded is not None:
            values[number] = str(loaded.fields.get("plugin", ""))
        elif of_plugin is not None:
            # what a plugin prints while it is loaded: its name stands in another line, which may be cut off
            values[number] = min(names) if len(names) == 1 else str(of_plugin.fields.get("path") or "external")
        else:
            values[number] = "none"
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
        ranks, hosts = _ranks_at(odd, speaking), hosts_of(odd)
        time = min((e.time for e in (*lines, *others) if e.time is not None), default=None)
        yield Fact(
            kind,
            {**fields, key: value, "expected": expected, "who": name_holders(ranks, hosts)},
            ranks=ranks,
            hosts=hosts,
            affected=_ranks_at(rest, speaking),
            time=time,
            evidence=tuple(evidence),
        )


def _ranks_at(members: list[Process], processes: dict[int, Process]) -> tuple[int, ...]:
    """Their ranks; a file of a host, whose rank nobody knows, speaks for all ranks there."""
    hosts = {p.host for p in members if p.rank is None and p.host}
    return ranks_of([*members, *(p for p in processes.values() if p.host in hosts)])


def _proof_of_absence(processes: list[Process]) -> list[Evidence]:
    """A line of one process that had to read the setting and printed none."""
    for process in processes:
        for event in process.events:
            if event.kind in ("comm_init_start", "comm_init_complete", "network_chosen", "environment_setting"):
                return [evidence_of(event, "this process prints its settings too, and not this one")]
    return []


def _edges(job: Job) -> Iterator[Fact]:
    """The first connection whose two ends name different transports."""
    for sender, receiver in unlike_ends(job)[:1]:
        ranks = tuple(sorted({r for r in (sender.rank, receiver.rank) if r is not None}))
        hosts = tuple(sorted({h for h in (sender.host, receiver.host) if h}))
        fields: dict[str, Value] = {
            "source": sender.number("source"),
            "target": sender.number("target"),
            "transport": transport_kind(sender),
            "other_transport": transport_kind(receiver),
        }
        lines = (evidence_of(sender, "the sender's end"), evidence_of(receiver, "the receiver's end"))
        yield Fact("edge_transport_differs", fields, ranks=ranks, hosts=hosts, time=sender.time, evidence=lines)
