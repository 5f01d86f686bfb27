"""How shells, schedulers, launchers and serving engines other than torchrun's agent report the end of processes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from hangscope.align.job import Job
from hangscope.facts.death import Death, expand_hosts, expand_numbers, signal_name, signal_of_code
from hangscope.model import Event

_KINDS = {
    "shell_process_ended": "the shell",
    "exit_code_said": "the launcher",
    "srun_task_signalled": "srun",
    "srun_task_exited": "srun",
    "srun_task_out_of_memory": "srun",
    "mpi_rank_signalled": "mpirun",
    "mpi_rank_at": "mpirun",
    "mpi_rank_failed": "mpirun",
    "mpi_bad_termination": "mpirun",
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
_BARE_SIGNALS = (4, 6, 7, 8, 9, 11, 15)
_OF_THE_FIRST = ("vllm_worker_died", "deepspeed_exit", "launched_child_ended", "spawn_exit")


def find_reported(job: Job) -> Iterator[Death]:
    """One death for each process that a report names; several reports of one process are not joined."""
    tails = _by_place(job.events.of(*_MPI_TAILS))
    ranks_at = _by_place(job.events.of("mpi_rank_at"))
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
        if event.kind == "mpi_bad_termination" and _next(event, ranks_at, 2) is not None:
            # one of the next lines names rank and host (Hydra since 3.2)
            continue
        if event.kind.startswith("mpi"):
            _of_mpi(event, base, tails)
        else:
            _of_one(event, base, one_host=len(job.hosts) <= 1)
        yield base


def _by_place(events: Iterable[Event]) -> dict[tuple[str, int], Event]:
    """File and line number -> the first event there."""
    found: dict[tuple[str, int], Event] = {}
    for event in events:
        found.setdefault((event.line.file, event.line.number), event)
    return found


def _next(event: Event, places: Mapping[tuple[str, int], Event], within: int) -> Event | None:
    """The first of these events on the next so many lines."""
    line = event.line
    return next(
        (places[at] for step in range(1, within + 1) if (at := (line.file, line.number + step)) in places), None
    )


def _of_mpi(event: Event, base: Death, tails: Mapping[tuple[str, int], Event]) -> None:
    base.host = str(event.fields.get("node") or "") or base.host
    _complete(base, event, tails)
    base.first = True
    if event.kind == "mpi_bad_termination" and base.exitcode in _BARE_SIGNALS:
        # older Hydra prints the status of wait(): the bare number of a signal
        base.signal = base.signal or signal_name(base.exitcode)


def _of_one(event: Event, base: Death, *, one_host: bool) -> None:
    """Supervisors that speak of the first process that failed, each with its own name for it."""
    if event.fields.get("pod_name"):
        base.host, base.first = str(event.fields["pod_name"]).rpartition(".")[2], True
    if event.kind == "vllm_worker_died":
        base.pid, base.rank = event.number("worker_pid"), _engine_rank(event)
    if event.kind == "spawn_exit":
        base.rank = event.number("spawn_index") if one_host else None
    # the command that a launcher before torchrun quotes is that of the child started last: its rank says nothing
    base.first = base.first or event.kind in _OF_THE_FIRST


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


def _complete(death: Death, event: Event, tails: Mapping[tuple[str, int], Event]) -> None:
    """MPI launchers say signal or exit code on one of the next lines."""
    tail = _next(event, tails, 4)
    if tail is not None:
        death.evidence.append(tail)
        death.exitcode = death.exitcode if death.exitcode is not None else tail.number("exitcode")
        death.signal = death.signal or signal_name(tail.fields.get("signal")) or signal_of_code(death.exitcode)
