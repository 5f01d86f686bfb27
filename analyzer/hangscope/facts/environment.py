"""Facts about settings and networks that must be alike on all ranks and are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.agreed_settings import effect_of
from hangscope.facts.collect import evidence_of
from hangscope.facts.comparisons.channels import transport_kind, unlike_ends
from hangscope.facts.comparisons.differing import name_holders
from hangscope.facts.comparisons.network import find_plugins
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
_MOST_VALUES = 64
"""Where every process has a value of its own, more facts say no more."""


def find(job: Job) -> Iterator[Fact]:
    """Facts about what differs between the processes that print their settings or NCCL's INFO lines."""
    yield from _settings(job)
    speaking = {n: p for n, p in enumerate(job.processes) if p.by_kind.has(*MILESTONES)}
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
    """An external plugin on some ranks only."""
    found = find_plugins(job)
    speaking = {number: job.processes[number] for number in found}
    values = {number: name for number, (name, _) in found.items()}
    said = {number: event for number, (_, event) in found.items()}
    yield from _differing(("net_plugin_differs", "plugin"), speaking, values, said, {})


def _first(process: Process, kind: str) -> Event | None:
    return process.by_kind.first(kind)


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
    holders: dict[str, list[int]] = defaultdict(list)
    for number, value in values.items():
        holders[value].append(number)
    expected = expected_value(values, speaking)
    rest = [speaking[number] for number in holders[expected]]
    affected = _ranks_at(rest, speaking)
    others = [said[number] for number in holders[expected] if number in said]
    for value in sorted(holders.keys() - {expected})[:_MOST_VALUES]:
        odd = [speaking[number] for number in holders[value]]
        lines = [said[number] for number in holders[value] if number in said]
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
            affected=affected,
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
        first = ("comm_init_start", "comm_init_complete", "network_chosen", "environment_setting")
        if (event := process.by_kind.first(*first)) is not None:
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
