"""Why a process is gone, as far as its supervisors and its own last words tell: crashed, killed, stopped, done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.abort_reasons import is_abort_explained
from hangscope.facts.collect import evidence_of
from hangscope.facts.death import Death, how, signal_name
from hangscope.facts.deaths import find_deaths
from hangscope.facts.exceptions import category_of
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "crashed": FactKind(
        ("signal", "how", "reason", "said_by", "died_pid"),
        "A rank died of SIGSEGV, SIGBUS, SIGABRT, SIGFPE or SIGILL, and neither a watchdog nor a C++ exception that "
        "tells a reason stands behind it.",
    ),
    "killed": FactKind(
        ("signal", "how", "said_by", "died_pid", "alone", "first"),
        "A rank was ended by a signal that its launcher did not send; `alone` = some ranks of the job were not, "
        "`first` = a supervisor names it as the first failure.",
    ),
    "failed_without_reason": FactKind(
        ("exitcode", "how", "said_by"), "A rank is named as the first failure with an exit code, and it left no words."
    ),
    "engine_worker_gone": FactKind(
        ("said_by",), "A serving engine says that a worker is gone, and neither an exit code nor its words tell why."
    ),
    "stopped_from_outside": FactKind(
        ("reason", "by", "told"),
        "The job or its launcher was told to stop before anything else failed; `told` = the evidence says why.",
    ),
    "ended_before_others": FactKind(
        ("last_words", "by", "certain"),
        "A rank ended without a failure while its peers still needed it; `certain` = a supervisor counted it out.",
    ),
}

_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGTRAP")
_KILLS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGQUIT")
_CRIES = {
    "fatal_python_error": "error",
    "heap_corrupted": "complaint",
    "native_signal_handler": "caught",
    "native_assertion": "condition",
    "terminate_called": "thrown",
    "kernel_segfault": "library",
    "kernel_trap": "trap",
    "shell_signal_word": "signal_text",
}
_CRY_SIGNALS = (
    (expression(r"[Ss]egmentation fault|[Ss]egfault|SIGSEGV"), "SIGSEGV"),
    (expression(r"Bus error|SIGBUS"), "SIGBUS"),
    (expression(r"Floating[ -]point exception|SIGFPE|divide error"), "SIGFPE"),
    (expression(r"Illegal instruction|SIGILL|invalid opcode"), "SIGILL"),
    (expression(r"general protection"), "SIGSEGV"),
    (expression(r"Abort|SIGABRT"), "SIGABRT"),
)
_SILENT = ("wrapper", "interrupt", "tool")
_NO_REASONS = (*_SILENT, "consequence")
_SLURM_REASONS = {
    "TIME LIMIT": "the job's time limit",
    "PREEMPTION": "preemption",
    "JOB REQUEUE": "a requeue of the job",
    "TASK FAILURE": "",
    "NODE FAILURE": "",
}
_SLURM_STATES = {
    "TIMEOUT": "the job's time limit",
    "DEADLINE": "the job's deadline",
    "PREEMPTED": "preemption",
    "CANCELLED": "scancel",
    "CANCELLED+": "scancel",
}
# The last words of a script that is through.
_DONE = expression(
    r"(?i)\b(?:training|run|job|eval\w*|epoch\w*|work|script|main|inference|generation|policy|model|all)?\W*"
    r"(?:is |was |has )?(?:finished|complete(?:d)?|done|leaving|exiting|ended|all good|saved|bye|goodbye)\b"
)


def find(job: Job) -> Iterator[Fact]:
    """Crashes, kills, stops and early ends."""
    deaths = find_deaths(job)
    crashes = list(_crashes(job, deaths))
    yield from crashes
    killed = [death for death in deaths if not death.victim and death.signal in _KILLS]
    for death in killed:
        others = job.world_size is None or len(killed) < job.world_size
        yield _of_death("killed", death, {"alone": others, "first": death.first})
    yield from _without_reason(job, deaths)
    for death in deaths:
        if death.said_by == "vLLM" and death.exitcode is None and not death.signal:
            yield _of_death("engine_worker_gone", death, {})
    if not crashes and not _fails_itself(job, deaths):
        yield from _stops(job)
    yield from _early_ends(job, deaths)


# --- crashes ---------------------------------------------------------------------------------------------


def _crashes(job: Job, deaths: list[Death]) -> Iterator[Fact]:
    cries = _Cries(job)
    told: set[int] = set()
    for death in deaths:
        if death.victim or death.signal not in _CRASHES:
            continue
        own = cries.of_death(death)
        told.update(id(cry) for cry in own)
        if death.signal == "SIGABRT" and is_abort_explained(job, death, own):
            continue
        evidence = tuple(evidence_of(cry, "its last words") for cry in own[:4])
        yield _of_death("crashed", death, {"reason": _reason(own)}, evidence)
    for cry in cries.all:
        signal = _cry_signal(cry)
        if id(cry) in told or not signal or cry.kind == "terminate_called":
            continue
        death = Death(rank=cry.rank, host=cry.host, signal=signal, said_by="its own last words", evidence=[cry])
        if signal != "SIGABRT" or not is_abort_explained(job, death, [cry]):
            told.update(id(other) for other in cries.like(cry))
            yield _of_death("crashed", death, {"reason": _reason([cry])})


class _Cries:
    """Words of processes that crash, or of the kernel about them, and whose they are: a crash of all ranks has many."""

    def __init__(self, job: Job) -> None:
        found = job.events.of(*_CRIES)
        self.all = [cry for cry in found if not (cry.kind == "shell_signal_word" and not _cry_signal(cry))]
        self._of: dict[tuple[str, Value], list[tuple[int, Event]]] = defaultdict(list)
        self._like: dict[tuple[int | None, str], list[Event]] = defaultdict(list)
        for number, cry in enumerate(self.all):
            self._like[cry.rank, cry.line.file].append(cry)
            if (pid := cry.fields.get("crashed_pid")) is not None:
                self._of["pid", pid].append((number, cry))
            elif cry.rank is not None:
                self._of["rank", cry.rank].append((number, cry))
            elif _cry_signal(cry):
                self._of["file", cry.line.file].append((number, cry))

    def of_death(self, death: Death) -> list[Event]:
        """The last words of a process that died: by its pid, its rank, or the file in which its end is told."""
        file = death.evidence[0].line.file if death.evidence else None
        keys = (("pid", death.pid), ("rank", death.rank), ("file", file))
        found = sorted((one for key in keys for one in self._of.get(key, ())), key=itemgetter(0))
        return [cry for _, cry in found]

    def like(self, cry: Event) -> list[Event]:
        """All of the same rank in the same file."""
        return self._like[cry.rank, cry.line.file]


def _cry_signal(cry: Event) -> str:
    if cry.kind == "kernel_segfault":
        return "SIGSEGV"
    if cry.kind in ("heap_corrupted", "native_assertion", "terminate_called"):
        return "SIGABRT"
    text = str(cry.fields.get(_CRIES[cry.kind], ""))
    return next((name for pattern, name in _CRY_SIGNALS if pattern.search(text)), "")


def _reason(cries: list[Event]) -> str | None:
    for cry in cries:
        if cry.kind == "terminate_called":
            return "terminate called without an active exception"
        if value := cry.fields.get(_CRIES[cry.kind]):
            return f"in {value}" if cry.kind == "kernel_segfault" else str(value)
    return None


# --- other ends ------------------------------------------------------------------------------------------


def _without_reason(job: Job, deaths: list[Death]) -> Iterator[Fact]:
    said = job.events.of("exception")
    if any(category_of(event) not in _NO_REASONS for event in said):
        return
    # after a time-out the first process that ends is a victim of the hang
    if job.events.has("watchdog_timeout") or any("imed out" in str(event.fields.get("message")) for event in said):
        return
    for death in deaths:
        unsaid = death.exitcode is None and death.said_by != "Paddle's launcher"
        if death.first and not (death.victim or death.signal or death.exitcode == 0 or unsaid):
            process = job.ranks.get(death.rank) if death.rank is not None else None
            if process is None or not any(event.kind == "exception" for event in process.events):
                yield _of_death("failed_without_reason", death, {"exitcode": death.exitcode})


def _fails_itself(job: Job, deaths: list[Death]) -> bool:
    """Whether something failed by itself, so that a stop is only what followed."""
    if any(death.first and death.signal != "SIGTERM" for death in deaths):
        return True
    return any(category_of(event) not in _SILENT for event in job.events.of("exception"))


def _stops(job: Job) -> Iterator[Fact]:
    for event in job.events.of("slurm_cancelled"):
        text = str(event.fields.get("reason") or "")
        reason = next((words for start, words in _SLURM_REASONS.items() if text.startswith(start)), None)
        if reason != "":
            told = reason is not None
            yield _stop(event, reason or (f"scancel ({text})" if text else "scancel"), "Slurm", told=told)
    for event in job.events.of("slurm_state", "slurm_record"):
        state = str(event.fields.get("state") or event.fields.get("record_state") or "")
        if (reason := _SLURM_STATES.get(state)) is not None and "." not in str(event.fields.get("job_step")):
            yield _stop(event, reason, "Slurm", told=reason != "scancel")
    for kind, reason, by, told in (
        ("kube_evicted", "an eviction: the node ran low on a resource", "Kubernetes", True),
        ("kube_preempted", "preemption", "Kubernetes", True),
        ("kube_deadline", "the job's deadline", "Kubernetes", True),
        ("kube_probe_kill", "a failed liveness probe", "Kubernetes", True),
        ("kube_taint_eviction", "an eviction: its node was tainted", "Kubernetes", True),
        ("slurm_forced", "srun was interrupted", "Slurm", False),
        ("agent_signalled", "a signal to torchrun", "torchrun", False),
        ("agent_signal_exception", "a signal to torchrun", "torchrun", False),
        ("launcher_got_sigterm", "SIGTERM to the launcher", "DeepSpeed's launcher", False),
        ("lightning_sigterm", "SIGTERM", "Lightning", False),
    ):
        for event in job.events.of(kind):
            yield _stop(event, reason, by, told=told)
    for event in job.events.of("closing_signal"):
        # torchrun passes on the signal that it got itself; SIGTERM is also how it ends the peers of a failed worker
        if str(event.fields.get("signal")) in ("SIGHUP", "SIGINT", "SIGQUIT"):
            yield _stop(event, "a signal to torchrun", "torchrun", told=False)


def _stop(event: Event, reason: str, by: str, *, told: bool) -> Fact:
    node = event.fields.get("node")
    host = str(node) if node else event.host
    return Fact(
        "stopped_from_outside",
        {"reason": reason, "by": by, "told": told},
        hosts=(host,) if host else (),
        time=event.time,
        evidence=(evidence_of(event, "says who stopped it"),),
    )


def _early_ends(job: Job, deaths: list[Death]) -> Iterator[Fact]:
    """Ranks that were through while their peers saw connections close."""
    echoes = [event for event in job.events.of("exception") if category_of(event) == "consequence"]
    if not echoes:
        return
    complaining = {event.rank for event in job.events.of("exception") if event.rank is not None}
    dead = {death.rank for death in deaths if death.exitcode != 0}
    counted = _counted_out(job, deaths)
    clean_ends = {d.rank: d for d in reversed(deaths) if d.exitcode == 0}
    closed = {event.fields.get("worker_pid") for event in job.events.of("closing_signal")} - {None}
    for rank, process in sorted(job.ranks.items()):
        last = process.last_line
        # NCCL's "Init COMPLETE" is no farewell, and who is ended by the launcher does not leave
        if rank in complaining or rank in dead or last is None or last.header == "nccl" or process.pid in closed:
            continue
        clean = clean_ends.get(rank)
        words = last.text.strip()
        certain = rank in counted or clean is not None
        if not certain and not _DONE.search(words):
            continue
        evidence = [Evidence(last.location, last.raw, f"the last line of rank {rank}: it does not fail")]
        evidence += [evidence_of(event, "says that it ended well") for event in (clean.evidence if clean else [])]
        evidence += [evidence_of(event, "a peer that still needed it") for event in echoes[:3]]
        by = clean.said_by if clean else "torchrun, which does not count it among the failures" if certain else ""
        yield Fact(
            "ended_before_others",
            {"last_words": words[:200], "by": by, "certain": certain},
            ranks=(rank,),
            hosts=(process.host,) if process.host else (),
            affected=tuple(sorted(complaining)),
            time=_time_of(process),
            evidence=tuple(evidence),
        )


def _counted_out(job: Job, deaths: list[Death]) -> set[int]:
    """Ranks of one host whose torchrun lists the others as failed or stopped: its table leaves out who ended well."""
    table = {death.rank for death in deaths if death.said_by == "torchrun" and death.rank is not None}
    closed = {event.fields.get("worker_pid") for event in job.events.of("closing_signal")}
    failed = {event.fields.get("worker_pid") for event in job.events.of("worker_failed")}
    local = {rank for rank, process in job.ranks.items() if process.local_rank is not None}
    if len(job.hosts) > 1 or not failed or not local or len(closed | failed) >= len(local):
        return set()
    return local - table if len(local - table) == len(local) - len(closed | failed) else set()


def _time_of(process: Process) -> float | None:
    return process.last_time


def _of_death(kind: str, death: Death, fields: dict[str, Value], evidence: tuple[Evidence, ...] = ()) -> Fact:
    common: dict[str, Value] = {"said_by": death.said_by}
    if "how" in KINDS[kind].fields:
        common["how"] = how(death)
    if "signal" in KINDS[kind].fields:
        common["signal"] = signal_name(death.signal)
    if "died_pid" in KINDS[kind].fields:
        common["died_pid"] = death.pid
    said = tuple(evidence_of(event, f"{death.said_by} says how it ended") for event in death.evidence)
    return Fact(
        kind,
        common | fields,
        ranks=() if death.rank is None else (death.rank,),
        hosts=() if death.host is None else (death.host,),
        time=next((event.time for event in death.evidence if event.time is not None), None),
        evidence=evidence + said,
    )
