"""Puts what processes or hosts say about one aspect together, value by value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts.collect import evidence_of
from hangscope.model import ComparedValue, Comparison, Event, Evidence
from hangscope.records import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """What one process or host has: the value, whose it is, and what shows it.

    Attributes:
        text: the value as people read it.
        shown: the line that shows it; None when it is the absence of a line.
        ranks, hosts: whose it is, as far as anybody knows.
        name: of the file, when neither is known.
    """

    text: str
    shown: Event | Evidence | None = None
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    name: str = ""


class Holders:
    """Says whose something is: a process's, a host's."""

    def __init__(self, job: Job) -> None:
        self.job = job
        ranks: dict[str, list[int]] = defaultdict(list)
        for rank, process in sorted(job.ranks.items()):
            if process.host:
                ranks[process.host].append(rank)
        self._ranks = {host: tuple(there) for host, there in ranks.items()}

    def of_process(self, process: Process, text: str, shown: Event | Evidence | None) -> Said:
        """What a process has; one of unknown rank on a known host (a file of the host's) speaks for all ranks there."""
        if process.rank is not None:
            return Said(text, shown, (process.rank,), (process.host,) if process.host else ())
        host = process.host or (shown.host if isinstance(shown, Event) else None)
        if host:
            return self.of_host(host, text, shown)
        return Said(text, shown, name=process.files[0] if process.files else "")

    def of_host(self, host: str, text: str, shown: Event | Evidence | None) -> Said:
        """What a host has, and with it all its ranks."""
        return Said(text, shown, self._ranks.get(host, ()), (host,))

    def fields(self, events: Iterable[Event], field: str) -> list[Said]:
        """The value of a field that each process says; a process that says several is left out."""
        seen: dict[int, dict[str, Event]] = defaultdict(dict)
        for event in events:
            value = event.fields.get(field)
            if value is not None and value != "":
                seen[id(self.job.process_of(event))].setdefault(str(value), event)
        return [
            self.of_process(self.job.process_of(event), value, event)
            for values in seen.values()
            if len(values) == 1
            for value, event in values.items()
        ]


def compared(topic: str, aspect: str, said: Iterable[Said], *, must_agree: bool) -> Comparison | None:
    """The comparison of what was said; None when nobody says anything.

    Args:
        topic: as in `Comparison.topic`.
        aspect: as in `Comparison.aspect`.
        said: one for each process or host.
        must_agree: as in `Comparison.must_agree`.
    """
    by_text: dict[str, list[Said]] = defaultdict(list)
    for one in said:
        by_text[one.text].append(one)
    if not by_text:
        return None
    values = [_value(text, holders) for text, holders in by_text.items()]
    return Comparison(topic, aspect, must_agree, tuple(sorted(values, key=_standing)))


def _value(text: str, holders: list[Said]) -> ComparedValue:
    first = min(holders, key=lambda one: (one.shown is None, one.ranks or (1 << 30,), one.hosts, one.name))
    evidence = evidence_of(first.shown, f"it is {text} here") if isinstance(first.shown, Event) else first.shown
    return ComparedValue(
        text,
        tuple(sorted({rank for one in holders for rank in one.ranks})),
        tuple(sorted({host for one in holders for host in one.hosts})),
        tuple(sorted({one.name for one in holders if one.name})),
        len(holders),
        evidence,
    )


def _standing(value: ComparedValue) -> tuple[int, int, str, str]:
    return (-value.count, min(value.ranks, default=1 << 30), min((*value.hosts, *value.names), default=""), value.text)
