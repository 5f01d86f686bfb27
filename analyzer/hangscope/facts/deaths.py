"""How processes of the job ended, as their supervisors tell it: torchrun, shells, Slurm, MPI, Kubernetes and others.

Several supervisors speak of one death; what they say is joined by rank, else by process id. Processes that a
launcher ended itself after the first failure are victims.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.death import Death, how, signal_name, signal_of_code
from hangscope.facts.one_node import is_one_node
from hangscope.facts.supervisors import find_reported
from hangscope.model import Event, Fact, Value

KINDS = {
    "rank_died": FactKind(
        ("how", "signal", "exitcode", "first", "victim", "died_pid", "said_by"),
        "A process of the job ended by a signal or with an exit code other than 0; `first` = a supervisor named it as "
        "the first failure, `victim` = its launcher ended it after the first failure.",
    ),
    "rank_exited_cleanly": FactKind(("died_pid", "said_by"), "A process ended with exit code 0."),
}


_Key = tuple[str, int, bool, bool]
"""What is known, the number, and of a local rank whether a pid and a rank are known as well."""
_ANYWHERE = "/"
"""No host has such a name."""


def find(job: Job) -> Iterator[Fact]:
    """One fact for each process that ended."""
    for death in find_deaths(job):
        if death.exitcode == 0 and not death.signal:
            yield _fact("rank_exited_cleanly", death, {"died_pid": death.pid, "said_by": death.said_by})
            continue
        fields: dict[str, Value] = {
            "how": how(death),
            "signal": death.signal or None,
            "exitcode": death.exitcode,
            "first": death.first,
            "victim": death.victim,
            "died_pid": death.pid,
            "said_by": death.said_by,
        }
        yield _fact("rank_died", death, fields)


def find_deaths(job: Job) -> list[Death]:
    """Every process end that a supervisor reports, several reports of one process joined."""
    deaths = _join([*_of_torchrun(job), *find_reported(job)], job)
    _mark_victims(job, deaths)
    deaths.sort(key=lambda d: (d.rank is None, d.rank or 0, d.host or "", d.pid or 0))
    return deaths


# --- torchrun --------------------------------------------------------------------------------------------


def _of_torchrun(job: Job) -> Iterator[Death]:
    """The agent's `failed (exitcode: ...)` line and the blocks of its table.

    The table says "Root Cause (first observed failure)" for the first failure that this agent noticed, whole seconds;
    whether that rank is to blame is another question (formats: torch 1.9 to 2.14).
    """
    for event in job.events.of("worker_failed"):
        code = event.number("exitcode")
        yield Death(
            host=event.host,
            pid=event.number("worker_pid"),
            local_rank=event.number("local_rank"),
            signal=signal_of_code(code),
            exitcode=code,
            first=True,
            said_by="torchrun",
            evidence=[event],
        )
    files: dict[str, list[Event]] = {}
    for event in job.events.of("failure_heading", "failure_host", "failure_rank", "failure_exitcode", "failure_signal"):
        files.setdefault(event.line.file, []).append(event)
    for events in files.values():
        yield from _blocks(sorted(events, key=lambda event: event.line.number))


def _blocks(events: Iterable[Event]) -> Iterator[Death]:
    """The blocks of one file's tables. Lines that repeat word for word (host, time) are there once only."""
    heading, host = "", None
    block: Death | None = None
    for event in events:
        if event.kind == "failure_heading":
            heading = str(event.fields.get("heading", ""))
        elif event.kind == "failure_host":
            host = str(event.fields.get("failed_host", "")) or None
        elif event.kind == "failure_rank":
            if block is not None:
                yield block
            block = Death(
                rank=event.number("failed_rank"),
                local_rank=event.number("local_rank"),
                host=host,
                first=heading.startswith("Root Cause"),
                said_by="torchrun",
                evidence=[event],
            )
        elif block is None:
            continue
        elif event.kind == "failure_exitcode":
            block.exitcode = event.number("exitcode")
            block.pid = event.number("worker_pid")
            block.signal = signal_of_code(block.exitcode)
            block.evidence.insert(0, event)
        else:
            block.signal = signal_name(event.fields.get("signal"))
            block.pid = block.pid if block.pid is not None else event.number("worker_pid")
            block.evidence.insert(0, event)
    if block is not None:
        yield block


# --- joining ---------------------------------------------------------------------------------------------


def _join(deaths: Iterable[Death], job: Job) -> list[Death]:
    """One death a process: reports with the same pid, else the same rank, else the same host and local rank."""
    by_pid = {process.pid: process for process in job.processes if process.pid is not None and process.rank is not None}
    one_node = is_one_node(job)
    joined: list[Death] = []
    index = _Index()
    for death in sorted(deaths, key=lambda d: (d.rank is None, d.pid is None)):
        if death.rank is None and death.pid in by_pid:
            death.rank = by_pid[death.pid].rank
        if death.rank is None and one_node:
            death.rank = death.local_rank
        known = next((other for other in index.candidates(death) if _same(death, other)), None)
        index.add(death, known or death)
        if known is None:
            joined.append(death)
            continue
        known.rank = known.rank if known.rank is not None else death.rank
        known.pid = known.pid if known.pid is not None else death.pid
        known.host = known.host or death.host
        known.exitcode = known.exitcode if known.exitcode is not None else death.exitcode
        if death.signal and (not known.signal or known.signal == "SIGTERM"):
            known.signal = death.signal
        known.first = known.first or death.first
        known.evidence += death.evidence
    for death in joined:
        if death.rank in job.ranks and death.host is None and death.rank is not None:
            death.host = job.ranks[death.rank].host
    return joined


class _Index:
    """Deaths by what they may be found by, each key by host: pods have equal pids and local ranks by the thousand."""

    def __init__(self) -> None:
        self._found: dict[tuple[_Key, str], list[tuple[int, Death]]] = {}
        self._added = 0

    def add(self, said: Death, death: Death) -> None:
        """Adds a death by the keys and the host that were said of it."""
        self._added += 1
        for key in _keys_of(said):
            for host in (_ANYWHERE, said.host or ""):
                self._found.setdefault((key, host), []).append((self._added, death))

    def candidates(self, death: Death) -> Iterator[Death]:
        """Those that may be the same, key by key in the order in which they came; no host is known of some."""
        for key in _keys_of_candidates(death):
            if death.host and key[0] != "rank":
                places = [self._found.get((key, host), []) for host in (death.host, "")]
                yield from (other for _, other in heapq.merge(*places, key=itemgetter(0)))
            else:
                yield from (other for _, other in self._found.get((key, _ANYWHERE), ()))


def _keys_of(death: Death) -> Iterator[_Key]:
    """By what a death may be found: its pid, its rank, its local rank (which is no word beside a pid or a rank)."""
    for name, number in (("pid", death.pid), ("rank", death.rank)):
        if number is not None:
            yield name, number, False, False
    if death.local_rank is not None:
        yield "local", death.local_rank, death.pid is not None, death.rank is not None


def _keys_of_candidates(death: Death) -> Iterator[_Key]:
    """The keys of the deaths that may be the same; all ranks of one local rank, in a large job, are many."""
    for name, number, has_pid, has_rank in _keys_of(death):
        if name != "local":
            yield name, number, has_pid, has_rank
            continue
        for other_pid in (False,) if has_pid else (True, False):
            for other_rank in (False,) if has_rank else (True, False):
                yield name, number, other_pid, other_rank


def _same(one: Death, other: Death) -> bool:
    if one.pid is not None and other.pid is not None:
        return one.pid == other.pid and (one.host is None or other.host is None or one.host == other.host)
    if one.rank is not None and other.rank is not None:
        return one.rank == other.rank
    known = one.local_rank is not None and one.local_rank == other.local_rank
    return known and (one.host == other.host or one.host is None or other.host is None)


def _mark_victims(job: Job, deaths: list[Death]) -> None:
    """Marks those that a launcher ended: it says so, or they got SIGTERM while another process failed by itself."""
    closed = {event.fields.get("worker_pid") for event in job.events.of("closing_signal", "forced_kill")}
    closed |= {event.fields.get("killed_pid") for event in job.events.of("deepspeed_killing")}
    by_hand = {death.pid for death in deaths if death.first}
    for death in deaths:
        ended = death.pid is not None and death.pid in closed and death.pid not in by_hand
        death.victim = ended and death.signal in ("SIGTERM", "SIGKILL", "SIGINT", "")
    failed: dict[str, int] = {}
    for event in job.events.of("sglang_child_failed", "sglang_watchdog"):
        failed[event.line.file] = min(event.line.number, failed.get(event.line.file, event.line.number))
    for death in deaths:
        # SGLang ends the whole tree of its processes, itself too, when a child fails or its watchdog fires
        if death.said_by == "the shell" and death.signal == "SIGKILL" and death.pid is None:
            line = death.evidence[0].line
            death.victim = failed.get(line.file, line.number) < line.number
    own = [death for death in deaths if not death.victim and death.signal != "SIGTERM" and death.exitcode != 0]
    for death in deaths:
        if death.signal == "SIGTERM" and not death.first and own:
            death.victim = True


def _fact(kind: str, death: Death, fields: dict[str, Value]) -> Fact:
    return Fact(
        kind=kind,
        fields=fields,
        ranks=() if death.rank is None else (death.rank,),
        hosts=() if death.host is None else (death.host,),
        time=next((event.time for event in death.evidence if event.time is not None), None),
        evidence=tuple(evidence_of(event, f"{death.said_by} says how it ended") for event in death.evidence),
    )
