"""Facts about torchrun's agents: what each was told of the job, and which of them is not there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.world import size_in
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.told import digits
from hangscope.model import Event, Fact, Value

KINDS = {
    "endpoint_differs": FactKind(
        ("endpoint", "others", "part"), "An agent of torchrun was given another rendezvous endpoint."
    ),
    "agents_disagree": FactKind(
        ("setting", "value", "others"), "Agents of torchrun were started with different sizes of the job."
    ),
    "node_rank_twice": FactKind(("node_rank", "nodes"), "Two agents of torchrun have the same node rank."),
    "node_absent": FactKind(
        ("nodes", "expected", "absent"), "Fewer torchrun agents than min_nodes wait for a rendezvous."
    ),
}


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    agents = _agents(job)
    yield from _nodes(agents, job)
    yield from _agents_differ(agents)


def _agents(job: Job) -> dict[str, dict[str, Event]]:
    """What each torchrun agent prints of its launch: agent -> setting -> line."""
    settings: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in job.events.of("launch_setting"):
        agent = event.host or event.line.file
        settings[agent].setdefault(str(event.fields.get("setting_name")), event)
    return settings


def _nodes(agents: dict[str, dict[str, Event]], job: Job) -> Iterator[Fact]:
    """torchrun agents that announce min_nodes and never complete a rendezvous, fewer of them than it takes."""
    unreached = ("client_connect_timeout", "client_no_address", "name_unresolved")
    if job.events.has("rendezvous_complete", *unreached):
        return
    nodes = {agent: named["min_nodes"] for agent, named in agents.items() if "min_nodes" in named}
    expected = max((size_in(digits(str(e.fields.get("value")))) for e in nodes.values()), default=0)
    waiting = [agent for agent in nodes if "rdzv_endpoint" in agents[agent]]
    if not waiting or len(waiting) >= expected:
        return
    taken = {found for agent in waiting if (found := _node_rank(agents[agent])) is not None}
    absent = ", ".join(str(n) for n in range(expected) if n not in taken) if len(taken) == len(waiting) else ""
    yield Fact(
        "node_absent",
        {"nodes": len(waiting), "expected": expected, "absent": absent or None},
        time=min((e.time for e in nodes.values() if e.time is not None), default=None),
        evidence=tuple(evidence_of(e, "so many nodes are expected") for e in nodes.values()),
    )


def _agents_differ(agents: dict[str, dict[str, Event]]) -> Iterator[Fact]:
    for setting in ("min_nodes", "nproc_per_node"):
        yield from _odd_setting(agents, setting)
    by_rank: dict[int, list[Event]] = defaultdict(list)
    for named in agents.values():
        rank = _node_rank(named)
        if rank is not None:
            by_rank[rank].append(named["rdzv_configs"])
    for rank, events in sorted(by_rank.items()):
        if len(events) > 1:
            yield _of_lines("node_rank_twice", events, {"node_rank": rank, "nodes": len(events)}, events)
    ends = {agent: named["rdzv_endpoint"] for agent, named in agents.items() if "rdzv_endpoint" in named}
    values = {agent: str(event.fields.get("value")) for agent, event in ends.items()}
    if len(set(values.values())) < 2:
        return
    home = next(
        (a for a in sorted(values) if values[a].rpartition(":")[0] == a or _node_rank(agents[a]) == 0), min(values)
    )
    odd = [ends[a] for a in sorted(values) if values[a] != values[home]]
    hosts = {values[a].rpartition(":")[0] for a in values}
    names = ", ".join(sorted({str(e.fields.get("value")) for e in odd}))
    fields: dict[str, Value] = {
        "endpoint": names,
        "others": values[home],
        "part": "port" if len(hosts) == 1 else "host",
    }
    yield _of_lines("endpoint_differs", odd, fields, [*odd, ends[home]])


def _odd_setting(agents: dict[str, dict[str, Event]], setting: str) -> Iterator[Fact]:
    said = {agent: named[setting] for agent, named in agents.items() if setting in named}
    counts = Counter(str(event.fields.get("value")) for event in said.values())
    if len(counts) < 2:
        return
    common = counts.most_common(1)[0][0]
    if len(set(counts.values())) == 1:
        common = str(said[min(said)].fields.get("value"))
    odd = [event for event in said.values() if event.fields.get("value") != common]
    rest = [event for event in said.values() if event.fields.get("value") == common]
    values = ", ".join(sorted({str(event.fields.get("value")) for event in odd}))
    yield _of_lines("agents_disagree", odd, {"setting": setting, "value": values, "others": common}, [*odd, *rest[:2]])


def _of_lines(kind: str, culprits: list[Event], fields: dict[str, Value], lines: list[Event]) -> Fact:
    """A fact about agents, which have hosts and no ranks."""
    hosts = tuple(sorted({event.host for event in culprits if event.host}))
    return Fact(kind, fields, hosts=hosts, time=culprits[0].time, evidence=tuple(evidence_of(e) for e in lines[:8]))


def _node_rank(named: dict[str, Event]) -> int | None:
    """Static rendezvous: ``rdzv_configs : {'rank': 0, 'timeout': 900}``."""
    text = str(named["rdzv_configs"].fields.get("value", "")) if "rdzv_configs" in named else ""
    _, found, rest = text.partition("'rank': ")
    return digits(rest.split(",")[0].strip(" }")) if found else None
