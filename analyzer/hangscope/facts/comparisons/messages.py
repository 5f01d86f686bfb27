"""Finds warnings and errors that one rank, or the ranks of one host, alone printed, of many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts.collect import evidence_of
from hangscope.model import ComparedValue, Comparison, Event
from hangscope.parse.complaints import KIND, is_complaint, template_of

TOPIC = "messages"
ORDER = 7

_MANY = 3
"""Fewer ranks, or hosts, are no many of which one stands out."""
_MOST = 20
_SERIOUS = frozenset({"ERROR", "CRITICAL", "E", "F", "ATTN", "ABORT"})
_NATIVE = frozenset({"nccl", "c10"})


def compare(job: Job) -> Iterator[Comparison]:
    """A comparison for each wording that one rank or host alone printed: who did, and who did not."""
    speaking = [p for p in job.processes if p.rank is not None and p.line_count]
    ranks = {p.rank for p in speaking if p.rank is not None}
    if len(ranks) < _MANY:
        return
    together: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in job.events:
        line = event.line
        if event.kind == KIND:
            together[KIND, str(event.fields.get("template", ""))].append(event)
        # nine of ten lines are those that say how it is going
        elif line.level and line.level != "INFO" and is_complaint(line):
            # what a grammar knows is one message, however it is filled in
            together[event.kind, ""].append(event)
    hosts = {p.host for p in speaking if p.host}
    found = []
    for events in together.values():
        printed = [job.process_of(event) for event in events]
        if _stands_out(printed, hosts) and not _is_of_the_main_rank(printed, events):
            found.append(events)
    for events in sorted(found, key=lambda events: _weight(events[0]))[:_MOST]:
        yield _comparison(job, template_of(events[0].line.text), events, ranks)


def _stands_out(printed: list[Process], hosts: set[str]) -> bool:
    """One rank, or several of one host of many; a writer of unknown rank may be any of them."""
    ranks = {p.rank for p in printed}
    if None in ranks:
        return False
    return len(ranks) == 1 or (len(hosts) >= _MANY and len({p.host for p in printed}) == 1 and printed[0].host in hosts)


def _is_of_the_main_rank(printed: list[Process], events: list[Event]) -> bool:
    """What programs let rank 0 alone say is no sign of anything; libraries let every rank speak."""
    return all(p.rank == 0 for p in printed) and not all(event.line.header in _NATIVE for event in events)


def _weight(event: Event) -> tuple[bool, bool, float, str, int]:
    line = event.line
    return (line.level not in _SERIOUS, line.time is None, line.time or 0.0, line.file, line.number)


def _comparison(job: Job, template: str, events: list[Event], ranks: set[int]) -> Comparison:
    own = tuple(sorted({rank for event in events if (rank := job.process_of(event).rank) is not None}))
    on = tuple(sorted({host for event in events if (host := job.process_of(event).host)}))
    rest = tuple(sorted(ranks - set(own)))
    shown = evidence_of(events[0], "no other rank printed this")
    return Comparison(
        TOPIC,
        template,
        must_agree=False,
        values=(
            ComparedValue("printed", own, on, (), len(own), shown),
            ComparedValue("not printed", rest, (), (), len(rest), None),
        ),
    )
