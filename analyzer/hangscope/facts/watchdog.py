"""Facts from the watchdogs of all ranks, lined up by group and call: who is behind, ahead, silent or different.

A watchdog line names a call that did not end and how far its own rank has come. One rank's lines prove nothing;
compared over the ranks of a group they show who never made the call (torch 1.8 to 2.14).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.progress import GroupProgress, Waiting, group_progress
from hangscope.model import Event, Evidence, Fact, Value

_FIELDS = ("seq", "op", "arrived", "missing", "found", "expected", "tie")
KINDS = {
    "watchdog_rank_behind": FactKind(
        _FIELDS, "A rank's last enqueued call is below the one in which its peers time out."
    ),
    "watchdog_rank_ahead": FactKind(
        _FIELDS, "One rank waits in a call that its idle peers have not reached: it left out what they wait for."
    ),
    "watchdog_rank_silent": FactKind(
        _FIELDS, "All ranks of a group but a few time out in one call; the few print nothing about it."
    ),
    "watchdog_counts_apart": FactKind(
        (*_FIELDS, "further"),
        "Ranks wait in one call of a group which others of the group have completed: they do not count the same calls.",
    ),
    "watchdog_op_mismatch": FactKind(
        _FIELDS, "Ranks wait at one sequence number of one group in different operations."
    ),
    "watchdog_size_mismatch": FactKind(
        _FIELDS, "Ranks wait at one sequence number in one operation with different sizes."
    ),
    "watchdog_all_joined": FactKind(_FIELDS, "Every rank of a group has enqueued the same call and none completes it."),
    "watchdog_limit_tiny": FactKind(
        ("timeout_ms", "op", "seq"), "A call was given a timeout far below the usual minutes."
    ),
}

_NOT_COMPARABLE = frozenset({"SEND", "RECV", "RECVANYSOURCE", "COALESCED", "UNKNOWN"})
"""Point-to-point calls differ between ranks by nature, and a COALESCED work may hold anything."""

_ENDS_TOGETHER = frozenset(
    {"ALLREDUCE", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER", "_REDUCE_SCATTER_BASE", "BARRIER"}
    | {"ALLREDUCE_COALESCED", "ALLGATHER_COALESCED", "ALLTOALL", "ALLTOALL_BASE"}
)
"""No rank can end these before all have begun them."""

_SIZES_VARY = frozenset({"ALLTOALL", "ALLTOALL_BASE", "GATHER", "SCATTER"})
MAIN_ONLY = frozenset({"BROADCAST", "BARRIER", "GATHER", "REDUCE", "SCATTER"})
_MANY_RANKS = 3
_SHORT_MS = 60_000


def find(job: Job) -> Iterator[Fact]:
    """What the group in which the waiting began shows, and limits that no call could keep."""
    groups = group_progress(job)
    facts: list[Fact] = []
    for group in groups:
        facts = list(_parting(group, job))
        if facts:
            break
    yield from facts
    yield from _tiny_limits(groups)


def _parting(group: GroupProgress, job: Job) -> Iterator[Fact]:
    if not group.waiting:
        yield from _ahead(group)
        return
    seq = min(wait.seq for wait in group.waiting.values())
    here = {rank: wait for rank, wait in group.waiting.items() if wait.seq == seq}
    mismatch = _op_mismatch(group, seq, here) or _size_mismatch(group, seq, here)
    if mismatch is not None:
        yield mismatch
        return
    lagging = _behind(group, seq, here)
    if lagging is not None:
        yield lagging
        return
    apart = _apart(group, seq, here)
    if apart is not None:
        yield apart
        return
    silent = _silent(group, seq, here, job)
    if silent is not None:
        yield silent
        return
    members = group.members(job)
    if len(members) > 1 and set(here) == set(members) and len({w.op for w in here.values() if w.op}) <= 1:
        yield _fact("watchdog_all_joined", group, seq, here, (), fields={})


def _op_mismatch(group: GroupProgress, seq: int, here: dict[int, Waiting]) -> Fact | None:
    calls = {rank: wait.op for rank, wait in here.items() if wait.op and wait.op not in _NOT_COMPARABLE}
    if len(set(calls.values())) < 2:
        return None
    odd, tie = odd_ones_out(calls, group.enqueued)
    if tie and len(calls) == 2:
        odd = tuple(r for r in calls if calls[r] in MAIN_ONLY and r == 0) or (max(calls),)
    names = sorted(set(calls.values()) - {calls[rank] for rank in odd}) or sorted(set(calls.values()))
    return _fact(
        "watchdog_op_mismatch",
        group,
        seq,
        here,
        odd,
        fields={"found": ", ".join(sorted({calls[rank] for rank in odd})), "expected": ", ".join(names), "tie": tie},
    )


def _size_mismatch(group: GroupProgress, seq: int, here: dict[int, Waiting]) -> Fact | None:
    sizes: dict[int, str] = {}
    for rank, wait in here.items():
        if wait.size and wait.op not in _SIZES_VARY and (wait.op not in _NOT_COMPARABLE or wait.is_gather_like):
            sizes[rank] = wait.size
    if len(set(sizes.values())) < 2 or len({here[rank].op for rank in sizes}) != 1:
        return None
    odd, tie = odd_ones_out(sizes, group.enqueued)
    rest = sorted(set(sizes.values()) - {sizes[rank] for rank in odd}) or sorted(set(sizes.values()))
    return _fact(
        "watchdog_size_mismatch",
        group,
        seq,
        here,
        odd,
        fields={"found": ", ".join(sorted({sizes[rank] for rank in odd})), "expected": ", ".join(rest), "tie": tie},
    )


def odd_ones_out(calls: dict[int, str], enqueued: dict[int, int]) -> tuple[tuple[int, ...], bool]:
    """The ranks that the majority is against, and whether there is none.

    Without a majority the ranks that came least far are odd (the others completed their version of it); when that
    does not decide either, everybody but the group of the lowest rank, whose state is what torch hands out.
    """
    counts = Counter(calls.values()).most_common()
    if counts[0][1] > sum(count for _, count in counts[1:]):
        return tuple(sorted(rank for rank, call in calls.items() if call != counts[0][0])), False
    reached = {rank: enqueued[rank] for rank in calls if rank in enqueued}
    if len(reached) == len(calls) and len(set(reached.values())) > 1:
        least = min(reached.values())
        slow = tuple(sorted(rank for rank, last in reached.items() if last == least))
        if len({calls[rank] for rank in slow}) == 1 and len(slow) < len(calls):
            return slow, True
    reference = calls[min(calls)]
    return tuple(sorted(rank for rank, call in calls.items() if call != reference)), True


def _behind(group: GroupProgress, seq: int, here: dict[int, Waiting]) -> Fact | None:
    """Ranks whose last enqueued call is below `seq`; when these are many and idle, the few in front are to blame."""
    behind = tuple(sorted(r for r, last in group.enqueued.items() if last < seq and r not in group.waiting))
    behind = tuple(sorted({*behind, *group.never_joined}))
    if not behind:
        return None
    idle = all(group.completed.get(rank) == group.enqueued.get(rank) for rank in behind)
    if idle and len(behind) > len(here) and len(behind) > 1:
        return _fact("watchdog_rank_ahead", group, seq, here, tuple(sorted(here)), fields={"missing": behind})
    late = group.never_joined_seq if group.never_joined else seq
    return _fact("watchdog_rank_behind", group, late, here, behind, fields={"missing": behind})


def _apart(group: GroupProgress, seq: int, here: dict[int, Waiting]) -> Fact | None:
    """Ranks that wait in call `seq` and ranks that have it behind them: one side made calls that the other did not.

    What only one rank has to end (the root of a broadcast, a send) says nothing. Who is right, the majority tells;
    without one, those who wait in the lower call are named: they made fewer.
    """
    if not {wait.op for wait in here.values()} <= _ENDS_TOGETHER:
        return None
    further = tuple(
        sorted(
            rank
            for rank, wait in group.waiting.items()
            if wait.seq > seq and group.completed.get(rank, wait.seq - 1) >= seq and wait.op not in _NOT_COMPARABLE
        )
    )
    if not further:
        return None
    tie = len(further) == len(here)
    odd = tuple(sorted(here)) if len(here) <= len(further) else further
    others = {rank: group.waiting[rank] for rank in further}
    fields: dict[str, Value] = {"arrived": tuple(sorted(here)), "further": further, "tie": tie}
    return _fact("watchdog_counts_apart", group, seq, here | others, odd, fields=fields)


def _ahead(group: GroupProgress) -> Iterator[Fact]:
    """No call of its own timed out here, but one rank has enqueued far more than its idle peers."""
    if group.never_joined:
        seq = group.never_joined_seq
        yield _fact("watchdog_rank_behind", group, seq, {}, group.never_joined, fields={"missing": group.never_joined})
        return
    if len(group.enqueued) < _MANY_RANKS:
        return
    (first, most), (_, second) = sorted(group.enqueued.items(), key=lambda item: -item[1])[:2]
    others = [rank for rank in group.enqueued if rank != first]
    idle = all(group.completed.get(rank) == group.enqueued[rank] for rank in others)
    if most > second + 1 and idle and group.completed.get(first) != most:
        yield _fact("watchdog_rank_ahead", group, most, {}, (first,), fields={"missing": tuple(sorted(others))})


def _silent(group: GroupProgress, seq: int, here: dict[int, Waiting], job: Job) -> Fact | None:
    ops = {wait.op for wait in here.values() if wait.op}
    if len(here) < 2 or len(ops) > 1 or ops & _NOT_COMPARABLE or set(here) != set(group.waiting):
        return None
    silent = tuple(rank for rank in group.members(job) if rank not in here)
    if not silent or len(silent) >= len(here):
        return None
    seen = [rank for rank in silent if rank in job.ranks]
    if len(seen) < len(silent) and not _share_a_file(here):
        return None
    return _fact("watchdog_rank_silent", group, seq, here, silent, fields={"missing": silent})


def _share_a_file(here: dict[int, Waiting]) -> bool:
    """Several ranks write into one file: then a rank without a line has said nothing; its log is not merely absent."""
    return len({wait.event.line.file for wait in here.values()}) < len(here)


def _tiny_limits(groups: list[GroupProgress]) -> Iterator[Fact]:
    for group in groups:
        for rank, wait in sorted(group.waiting.items()):
            if wait.timeout_ms is not None and wait.timeout_ms <= _SHORT_MS:
                fields: dict[str, Value] = {"timeout_ms": wait.timeout_ms, "op": wait.op, "seq": wait.seq}
                yield Fact(
                    "watchdog_limit_tiny",
                    fields,
                    group=group.name,
                    affected=(rank,),
                    time=wait.event.time,
                    evidence=(evidence_of(wait.event, "the limit and the call"),),
                )


def _fact(
    kind: str,
    group: GroupProgress,
    seq: int,
    here: dict[int, Waiting],
    culprits: tuple[int, ...],
    *,
    fields: dict[str, Value],
) -> Fact:
    ops = Counter(wait.op for wait in here.values() if wait.op)
    values: dict[str, Value] = {
        "seq": seq,
        "op": ops.most_common(1)[0][0] if ops else "",
        "arrived": tuple(sorted(here)),
        "missing": (),
    }
    hosts = sorted({host for rank in culprits for host in group.hosts.get(rank, ())})
    return Fact(
        kind,
        values | fields,
        ranks=culprits,
        hosts=tuple(hosts),
        group=group.name,
        affected=tuple(sorted(set(here) - set(culprits))),
        time=min((w.event.time - w.ran_ms / 1000 for w in here.values() if w.event.time is not None), default=None),
        evidence=tuple(_evidence(group, here, culprits)),
    )


def _evidence(group: GroupProgress, here: dict[int, Waiting], culprits: tuple[int, ...]) -> Iterator[Evidence]:
    """The culprits' own lines, then one line of each rank that waits."""
    for rank in culprits:
        if rank in here:
            yield evidence_of(here[rank].event, f"rank {rank}'s call")
        elif rank in group.last_words:
            yield evidence_of(group.last_words[rank], f"how far rank {rank} came")
    for event in group.reports:
        yield evidence_of(event, "the desync report")
    said: set[tuple[Value, ...]] = set()
    blamed = frozenset(culprits)
    for rank, wait in sorted(here.items()):
        call = (wait.op, wait.size)
        if rank not in blamed and (call not in said or len(said) < _MANY_RANKS):
            said.add(call)
            yield evidence_of(wait.event, f"rank {rank} waits")
    for rank, event in _peers(group, here, culprits):
        yield evidence_of(event, f"how far rank {rank} came")


def _peers(group: GroupProgress, here: dict[int, Waiting], culprits: tuple[int, ...]) -> list[tuple[int, Event]]:
    known = {*here, *culprits}
    return [(rank, event) for rank, event in sorted(group.last_words.items()) if rank not in known][:_MANY_RANKS] + [
        (rank, group.last_words[rank]) for rank in sorted(here) if rank in group.last_words
    ][:_MANY_RANKS]
