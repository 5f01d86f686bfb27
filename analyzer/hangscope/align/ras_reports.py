"""Puts RAS reports together, text and JSON alike: per communicator who counts what, who is missing, who has left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from hangscope.model import Event
from hangscope.model.names import natural_order
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass

LEAST_GAP_S = 1.0
"""Reports of one moment are one report."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many operations of one kind some ranks launched.

    Attributes:
        call: name of the operation ("collective" in reports to 2.25).
        number: how many.
        ranks: how many ranks stand there; 0 when the line names a member of a set that was counted before.
        event: what says so; it names a rank, unless it speaks of a set.
        named: the event names one rank.
    """

    call: str
    number: int
    ranks: int
    event: Event
    named: bool


@dataclass(slots=True)
class Comm:
    """One communicator of one report.

    Attributes:
        key: its hash and that of its creator.
        head, table: the events that introduce it.
        size: its number of ranks, if known.
        counts: what ranks launched.
        missing: members whose process sent no data.
        left: members whose process answers and has no such communicator any more.
        members: every member of which the report tells a process.
    """

    key: tuple[object, ...]
    head: Event
    table: Event | None
    size: int | None
    counts: list[Count] = field(default_factory=list)
    missing: list[Event] = field(default_factory=list)
    left: list[Event] = field(default_factory=list)
    members: list[Event] = field(default_factory=list)

    @property
    def standing(self) -> Counter[tuple[object, ...]]:
        """The counts, to compare with those of another report."""
        exact = bool(self.head.fields.get("nranks"))
        return Counter(
            (c.call, c.number, c.event.fields.get("group_rank") if exact else c.ranks) for c in self.counts if c.ranks
        )


@dataclass(slots=True)
class Report:
    """One answer of RAS.

    Attributes:
        form: "text" or "json".
        file: where it is.
        time: when it was made, if it says so.
        dead: process ids that it considers dead: no contact for a minute.
        comms: its communicators by key.
    """

    form: str
    file: str
    time: float | None
    dead: frozenset[int] = frozenset()
    comms: dict[tuple[object, ...], Comm] = field(default_factory=dict)


def read_reports(sources: Iterable[ParsedSource]) -> list[Report]:
    """All reports, the oldest first as far as times and the names of files tell."""
    reports: list[Report] = []
    for source in sources:
        events = source.by_kind.of(*(kind for kind in source.by_kind.kinds if kind.startswith("ras_")))
        starts = [at for at, event in enumerate(events) if event.kind == "ras_version"]
        if not starts or starts[0] > 0:
            starts.insert(0, 0)
        for start, end in zip(starts, [*starts[1:], len(events)], strict=True):
            piece = events[start:end]
            if any(event.kind in ("ras_comm", "ras_group") for event in piece):
                reports.append(_report(piece))
    reports.sort(key=lambda report: (report.time or 0.0, natural_order(report.file)))
    return reports


def last_reports(reports: Sequence[Report]) -> list[tuple[Report, list[Report]]]:
    """The last report of each form, with those that were made before it."""
    found = []
    for form in ("text", "json"):
        own = [report for report in reports if report.form == form]
        if own:
            last = own[-1]
            before = [r for r in own[:-1] if r.time is None or last.time is None or last.time - r.time >= LEAST_GAP_S]
            found.append((last, before))
    return found


def world_of(report: Report) -> dict[tuple[object, object], int]:
    """Process -> rank in the one communicator that holds all others' processes; empty when there is none."""
    comms = [comm for comm in report.comms.values() if comm.size and comm.members]
    largest = max(comms, key=lambda comm: comm.size or 0, default=None)
    if largest is None:
        return {}
    found = {process_of(e): number for e in largest.members if (number := e.number("group_rank")) is not None}
    everybody = {process_of(event) for comm in comms for event in comm.members}
    alike = [comm for comm in comms if comm.size == largest.size]
    same = all(found.get(process_of(e)) == e.number("group_rank") for comm in alike for e in comm.members)
    return found if everybody <= found.keys() and same else {}


def process_of(event: Event) -> tuple[object, object]:
    """Node and process id of a member."""
    return event.fields.get("node"), event.fields.get("process")


def told_ranks(sources: Iterable[ParsedSource]) -> dict[int, int]:
    """Process id -> global rank, by the last reports; ids that several nodes have are left out."""
    found: dict[int, set[int]] = {}
    for report, _ in last_reports(read_reports(sources)):
        for (_, pid), rank in world_of(report).items():
            if isinstance(pid, int):
                found.setdefault(pid, set()).add(rank)
    return {pid: next(iter(ranks)) for pid, ranks in found.items() if len(ranks) == 1}


def _report(events: Sequence[Event]) -> Report:
    first = events[0]
    form = "json" if any(event.kind in ("ras_rank", "ras_rank_missing") for event in events) else "text"
    if first.kind == "ras_version" and "communicators" in first.fields:
        form = "json"
    report = Report(form, first.line.file, first.time, frozenset(_dead(events)))
    for comm in _comms(events):
        known = report.comms.get(comm.key)
        if known is None:
            report.comms[comm.key] = comm
            continue
        # a communicator has a block under Errors and another one under Warnings
        known.counts += comm.counts
        known.missing += comm.missing
        known.left += comm.left
        known.members += comm.members
    return report


def _dead(events: Sequence[Event]) -> Iterator[int]:
    heading = ""
    for event in events:
        pid = event.number("process")
        if event.kind == "ras_rank_missing" or (event.kind == "ras_process" and heading == "ras_processes_dead"):
            if pid is not None and event.fields.get("dead", True):
                yield pid
        elif event.kind != "ras_process":
            heading = event.kind


def _comms(events: Sequence[Event]) -> Iterator[Comm]:
    comm: Comm | None = None
    tables: dict[int | None, Event] = {}
    heading: Event | None = None
    call = "collective"
    for event in events:
        if event.kind == "ras_group":
            tables[event.number("group_index")] = event
        elif event.kind == "ras_comm":
            if comm is not None:
                yield comm
            size = event.number("nranks")
            table = tables.get(event.number("group_index"))
            if size is None and table is not None:
                size = table.number("ranks_per_comm")
            key = (event.fields.get("comm_hash"), event.fields.get("creator"))
            comm = Comm(key, event, table, size)
        elif comm is None:
            continue
        elif event.kind == "ras_counts_differ":
            call = str(event.fields.get("call") or "collective")
        elif event.kind == "ras_rank":
            _take_rank(comm, event)
            continue
        elif event.kind == "ras_rank_missing":
            _take_missing(comm, event)
            continue
        else:
            _take_line(comm, event, heading, call)
            if event.kind == "ras_member":
                continue
        heading = event
    if comm is not None:
        yield comm


def _take_rank(comm: Comm, event: Event) -> None:
    comm.members.append(event)
    calls, counts = event.fields.get("calls"), event.fields.get("counts")
    if isinstance(calls, tuple) and isinstance(counts, tuple):
        for call, number in zip(calls, counts, strict=False):
            if isinstance(number, int):
                comm.counts.append(Count(str(call), number, 1, event, named=True))


def _take_missing(comm: Comm, event: Event) -> None:
    comm.members.append(event)
    answers = event.fields.get("unresponsive") is False and event.fields.get("dead") is False
    (comm.left if answers else comm.missing).append(event)


def _take_line(comm: Comm, event: Event, heading: Event | None, call: str) -> None:
    """One line of a block of the text report."""
    if event.number("group_rank") is not None and event.fields.get("process") is not None:
        comm.members.append(event)
    if event.kind == "ras_member":
        # names the ranks of the line in front of it: those missing, or the few with a certain count
        if heading is not None and heading.kind == "ras_ranks_missing":
            comm.missing.append(event)
        elif heading is not None and heading.kind == "ras_ranks_at":
            comm.counts.append(Count(call, heading.number("operation") or 0, 0, event, named=True))
    elif event.kind == "ras_ranks_at":
        comm.counts.append(
            Count(call, event.number("operation") or 0, event.number("ranks_there") or 0, event, named=False)
        )
    elif event.kind == "ras_rank_at":
        comm.counts.append(Count(call, event.number("operation") or 0, 1, event, named=True))
    elif event.kind == "ras_rank_status" and event.fields.get("status") in ("NOCOMM", "UNKNOWN"):
        comm.left.append(event)
