"""Ranks that do not answer torch's debug server: its threads answer even while Python is blocked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Fact

_FIELDS = ("error", "answered", "workers")
KINDS = {
    "debug_no_answer": FactKind(
        (*_FIELDS, "silent_rank"), "A page of torch's debug server lacks the answer of a rank."
    ),
    "debug_page_silent": FactKind(
        _FIELDS, "A rank accepts the connection of torch's debug server, or drops it, and never answers; others do."
    ),
    "debug_page_refuses": FactKind(
        _FIELDS, "Nobody listens any more where a rank offered torch's debug server its data."
    ),
}
# a build without that handler, or without what the page needs, says so for every rank
_NO_HANDLER = expression(
    r"not found|Failed to find handler|\b404\b|No module named|not supported|Error: 5\d\d", re.IGNORECASE
)
_REFUSED = expression(
    r"refused|Cannot connect|ConnectorError|NewConnectionError|reset by peer|Errno 111", re.IGNORECASE
)


def find(job: Job) -> Iterator[Fact]:
    """One fact for each rank that is the odd one out."""
    found: dict[int, Event] = {}
    for event in job.events.of("debug_no_answer"):
        rank, answered = event.number("silent_rank"), event.number("answered")
        if rank is not None and answered and not _NO_HANDLER.search(str(event.fields.get("error"))):
            found[rank] = event
    for rank, event in sorted(found.items()):
        kind = "debug_page_refuses" if _REFUSED.search(str(event.fields.get("error"))) else "debug_page_silent"
        fields = {name: event.fields.get(name) for name in _FIELDS}
        workers = event.number("workers") or 0
        affected = tuple(other for other in range(min(workers, 4096)) if other not in found)
        shown = (evidence_of(event, "this rank does not answer"),)
        yield Fact(kind, fields, (rank,), job.hosts_of((rank,)), affected=affected, time=event.time, evidence=shown)
