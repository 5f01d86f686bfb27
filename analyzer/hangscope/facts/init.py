"""Facts about communicators whose init never ended: who came, and who did not.

NCCL prints Init START with rank and size; from 2.23 on before the bootstrap, so ranks that came can be told
from one that never did. In 2.18.3 to 2.22 START comes after the bootstrap: then nobody prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangscope.align.groups import Communicator, Group
from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.error_chains import is_harmless
from hangscope.facts.init_stages import (
    NAMES,
    WAITING_FOR,
    Init,
    Stage,
    Stand,
    start_precedes_bootstrap,
    unfinished_inits,
)
from hangscope.model import Evidence, Fact, Line, Value
from hangscope.ranges import count_off, rank_words

KINDS = {
    "init_rank_absent": FactKind(
        ("absent", "came", "size", "group_name"),
        "A communicator waits in its init: some of its ranks never printed Init START, and left no other line.",
    ),
    "init_stuck": FactKind(
        ("came", "size", "group_name", "stage", "waiting_for"),
        "All ranks began a communicator's init and none completed it.",
    ),
    "init_partly_complete": FactKind(
        ("complete", "size", "group_name"), "Some ranks completed a communicator's init, others began it and did not."
    ),
    "init_silent": FactKind(
        ("processes",), "Processes whose last NCCL line is the choice of the network: they wait in the bootstrap."
    ),
    "init_rank_behind": FactKind(
        ("who", "stage", "reached", "waiting_for", "peers", "group_name"),
        "One rank, or the ranks of one host of several, came less far in an init than all others, which wait.",
    ),
}
_BOOTSTRAP_KINDS = frozenset(
    {"network_chosen", "bootstrap_interface", "net_plugin_loaded", "socket_interfaces", "ib_devices"}
)
_FEWEST_PEERS = 2


def find(job: Job) -> Iterator[Fact]:
    """Facts about each communicator that was begun and not completed, and about processes that wait before that."""
    inits = unfinished_inits(job)
    stands = {id(init.group): init.stands for init in inits}
    for group in job.groups:
        begun = [m for m in group.members if m.start is not None]
        if begun and not any(m.complete for m in group.members):
            yield from _unfinished(job, group, begun, stands.get(id(group), ()))
        elif begun and any(m.complete is None for m in begun):
            yield _partly(group, begun)
    waiting = [p for p in job.processes if _waits_in_bootstrap(p)]
    if waiting and not any(m.start or m.complete for m in job.communicators):
        yield _silent(waiting)
    for init in inits:
        yield from _behind(init)


def _unfinished(job: Job, group: Group, begun: list[Communicator], stands: Sequence[Stand]) -> Iterator[Fact]:
    came = group.ranks()
    missing = group.missing_group_ranks
    is_world = group.size == job.world_size
    absent = tuple(rank for rank in missing if rank not in job.ranks) if is_world else missing
    if missing and not (absent and _left_no_line(job, group, len(absent))):
        # they did not print START, but other lines: something else keeps them, or the rest of their log is lost
        return
    ranks = absent if is_world else ()
    if absent and all(_failed_since(m) for m in begun):
        # who came does not wait for anybody: it gave up for a reason of its own
        return
    evidence = tuple(_line(m.start, f"rank {m.group_rank} of {group.size} came") for m in begun[:8])
    fields: dict[str, Value] = {
        "absent": absent,
        "came": len(group.members),
        "size": group.size,
        "group_name": group.name,
    }
    if not absent or not start_precedes_bootstrap(job, (m.process for m in begun)):
        del fields["absent"]
        yield Fact("init_stuck", fields | _where(stands), group=group.name, affected=came, evidence=evidence)
        return
    chosen = (_waiting(m.process) for m in begun[:4])
    last = tuple(line for line in chosen if line is not None)
    yield Fact(
        "init_rank_absent",
        fields,
        ranks=ranks,
        hosts=_missing_host(group, absent),
        group=group.name,
        affected=came,
        evidence=(*last, *evidence),
    )


def _failed_since(member: Communicator) -> bool:
    """Whether the process carried an error out of NCCL after it had begun this init."""
    start = member.start
    return start is not None and any(
        not is_harmless(event) and (event.line.file, event.line.number) > (start.file, start.number)
        for event in member.process.by_kind.of("error_arrow")
    )


def _where(stands: Sequence[Stand]) -> dict[str, Value]:
    """Where those stand who began an init: the step, when it is one, and what NCCL waits for there."""
    stages = {stand.stage for stand in stands}
    if not stages:
        return {}
    names = [f'"{NAMES[stage]}"' for stage in sorted(stages)]
    # who came furthest waits for the rest
    return {"stage": " and ".join(names), "waiting_for": WAITING_FOR[max(stages)]}


def _behind(init: Init) -> Iterator[Fact]:
    """Who came less far than all others: one rank, or the ranks of one host of three or more.

    Who still lays out or connects is no measure: which neighbour comes first differs from rank to rank.
    """
    stands = init.stands
    least = min(stand.stage for stand in stands)
    late = [stand for stand in stands if stand.stage == least]
    peers = [stand for stand in stands if stand.stage != least]
    if any(stand.cut for stand in late) or len(peers) < _FEWEST_PEERS:
        return
    hosts = {stand.process.host for stand in late}
    others = {stand.process.host for stand in peers}
    is_alone = len(late) == 1 or (len(hosts) == 1 and not hosts & others and len(others) > 1)
    reached = min(stand.stage for stand in peers)
    if not is_alone or (least >= Stage.LAYOUT and reached < Stage.CONNECTED):
        return
    if (least, reached) == (Stage.BOOTSTRAPPED, Stage.TOPOLOGY) and not hosts & others:
        # on some machines there is no affinity to set, and NCCL before 2.17 prints nothing else there
        return
    fields: dict[str, Value] = {
        "who": _names(late),
        "stage": NAMES[least],
        "reached": NAMES[reached],
        "waiting_for": WAITING_FOR[reached],
        "peers": len(peers),
        "group_name": init.name,
    }
    lines = [evidence_of(s.shown_by, "the last milestone that it reached") for s in late[:4] if s.shown_by]
    lines += [evidence_of(s.shown_by, "its peers came further") for s in peers[:4] if s.shown_by]
    ranks = tuple(sorted(stand.rank for stand in late if stand.rank is not None))
    affected = tuple(sorted(stand.rank for stand in peers if stand.rank is not None))
    where = tuple(sorted(host for host in hosts if host))
    yield Fact(
        "init_rank_behind", fields, ranks=ranks, hosts=where, group=init.name, affected=affected, evidence=tuple(lines)
    )


def _names(stands: Sequence[Stand]) -> str:
    """``rank 3``, ``ranks 4-7``, or the processes where nobody knows their ranks."""
    ranks = [stand.rank for stand in stands if stand.rank is not None]
    if len(ranks) == len(stands):
        return rank_words(ranks)
    pids = [stand.process.pid for stand in stands if stand.process.pid is not None]
    kind = "the process" if len(stands) == 1 else "the processes"
    return f"{kind} {count_off(pids)}" if len(pids) == len(stands) else kind


def _left_no_line(job: Job, group: Group, absent: int) -> bool:
    """Whether so many ranks can be without any line: not when other processes of NCCL are there that may be they."""
    inside = {id(m.process) for m in group.members}
    others = [p for p in job.processes if id(p) not in inside and any(e.source.startswith("nccl") for e in p.events)]
    if group.size == job.world_size:
        others = [p for p in others if p.rank is None]
    return len(others) < absent


def _partly(group: Group, begun: list[Communicator]) -> Fact:
    late = [m for m in begun if m.complete is None]
    ranks = tuple(sorted({m.process.rank for m in late if m.process.rank is not None}))
    hosts = tuple(sorted({m.process.host for m in late if m.process.host}))
    others = tuple(sorted(set(group.ranks()) - set(ranks)))
    evidence = tuple(_last(m.process) for m in late[:8] if m.process.last_line is not None)
    fields: dict[str, Value] = {"complete": len(begun) - len(late), "size": group.size, "group_name": group.name}
    return Fact(
        "init_partly_complete", fields, ranks=ranks, hosts=hosts, group=group.name, affected=others, evidence=evidence
    )


def _missing_host(group: Group, absent: tuple[int, ...]) -> tuple[str, ...]:
    """The host of absent ranks, when their neighbours on both sides share one (ranks are numbered host by host)."""
    hosts = {m.group_rank: m.process.host for m in group.members if m.process.host}
    found = set()
    for rank in absent:
        below = max((r for r in hosts if r is not None and r < rank), default=None)
        above = min((r for r in hosts if r is not None and r > rank), default=None)
        if below is not None and above is not None and hosts[below] == hosts[above]:
            found.add(str(hosts[below]))
    return tuple(sorted(found))


def _waits_in_bootstrap(process: Process) -> bool:
    last = next((event for event in reversed(process.events) if event.source.startswith("nccl")), None)
    return last is not None and last.kind in _BOOTSTRAP_KINDS


def _waiting(process: Process) -> Evidence | None:
    """The line that shows where the process waits: the choice of the network, which comes just before the bootstrap."""
    event = process.by_kind.last("network_chosen")
    if event is not None:
        return evidence_of(event, "after this it waits for the others")
    return _last(process) if process.last_line is not None else None


def _silent(waiting: list[Process]) -> Fact:
    hosts = tuple(sorted({p.host for p in waiting if p.host}))
    evidence = tuple(
        evidence_of(next(e for e in reversed(p.events) if e.kind in _BOOTSTRAP_KINDS), "the last it said")
        for p in waiting[:8]
    )
    return Fact("init_silent", {"processes": len(waiting)}, hosts=hosts, evidence=evidence)


def _line(line: Line | None, why: str) -> Evidence:
    if line is None:
        raise ValueError("a communicator that began has a START line")
    return Evidence(line.location, line.raw, why)


def _last(process: Process) -> Evidence:
    line = process.last_line
    name = f"rank {process.rank}" if process.rank is not None else "this process"
    return _line(line, f"the last line of {name}")
