"""How processes of the job ended, as their supervisors tell it: torchrun, shells, Slurm, MPI, Kubernetes and others.

Several supervisors speak of one death; what they say is joined by rank, else by process id. Processes that a
launcher ended itself after the first failure are victims.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.one_node import is_one_node
from hangscope.model import Event, Fact, Value

KINDS = {
    "rank_died": FactKind(
        ("how", "signal", "exitcode", "first", "victim", "died_pid", "said_by"),
        "A process of the job ended by a signal or with an exit code other than 0; `first` = a supervisor named it as "
        "the first failure, `victim` = its launcher ended it after the first failure.",
    ),
    "rank_exited_cleanly": FactKind(("died_pid", "said_by"), "A process ended with exit code 0."),
}

_WORDS = {
    "killed": "SIGKILL",
    "terminated": "SIGTERM",
    "segmentation fault": "SIGSEGV",
    "segfault": "SIGSEGV",
    "aborted": "SIGABRT",
    "bus error": "SIGBUS",
    "floating point exception": "SIGFPE",
    "floating-point exception": "SIGFPE",
    "illegal instruction": "SIGILL",
    "trace/breakpoint trap": "SIGTRAP",
    "user defined signal 1": "SIGUSR1",
    "user defined signal 2": "SIGUSR2",
    "hangup": "SIGHUP",
    "interrupt": "SIGINT",
    "cpu time limit exceeded": "SIGXCPU",
}
_KINDS = {
    "shell_process_ended": "the shell",
    "exit_code_said": "the launcher",
    "srun_task_signalled": "srun",
    "srun_task_exited": "srun",
    "srun_task_out_of_memory": "srun",
    "mpi_rank_signalled": "mpirun",
    "mpi_rank_at": "mpirun",
    "mpi_rank_failed": "mpirun",
    "mpi_abort": "mpirun",
    "mpi_rank_exited": "mpirun",
    "mpi_signal_detail": "Open MPI",
    "spawn_exit": "multiprocessing.spawn",
    "launched_child_ended": "the launcher",
    "vllm_worker_died": "vLLM",
    "paddle_container_failed": "Paddle's launcher",
    "paddle_trainers_aborted": "Paddle's launcher",
    "deepspeed_exit": "DeepSpeed's launcher",
    "lightning_child_ended": "Lightning",
    "kube_exit_code": "Kubernetes",
    "shell_signal_word": "the shell",
}
_MPI_TAILS = ("mpi_signal_rest", "mpi_killed_by", "mpi_exit_code")
_SHELL_CODE = 128
_MAX_DIGITS = 9
"""Numbers of tasks and hosts are shorter."""


@dataclass(slots=True)
class Death:
    """The end of one process.

    Attributes:
        rank, host, pid: of the process, as far as said.
        local_rank: index on its host, if said.
        signal: name of the signal ("SIGKILL"), or "".
        exitcode: exit code as said (negative: minus the signal's number), or None.
        first: a supervisor calls it the first failure.
        victim: ended by its launcher.
        said_by: who says so.
        evidence: the events that say so, most telling first.
    """

    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    signal: str = ""
    exitcode: int | None = None
    first: bool = False
    victim: bool = False
    said_by: str = ""
    evidence: list[Event] = field(default_factory=list)


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


def how(death: Death) -> str:
    """In words: "killed by SIGKILL", "exited with code 1"."""
    if death.signal:
        verb = "was ended by" if death.signal in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") else "died of"
        return f"{verb} {death.signal}"
    return "ended" if death.exitcode is None else f"exited with code {death.exitcode}"


def find_deaths(job: Job) -> list[Death]:
    """Every process end that a supervisor reports, several reports of one process joined."""
    deaths = _join([*_of_torchrun(job), *_of_others(job)], job)
    _mark_victims(job, deaths)
    deaths.sort(key=lambda d: (d.rank is None, d.rank or 0, d.host or "", d.pid or 0))
    return deaths


def signal_name(text: object) -> str:
    """SIGKILL for "9", 9, "KILL", "SIGKILL" or "Killed"; "" for what is no signal."""
    word = str(text or "").strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        return signals.Signals(abs(int(word))).name
    except ValueError:
        name = word.upper().removeprefix("SIGNALS.")
        name = name if name.startswith("SIG") else f"SIG{name}"
        return name if name in signals.Signals.__members__ else ""


def signal_of_code(code: int | None) -> str:
    """The signal behind an exit code: minus its number (Python, torchrun), 128 plus it (shells, Slurm, Kubernetes)."""
    if code is None:
        return ""
    if code < 0:
        return signal_name(-code)
    return signal_name(code - _SHELL_CODE) if _SHELL_CODE < code < _SHELL_CODE + 32 else ""


def expand_numbers(text: str) -> list[int]:
    """Task lists of Slurm: "0-3,5" -> 0 1 2 3 5."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if _is_number(first) and (not last or _is_number(last)):
            found.extend(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return found


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MAX_DIGITS


def expand_hosts(text: str) -> list[str]:
    """Node lists of Slurm: "node[01-03,07],login1" -> node01 node02 node03 node07 login1."""
    hosts = []
    for match in re.finditer(r"([^,\[\]]+)(?:\[([\d,\-]+)\])?([^,\[\]]*)", text):
        head, numbers, tail = match.groups()
        if numbers is None:
            hosts.append(head)
            continue
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            if not (_is_number(first) and (not last or _is_number(last))):
                continue
            count = min(int(last or first) - int(first) + 1, 10_000)
            hosts.extend(f"{head}{int(first) + step:0{len(first)}d}{tail}" for step in range(count))
    return hosts


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


# --- everybody else --------------------------------------------------------------------------------------


def _of_others(job: Job) -> Iterator[Death]:
    tails = job.events.of(*_MPI_TAILS)
    tasks_are_ranks = not job.events.has("worker_failed", "closing_signal", "failure_rank", "workers_per_node")
    for event in job.events.of(*_KINDS):
        said = (event.fields.get(name) for name in ("signal_text", "signal", "signal_name"))
        base = Death(
            host=event.host,
            signal=next((name for text in said if (name := signal_name(text))), ""),
            exitcode=event.number("exitcode"),
            pid=event.number("ended_pid"),
            said_by=_KINDS[event.kind],
            evidence=[event],
        )
        if event.kind.startswith("srun"):
            yield from _of_srun(event, base, tasks_are_ranks=tasks_are_ranks)
            continue
        if event.kind == "paddle_trainers_aborted":
            yield from _of_paddle(event)
            continue
        base.signal = base.signal or signal_of_code(base.exitcode)
        base.rank = event.number("exited_rank")
        if base.rank is None:
            base.rank = event.rank
        if event.kind.startswith("mpi"):
            base.host = str(event.fields.get("node") or "") or base.host
            _complete(base, event, tails)
            base.first = True
        if event.fields.get("pod_name"):
            base.host, base.first = str(event.fields["pod_name"]).rpartition(".")[2], True
        if event.kind == "vllm_worker_died":
            base.pid, base.first = event.number("worker_pid"), True
            base.rank = _engine_rank(event)
        if event.kind == "deepspeed_exit":
            base.first = True
        if event.kind == "launched_child_ended":
            # the command that it quotes is that of the child started last, whichever failed: its rank says nothing
            base.first = True
        if event.kind == "spawn_exit":
            base.rank = event.number("spawn_index") if len(job.hosts) <= 1 else None
            base.first = True
        yield base


def _of_srun(event: Event, base: Death, *, tasks_are_ranks: bool) -> Iterator[Death]:
    """`srun: error: node02: tasks 8-15: Killed`: a task is a rank unless torchrun runs inside it."""
    hosts = expand_hosts(str(event.fields.get("nodes", "")))
    tasks = expand_numbers(str(event.fields.get("tasks", "")))
    base.signal = base.signal or signal_of_code(base.exitcode)
    if event.kind == "srun_task_out_of_memory":
        base.signal = "SIGKILL"
    for task in tasks if tasks_are_ranks else tasks[:1]:
        yield Death(
            rank=task if tasks_are_ranks else None,
            host=hosts[0] if len(hosts) == 1 else None,
            signal=base.signal,
            exitcode=base.exitcode,
            said_by=base.said_by,
            evidence=[event],
        )


def _engine_rank(event: Event) -> int | None:
    """vLLM names its workers after their ranks (VllmWorker-1); an executor of several groups has longer names."""
    named = re.fullmatch(r"\w+-(\d{1,4})", str(event.fields.get("worker", "")))
    return int(named[1]) if named else event.number("worker_rank")


def _of_paddle(event: Event) -> Iterator[Death]:
    """Paddle's launcher lists the trainers that it found ended with an error; of all of them, none is the first."""
    ranks = expand_numbers(str(event.fields.get("aborted_ranks", "")).replace(" ", ""))
    for rank in ranks:
        first = len(ranks) < (event.number("trainers") or 0)
        yield Death(rank=rank, first=first, said_by=_KINDS[event.kind], evidence=[event])


def _complete(death: Death, event: Event, tails: Iterable[Event]) -> None:
    """MPI launchers say signal or exit code on one of the next lines."""
    for tail in tails:
        if tail.line.file == event.line.file and 0 < tail.line.number - event.line.number <= 4:
            death.evidence.append(tail)
            death.exitcode = death.exitcode if death.exitcode is not None else tail.number("exitcode")
            death.signal = death.signal or signal_name(tail.fields.get("signal")) or signal_of_code(death.exitcode)
            return


# --- joining ---------------------------------------------------------------------------------------------


def _join(deaths: Iterable[Death], job: Job) -> list[Death]:
    """One death a process: reports with the same pid, else the same rank, else the same host and local rank."""
    by_pid = {process.pid: process for process in job.processes if process.pid is not None and process.rank is not None}
    one_node = is_one_node(job)
    joined: list[Death] = []
    index: dict[tuple[str, int], list[Death]] = {}
    for death in sorted(deaths, key=lambda d: (d.rank is None, d.pid is None)):
        if death.rank is None and death.pid in by_pid:
            death.rank = by_pid[death.pid].rank
        if death.rank is None and one_node:
            death.rank = death.local_rank
        keys = [("pid", death.pid), ("rank", death.rank), ("local", death.local_rank)]
        known = next(
            (
                other
                for name, at in keys
                if at is not None
                for other in index.get((name, at), ())
                if _same(death, other)
            ),
            None,
        )
        for name, at in keys:
            if at is not None:
                index.setdefault((name, at), []).append(known or death)
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
    for death in deaths:
        # SGLang ends the whole tree of its processes, itself too, when a child fails or its watchdog fires
        if death.said_by == "the shell" and death.signal == "SIGKILL" and death.pid is None:
            line = death.evidence[0].line
            before = job.events.of("sglang_child_failed", "sglang_watchdog")
            death.victim = any(e.line.file == line.file and e.line.number < line.number for e in before)
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
