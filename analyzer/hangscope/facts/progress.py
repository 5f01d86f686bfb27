"""How far every rank has come in every process group, as the watchdogs, dump signals and desync reports tell it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field, replace

from hangscope.align.claims import MAX_RANKS
from hangscope.align.job import Job
from hangscope.model import Event, Value
from hangscope.records import dataclass

DEFAULT = "default"
_UNKNOWN_SIZES = frozenset({-1, 2**64 - 1})
_WORKS = ("watchdog_timeout", "blocking_wait_timeout", "watchdog_async_error")
_COUNTERS = ("watchdog_progress", "watchdog_dump_signal", "watchdog_remote_dump_signal", "watchdog_idle_progress")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call of one rank that did not end in time."""

    rank: int
    seq: int
    op: str
    input_numel: int | None
    output_numel: int | None
    shape: str
    timeout_ms: int | None
    ran_ms: int
    event: Event
    group_size: int | None = None

    @property
    def size(self) -> str:
        """The size as printed, "" when it is not known."""
        if self.input_numel is not None and self.input_numel not in _UNKNOWN_SIZES:
            return f"{self.input_numel} elements in, {self.output_numel} out" if self.output_numel is not None else ""
        return f"shape [{self.shape}]" if self.shape else ""

    @property
    def is_gather_like(self) -> bool:
        """A coalesced gather: its output is a whole multiple (2 or more) of its input."""
        if not self.input_numel or not self.output_numel or self.input_numel in _UNKNOWN_SIZES:
            return False
        return self.output_numel % self.input_numel == 0 and self.output_numel > self.input_numel


@dataclass(slots=True)
class GroupProgress:
    """What the ranks of one group say of their progress.

    Attributes:
        key, name: identity of the group and how it is shown.
        waiting: rank -> its earliest call that timed out.
        enqueued, completed: rank -> last enqueued and last completed call.
        last_words: rank -> the line with these counters.
        never_joined, never_joined_seq: ranks that a desync report says never joined a call, and that call.
        reports: the lines of the desync report.
        listed: all ranks that a desync report lists, when it names nobody as late.
        hosts: rank -> its hosts.
    """

    key: str
    name: str
    waiting: dict[int, Waiting] = field(default_factory=dict)
    enqueued: dict[int, int] = field(default_factory=dict)
    completed: dict[int, int] = field(default_factory=dict)
    last_words: dict[int, Event] = field(default_factory=dict)
    never_joined: tuple[int, ...] = ()
    never_joined_seq: int = 0
    reports: list[Event] = field(default_factory=list)
    listed: tuple[int, ...] = ()
    hosts: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_default(self) -> bool:
        return self.key == DEFAULT

    @property
    def started(self) -> float:
        """When the first wait of the group began."""
        times = [w.event.time - w.ran_ms / 1000 for w in self.waiting.values() if w.event.time is not None]
        return min(times, default=math.inf)

    def members(self, job: Job) -> tuple[int, ...]:
        """Global ranks of the group: those that a desync report lists, or the world; () when they are not known."""
        seen = {*self.waiting, *self.enqueued}
        if self.listed:
            return self.listed
        if not self.is_default:
            return ()
        world = job.world_size or max([*seen, *job.ranks], default=-1) + 1
        world = max(world, max(seen, default=-1) + 1)
        return tuple(range(world)) if world <= MAX_RANKS else ()


def group_progress(job: Job) -> list[GroupProgress]:
    """The groups with something to tell, the one in which the waiting began first."""
    groups: dict[str, GroupProgress] = {}
    known = _groups_of_works(job.events.of(*_COUNTERS))
    for event in job.events.of(*_COUNTERS):
        _take_counters(groups, event)
    owner: dict[str, int] = {}
    for event in sorted(job.events.of(*_WORKS, "watchdog_timeout_heading"), key=lambda e: (e.line.file, e.line.number)):
        if event.kind == "watchdog_timeout_heading":
            rank = _rank(event, is_default=True)
            if rank is not None:
                owner[event.line.file] = rank
            continue
        _take_work(groups, event, known, owner.pop(event.line.file, None))
    _take_reports(groups, job)
    for process in job.processes:
        if process.rank is not None and process.host:
            for group in groups.values():
                group.hosts[process.rank] = (process.host,)
    return sorted(groups.values(), key=lambda group: (group.started, len(group.waiting), group.key))


def _key(fields: dict[str, Value]) -> tuple[str, str]:
    """Key and shown name of the group that a line's prefix names; ("", "") when it names none.

    The number before "PG GUID" is local to the process; the GUID is the group's name (2.5 on), as is PG before it.
    """
    name, desc = fields.get("pg_guid", fields.get("pg_name")), fields.get("pg_desc")
    if name is None:
        return "", ""
    if name in ("0", "default_pg") or desc == "default_pg":
        return DEFAULT, "default_pg"
    return str(name), f"{name}({desc})" if desc else str(name)


def _rank(event: Event, *, is_default: bool) -> int | None:
    """The global rank that a line speaks of: torch's own prefix, else the rank in the group when that is the world."""
    if event.line.rank is not None and event.line.rank_source == "rank-prefix":
        return event.line.rank
    inside = event.fields.get("group_rank")
    if isinstance(inside, int) and is_default:
        return inside if 0 <= inside < MAX_RANKS else None
    return event.rank


def _groups_of_works(counters: Iterable[Event]) -> dict[tuple[int | None, int], tuple[str, str]]:
    """(rank, seq) -> group: a work's own line does not name its group, the counters beside it do."""
    known: dict[tuple[int | None, int], tuple[str, str]] = {}
    for event in counters:
        key, seq = _key(event.fields), event.fields.get("seq")
        if key[0] and isinstance(seq, int):
            known[(_rank(event, is_default=key[0] == DEFAULT), seq)] = key
    return known


def _take_counters(groups: dict[str, GroupProgress], event: Event) -> None:
    key, name = _key(event.fields)
    key, name = (key, name) if key else (DEFAULT, "default_pg")
    if event.kind in ("watchdog_dump_signal", "watchdog_remote_dump_signal"):
        # these lines are printed by the monitor of the default group and count its calls (2.5 on)
        key, name = (key, name) if key == DEFAULT else ("", "")
    rank = _rank(event, is_default=key == DEFAULT) if key else None
    last, done = event.fields.get("last_enqueued"), event.fields.get("last_completed")
    if rank is None or not isinstance(last, int) or not isinstance(done, int):
        return
    group = groups.setdefault(key, GroupProgress(key, name))
    # the counters at the time of the failure count; what a rank enqueues while it dies does not
    if rank not in group.enqueued:
        group.enqueued[rank], group.completed[rank], group.last_words[rank] = last, done, event
    seq = event.fields.get("seq")
    if isinstance(seq, int) and rank not in group.waiting:
        # its own line about the work is cut off or elsewhere; that it waits is certain
        group.waiting[rank] = _waiting(rank, seq, event)


def _take_work(
    groups: dict[str, GroupProgress],
    event: Event,
    known: dict[tuple[int | None, int], tuple[str, str]],
    owner: int | None,
) -> None:
    seq = event.fields.get("seq")
    if not isinstance(seq, int):
        return
    key, name = _key(event.fields)
    rank = (
        owner
        if owner is not None and "group_rank" not in event.fields
        else _rank(event, is_default=not key or key == DEFAULT)
    )
    if rank is None:
        return
    if not key:
        key, name = known.get((rank, seq), ("", ""))
    if not key:
        inside = event.fields.get("group_rank", rank)
        if inside != rank:
            return  # another group than the world's, and nothing says which
        key, name = DEFAULT, "default_pg"
    group = groups.setdefault(key, GroupProgress(key, name))
    earlier = group.waiting.get(rank)
    if earlier is None or seq < earlier.seq or (seq == earlier.seq and not earlier.op):
        group.waiting[rank] = _waiting(rank, seq, event)


def _waiting(rank: int, seq: int, event: Event) -> Waiting:
    return Waiting(
        rank=rank,
        seq=seq,
        op=str(event.fields.get("op", "")),
        input_numel=event.number("input_numel"),
        output_numel=event.number("output_numel"),
        shape=str(event.fields.get("shape", "")),
        timeout_ms=event.number("timeout_ms"),
        ran_ms=event.number("ran_ms") or event.number("timeout_ms") or 0,
        event=event,
    )


def numbers(text: Value) -> tuple[int, ...]:
    """The numbers of a printed list of ranks."""
    return tuple(int(found) for found in re.findall(r"\d+", str(text)))


def _take_reports(groups: dict[str, GroupProgress], job: Job) -> None:
    """The desync report of one rank speaks of all members; several ranks' reports agree or are unions of snapshots."""
    never: dict[int, set[int]] = defaultdict(set)
    for event in job.events.of("desync_not_joined", "desync_never_joined"):
        seq = event.fields.get("seq", 1)
        never[seq if isinstance(seq, int) else 1].update(numbers(event.fields.get("group_ranks")))
    joined = job.events.of("desync_not_finished")
    if not never and not joined:
        return
    late = min(never, default=0)
    seqs = {event.fields.get("seq") for event in joined} | {late}
    group = next((g for g in groups.values() if seqs & {wait.seq for wait in g.waiting.values()}), None)
    group = group or groups.setdefault(DEFAULT, GroupProgress(DEFAULT, "default_pg"))
    if never:
        group.never_joined_seq, group.never_joined = late, tuple(sorted(never[late]))
        group.reports = job.events.of("desync_not_joined", "desync_never_joined")[:2]
        return
    _take_joined(group, joined, job.events.of("desync_rank_state"))


def _take_joined(group: GroupProgress, joined: list[Event], states: list[Event]) -> None:
    """All that the report lists have joined a call: they wait in it, in the operation that the snapshot gives them."""
    ops = {rank: str(e.fields.get("op")) for e in states for rank in numbers(e.fields.get("group_ranks"))}
    listed: set[int] = set()
    for event in joined:
        seq = event.fields.get("seq")
        if not isinstance(seq, int):
            continue
        for rank in numbers(event.fields.get("group_ranks")):
            listed.add(rank)
            if rank not in group.waiting:
                group.waiting[rank] = replace(_waiting(rank, seq, event), op=ops.get(rank, ""))
    group.listed = tuple(sorted({*listed, *ops}))
    group.reports = joined[:1]
