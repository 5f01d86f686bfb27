"""Facts from plain text RAS reports (ncclras, NCCL 2.24 and later): ranks behind, and processes that do not answer.

RAS counts the five collectives when they are launched. A running job differs by a few at any moment, so a
count counts only beside logs that do not end well. A process that is dead, stopped or cut off is missing in
the same words; survivors that gave up after an error are missing too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.vanished import LOSS_KINDS
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "ras_rank_behind": FactKind(
        ("call", "operation", "others", "with_logs"),
        "A RAS report names a rank that launched fewer collectives than most.",
    ),
    "ras_rank_silent": FactKind(("unanswered", "with_logs"), "A RAS report names ranks whose process does not answer."),
    "ras_host_silent": FactKind(("unanswered", "with_logs"), "All ranks of one host do not answer RAS, all others do."),
}


@dataclass(slots=True)
class _Block:
    """One communicator of one report: what it says of single ranks."""

    head: Event
    table: Event | None
    size: int | None
    unanswered: list[Event] = field(default_factory=list)
    counts: list[tuple[str, list[tuple[int, Event]]]] = field(default_factory=list)


def find(job: Job) -> Iterator[Fact]:
    """Facts of the last report of every file: an earlier one tells where the ranks were then."""
    if not job.events.has("ras_comm"):
        return
    with_logs = bool(job.communicators)
    for source in job.parsed:
        events = [e for e in source.events if e.source == "ras"]
        start = max((i for i, e in enumerate(events) if e.kind == "ras_version"), default=0)
        for block in _blocks(events[start:]):
            yield from _behind(job, block, with_logs=with_logs)
            yield from _silent(job, block, with_logs=with_logs)


def _blocks(events: list[Event]) -> Iterator[_Block]:
    block: _Block | None = None
    table: Event | None = None
    heading: Event | None = None
    for event in events:
        if event.kind == "ras_group" and (table is None or event.fields.get("errors") != "OK"):
            table = event
        elif event.kind == "ras_comm":
            if block is not None:
                yield block
            size = table.fields.get("ranks_per_comm") if table is not None else None
            block = _Block(event, table, size if isinstance(size, int) else None)
        elif block is None:
            continue
        elif event.kind == "ras_member":
            # names the ranks of the line in front of it: those missing, or the few with a certain count
            if heading is not None and heading.kind == "ras_ranks_missing":
                block.unanswered.append(event)
            elif heading is not None and heading.kind == "ras_ranks_at" and block.counts:
                block.counts[-1][1].append((_operation(heading), event))
            continue
        elif event.kind == "ras_counts_differ":
            block.counts.append((str(event.fields.get("call", "collective")), []))
        elif event.kind in ("ras_ranks_at", "ras_rank_at") and block.counts:
            block.counts[-1][1].append((_operation(event), event))
        heading = event
    if block is not None:
        yield block


def _behind(job: Job, block: _Block, *, with_logs: bool) -> Iterator[Fact]:
    for call, counts in block.counts:
        highest = max((n for n, _ in counts), default=0)
        for operation, event in counts:
            rank = _rank(job, event)
            if event.kind == "ras_ranks_at" or operation >= highest or rank is None:
                continue
            evidence = (*_head(block), evidence_of(event, "fewer than its peers"))
            affected = tuple(sorted(set(job.ranks) - {rank}))
            fields: dict[str, Value] = {"call": call, "operation": operation, "others": highest, "with_logs": with_logs}
            yield Fact("ras_rank_behind", fields, (rank,), job.hosts_of((rank,)), "", affected, None, evidence)


def _silent(job: Job, block: _Block, *, with_logs: bool) -> Iterator[Fact]:
    named = {rank: event for event in block.unanswered if (rank := _rank(job, event)) is not None}
    witnesses = {event.rank for event in job.events.of(*LOSS_KINDS)}
    behind = {rank for call in job.stuck for rank in call.missing}
    suspects = set(named) - witnesses
    ranks = tuple(sorted(suspects & behind or suspects))
    if not ranks:
        return
    hosts = job.hosts_of(ranks)
    evidence = (*_head(block), *(evidence_of(named[rank], "this process does not answer") for rank in ranks[:6]))
    fields: dict[str, Value] = {"unanswered": tuple(sorted(named)), "with_logs": with_logs}
    affected = tuple(sorted(set(job.ranks) - set(ranks)))
    of_host = {rank for rank, process in job.ranks.items() if process.host in hosts}
    if len(hosts) == 1 and len(job.hosts) > 1 and of_host <= set(named) and len(of_host) > 1 and set(named) == of_host:
        everyone = tuple(sorted(of_host))
        yield Fact(
            "ras_host_silent", fields, everyone, hosts, "", tuple(sorted(set(job.ranks) - of_host)), None, evidence
        )
    else:
        yield Fact("ras_rank_silent", fields, ranks, hosts, "", affected, None, evidence)


def _operation(event: Event) -> int:
    value = event.fields.get("operation")
    return value if isinstance(value, int) else 0


def _rank(job: Job, event: Event) -> int | None:
    """The global rank of a RAS member: by its pid, else by its number when the communicator is the world."""
    pid, number = event.fields.get("process"), event.fields.get("group_rank")
    owners = {p.rank for p in job.processes if p.pid == pid and p.rank is not None}
    if len(owners) == 1:
        return owners.pop()
    return number if isinstance(number, int) and not job.ranks else None


def _head(block: _Block) -> tuple[Evidence, ...]:
    table = (evidence_of(block.table, "the report's summary"),) if block.table is not None else ()
    return (*table, evidence_of(block.head, "the communicator"))
