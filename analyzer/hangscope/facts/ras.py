"""Facts from RAS reports (NCCL 2.24 and later): ranks behind or ahead, ranks that do not answer, counts that stand.

RAS counts five collectives when they are launched, and no other call. A running job differs by a few at any moment,
so a difference counts only beside logs that do not end well, or when a second report shows the same numbers. A process
that is dead, stopped or cut off is missing in the same words; survivors that gave up after an error are missing too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangscope.align.claims import MAX_RANKS
from hangscope.align.job import Job
from hangscope.align.ras_reports import Comm, Report, last_reports, process_of, read_reports, world_of
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.vanished import LOSS_KINDS
from hangscope.model import Event, Evidence, Fact, Value

_PROCESS = ("group_rank", "process", "node", "gpu")
_COUNTED = ("call", "operation", "others", "with_logs", "frozen", "trusted")
_SILENT = ("unanswered", "with_logs", "dead", "trusted")
KINDS = {
    "ras_rank": FactKind((*_PROCESS, "status", "calls", "counts"), "A rank of a communicator in a JSON report of RAS."),
    "ras_rank_missing": FactKind(
        (*_PROCESS, "unresponsive", "dead"), "A rank of which a JSON report of RAS has no data."
    ),
    "ras_rank_behind": FactKind(
        _COUNTED,
        "A RAS report names a rank that launched fewer collectives than most; `frozen` = an earlier report has the "
        "same counts, `trusted` = frozen, or beside logs.",
    ),
    "ras_rank_ahead": FactKind(_COUNTED, "A RAS report names a rank that launched more collectives than all others."),
    "ras_rank_differs": FactKind(
        ("more", "fewer", "with_logs", "frozen", "trusted"),
        "A RAS report names a rank that launched more of one collective and fewer of another than all others.",
    ),
    "ras_cycle": FactKind(
        ("groups", "with_logs", "frozen", "trusted"),
        "Of two communicators, ranks that are ahead in one are behind in the other, and the other way round.",
    ),
    "ras_counts_differ_once": FactKind(
        ("call",), "The counts of a report differ, and no second report shows whether they move."
    ),
    "ras_counts_equal": FactKind(
        ("communicators",),
        "Two reports have the same counts, the ranks of each communicator are equal, nobody is missing.",
    ),
    "ras_counts_move": FactKind(("call", "before", "now"), "A second report has higher counts: the job goes on."),
    "ras_rank_silent": FactKind(
        _SILENT,
        "A RAS report names ranks whose process does not answer; `dead` = for a minute, `trusted` = dead, missing in "
        "an earlier report as well, or beside logs.",
    ),
    "ras_host_silent": FactKind(_SILENT, "All ranks of one host do not answer RAS, all others do."),
    "ras_rank_left": FactKind(
        ("with_logs",), "A rank's process answers RAS and has no such communicator any more, while its peers use it."
    ),
}
_LOST = ("PEER_DEAD", "PEER_TIMEOUT_DEAD", "PEER_UNRESPONSIVE")
_BACK = ("PEER_RECOVERED", "PEER_CONNECTED", "PEER_NEW")


def find(job: Job) -> Iterator[Fact]:
    """Facts of the last report: earlier ones tell where the ranks were then."""
    if not job.events.has("ras_comm", "ras_monitor_event"):
        return
    for last, before in last_reports(read_reports(job.parsed)):
        yield from _Reading(job, last, before).facts()
    yield from _lost_peers(job)


def ras_counts(job: Job) -> list[tuple[Comm, dict[int, int | None]]]:
    """How many collectives of all kinds each rank launched on each communicator, None for those that do not answer.

    By the last report, in JSON rather than in text: a text names only the ranks that differ, and the others have
    launched what most have.
    """
    if not job.events.has("ras_comm"):
        return []
    for report in sorted((last for last, _ in last_reports(read_reports(job.parsed))), key=lambda one: one.form):
        reading = _Reading(job, report, ())
        counted = [(comm, reading.launched(comm)) for comm in report.comms.values()]
        if any(number is not None for _, counts in counted for number in counts.values()):
            return counted
    return []


class _Reading:
    """What one report says, beside an earlier one if there is one."""

    def __init__(self, job: Job, report: Report, before: Sequence[Report]) -> None:
        self._job = job
        self._report = report
        self._history = before
        self._before = before[-1] if before else None
        self._logs = bool(job.communicators)
        self._world = world_of(report)
        self._owners = _ranks_by_pid(job)

    def facts(self) -> Iterator[Fact]:
        """All facts."""
        moving = [comm for comm in self._report.comms.values() if self._moves(comm)]
        if moving:
            yield self._moved(moving[0])
        standing = [comm for comm in self._report.comms.values() if comm not in moving]
        cycles = list(self._cycles(standing)) if self._report.form == "json" else []
        yield from cycles
        for comm in standing:
            if not cycles:
                yield from self._partings(comm)
            yield from self._silent(comm)
            yield from self._left(comm)
        if not moving and self._report.form == "json":
            yield from self._equal(standing)

    def launched(self, comm: Comm) -> dict[int, int | None]:
        """Rank -> how many collectives it launched, None when that is not known."""
        is_text, alone = self._report.form == "text", len(self._report.comms) == 1
        size = comm.size if comm.size is not None and comm.size <= MAX_RANKS else 0
        everybody = range(size) if is_text and (alone or size == self._job.world_size) else ()
        silent = {self._rank(event) for event in comm.missing}
        found: dict[int, int | None] = dict.fromkeys(
            {*everybody, *(self._rank(e) for e in comm.members), *silent} - {None}
        )
        for call in _calls(comm):
            usual = _usual(comm, call)
            named = {self._rank(c.event): c.number for c in comm.counts if c.named and c.call == call}
            for rank, before in found.items():
                if rank not in silent and (rank in named or rank in everybody):
                    found[rank] = (before or 0) + named.get(rank, usual)
        return dict(sorted(found.items()))

    # --- two reports ------------------------------------------------------------------------------------

    def _earlier(self, comm: Comm) -> Comm | None:
        return self._before.comms.get(comm.key) if self._before is not None else None

    def _moves(self, comm: Comm) -> bool:
        earlier = self._earlier(comm)
        return earlier is not None and bool(earlier.counts) and bool(comm.counts) and earlier.standing != comm.standing

    def _frozen(self, comm: Comm) -> bool:
        earlier = self._earlier(comm)
        return earlier is not None and bool(comm.counts) and earlier.standing == comm.standing

    def _moved(self, comm: Comm) -> Fact:
        earlier = self._earlier(comm)
        old = {(c.call, c.event.fields.get("group_rank")): c for c in earlier.counts} if earlier is not None else {}
        for now in comm.counts:
            then = old.get((now.call, now.event.fields.get("group_rank")))
            if then is not None and then.number != now.number:
                fields: dict[str, Value] = {"call": now.call, "before": then.number, "now": now.number}
                shown = (evidence_of(now.event, "a later report"), evidence_of(then.event, "an earlier report"))
                return Fact("ras_counts_move", fields, time=self._report.time, evidence=shown)
        return Fact("ras_counts_move", {}, time=self._report.time, evidence=_head(comm))

    def _equal(self, comms: list[Comm]) -> Iterator[Fact]:
        if not comms or not all(self._frozen(comm) and not comm.missing and not comm.left for comm in comms):
            return
        used = [comm for comm in comms if any(count.number for count in comm.counts)]
        if not used or any(
            len({c.number for c in comm.counts if c.call == call}) > 1 for comm in comms for call in _calls(comm)
        ):
            return
        shown = [*(evidence_of(comm.counts[0].event, "its counts stand") for comm in used[:4])]
        members = {rank for comm in used for event in comm.members if (rank := self._rank(event)) is not None}
        fields: dict[str, Value] = {"communicators": len(used)}
        affected = tuple(sorted(members))
        yield Fact("ras_counts_equal", fields, affected=affected, time=self._report.time, evidence=tuple(shown))

    # --- counts -----------------------------------------------------------------------------------------

    def _partings(self, comm: Comm) -> Iterator[Fact]:
        """Ranks whose counts are not those of most."""
        usual = {call: _usual(comm, call) for call in _calls(comm)}
        named: dict[int, dict[str, tuple[int, Event]]] = defaultdict(dict)
        for count in comm.counts:
            rank = self._rank(count.event) if count.named else None
            if rank is not None and count.number != usual[count.call]:
                named[rank][count.call] = (count.number - usual[count.call], count.event)
        frozen = self._frozen(comm)
        trust: dict[str, Value] = {"with_logs": self._logs, "frozen": frozen, "trusted": self._logs or frozen}
        ahead = [rank for rank, calls in named.items() if all(delta > 0 for delta, _ in calls.values())]
        for rank, calls in sorted(named.items()):
            fewer = [(delta, call, event) for call, (delta, event) in calls.items() if delta < 0]
            more = [(delta, call, event) for call, (delta, event) in calls.items() if delta > 0]
            if fewer and more:
                told: dict[str, Value] = {"more": _names(more), "fewer": _names(fewer)}
                yield self._about("ras_rank_differs", rank, told | trust, comm, (more[0][2], "differs from its peers"))
                continue
            if more and len(ahead) > 1:
                # several went on, and most did not: who of them is wrong cannot be told
                continue
            for delta, call, event in fewer or more:
                fields: dict[str, Value] = {"call": call, "operation": usual[call] + delta, "others": usual[call]}
                kind, why = (
                    ("ras_rank_behind", "fewer than its peers") if fewer else ("ras_rank_ahead", "more than its peers")
                )
                yield self._about(kind, rank, fields | trust, comm, (event, why))
        if not self._logs and self._before is None:
            for call in _calls(comm):
                differing = [count for count in comm.counts if count.call == call and count.number != usual[call]]
                if differing:
                    shown = (*_head(comm), evidence_of(differing[0].event, "other counts than most"))
                    yield Fact("ras_counts_differ_once", {"call": call}, time=self._report.time, evidence=shown)
                    break

    def _about(self, kind: str, rank: int, fields: dict[str, Value], comm: Comm, seen: tuple[Event, str]) -> Fact:
        event, why = seen
        members = {r for e in comm.members if (r := self._rank(e)) is not None} | set(self._job.ranks)
        affected = tuple(sorted(members - {rank}))
        hosts = self._hosts(rank, event)
        evidence = (*_head(comm), evidence_of(event, why))
        return Fact(
            kind, fields, ranks=(rank,), hosts=hosts, affected=affected, time=self._report.time, evidence=evidence
        )

    def _cycles(self, comms: list[Comm]) -> Iterator[Fact]:
        """Pairs of communicators in which the same ranks part in opposite ways."""
        sides = [(comm, *_sides(comm)) for comm in comms]
        parted = [(comm, high, low) for comm, high, low in sides if high and low]
        for at, (one, high, low) in enumerate(parted[:200]):
            for other, high_there, low_there in parted[at + 1 : 200]:
                if not (high & low_there and low & high_there):
                    continue
                frozen = self._frozen(one) and self._frozen(other)
                fields: dict[str, Value] = {
                    "groups": tuple(f"{comm.head.fields.get('comm_hash') or 0:x}" for comm in (one, other)),
                    "with_logs": self._logs,
                    "frozen": frozen,
                    "trusted": self._logs or frozen,
                }
                events = [event for comm in (one, other) for event in comm.members]
                crossed = (high & low_there) | (low & high_there)
                ranks = {r for e in events if process_of(e) in crossed and (r := self._rank(e)) is not None}
                shown = [*_head(one), *_head(other)]
                shown += [evidence_of(count.event, "its counts") for count in (*one.counts[:1], *other.counts[:1])]
                who = tuple(sorted(ranks))
                yield Fact(
                    "ras_cycle", fields, who, self._job.hosts_of(who), time=self._report.time, evidence=tuple(shown)
                )
                return

    # --- who does not answer ----------------------------------------------------------------------------

    def _silent(self, comm: Comm) -> Iterator[Fact]:
        named = {rank: event for event in comm.missing if (rank := self._rank(event)) is not None}
        earlier = self._earlier(comm)
        again = {event.fields.get("process") for event in earlier.missing} if earlier is not None else set()
        trust: dict[str, Value] = {
            "with_logs": self._logs,
            "dead": all(event.fields.get("process") in self._report.dead for event in named.values()),
            "trusted": self._logs or all(e.fields.get("process") in self._report.dead | again for e in named.values()),
        }
        yield from _silence(self._job, named, (*_head(comm), *self._seen_before(comm)), self._report.time, trust)

    def _seen_before(self, comm: Comm) -> Iterator[Evidence]:
        """The summaries of earlier reports that lack the same processes."""
        lacking = {event.fields.get("process") for event in comm.missing}
        for report in self._history[-2:]:
            earlier = report.comms.get(comm.key)
            if earlier is not None and lacking <= {event.fields.get("process") for event in earlier.missing}:
                yield from _head(earlier)[:1]

    def _left(self, comm: Comm) -> Iterator[Fact]:
        """Ranks that live and have given the communicator up; not those that lost a peer before."""
        witnesses = {event.rank for event in self._job.events.of(*LOSS_KINDS)}
        for event in comm.left:
            rank = self._rank(event)
            if rank is not None and rank not in witnesses and len(comm.left) * 2 < (comm.size or 3):
                fields: dict[str, Value] = {"with_logs": self._logs}
                yield self._about("ras_rank_left", rank, fields, comm, (event, "answers, and has no such communicator"))

    # --- names ------------------------------------------------------------------------------------------

    def _rank(self, event: Event) -> int | None:
        """The global rank of a RAS member: by its process, else by its number in the communicator of the world."""
        pid, number = event.fields.get("process"), event.number("group_rank")
        owners = self._owners.get(pid, ()) if isinstance(pid, int) else ()
        if len(owners) == 1:
            return next(iter(owners))
        process = process_of(event)
        if process in self._world:
            return self._world[process]
        return number if not self._job.ranks and len(self._report.comms) == 1 else None

    def _hosts(self, rank: int, event: Event) -> tuple[str, ...]:
        node = event.fields.get("node")
        return self._job.hosts_of((rank,)) or ((str(node),) if node else ())


def _silence(
    job: Job, named: dict[int, Event], head: tuple[Evidence, ...], time: float | None, trust: dict[str, Value]
) -> Iterator[Fact]:
    witnesses = {event.rank for event in job.events.of(*LOSS_KINDS)}
    behind = {rank for call in job.stuck for rank in call.missing}
    suspects = set(named) - witnesses
    ranks = tuple(sorted(suspects & behind or suspects))
    if not ranks:
        return
    nodes = {str(node) for rank in ranks if (node := named[rank].fields.get("node"))}
    hosts = job.hosts_of(ranks) or tuple(sorted(nodes))
    evidence = (*head, *(evidence_of(named[rank], "this process does not answer") for rank in ranks[:6]))
    fields: dict[str, Value] = {"unanswered": tuple(sorted(named)), **trust}
    affected = tuple(sorted(set(job.ranks) - set(ranks)))
    of_host = {rank for rank, process in job.ranks.items() if process.host in hosts}
    if len(hosts) == 1 and len(job.hosts) > 1 and of_host <= set(named) and len(of_host) > 1 and set(named) == of_host:
        others = tuple(sorted(set(job.ranks) - of_host))
        yield Fact(
            "ras_host_silent",
            fields,
            ranks=tuple(sorted(of_host)),
            hosts=hosts,
            affected=others,
            time=time,
            evidence=evidence,
        )
    else:
        yield Fact("ras_rank_silent", fields, ranks=ranks, hosts=hosts, affected=affected, time=time, evidence=evidence)


def _lost_peers(job: Job) -> Iterator[Fact]:
    """Peers that the monitor calls dead or unresponsive, and that did not come back."""
    last: dict[int, Event] = {}
    for event in job.events.of("ras_monitor_event"):
        pid, what = event.number("process"), event.fields.get("event")
        if pid is not None and what in (*_LOST, *_BACK):
            last[pid] = event
    owners = _ranks_by_pid(job)
    named = {
        next(iter(owners[pid])): event
        for pid, event in last.items()
        if event.fields.get("event") in _LOST and len(owners.get(pid, ())) == 1
    }
    trust: dict[str, Value] = {"with_logs": bool(job.communicators), "dead": True, "trusted": True}
    yield from _silence(job, named, (), None, trust)


def _ranks_by_pid(job: Job) -> dict[int, set[int]]:
    """The ranks of the processes with that id; two hosts may have the same."""
    owners: dict[int, set[int]] = defaultdict(set)
    for process in job.processes:
        if process.pid is not None and process.rank is not None:
            owners[process.pid].add(process.rank)
    return owners


def _calls(comm: Comm) -> list[str]:
    return list(dict.fromkeys(count.call for count in comm.counts))


def _usual(comm: Comm, call: str) -> int:
    """The count of most ranks; the higher one of two with equally many."""
    there: Counter[int] = Counter()
    for count in comm.counts:
        if count.call == call:
            there[count.number] += count.ranks
    return max(there.items(), key=lambda item: (item[1], item[0]))[0]


def _sides(comm: Comm) -> tuple[set[tuple[object, object]], set[tuple[object, object]]]:
    """The processes with the highest and with the lowest sum of counts; empty when all are equal."""
    sums: Counter[tuple[object, object]] = Counter()
    for count in comm.counts:
        sums[process_of(count.event)] += count.number
    if len(set(sums.values())) < 2:
        return set(), set()
    most, least = max(sums.values()), min(sums.values())
    return {p for p, n in sums.items() if n == most}, {p for p, n in sums.items() if n == least}


def _names(calls: Iterable[tuple[int, str, Event]]) -> str:
    return ", ".join(sorted(call for _, call, _ in calls))


def _head(comm: Comm) -> tuple[Evidence, ...]:
    table = (evidence_of(comm.table, "the report's summary"),) if comm.table is not None else ()
    return (*table, evidence_of(comm.head, "the communicator"))
