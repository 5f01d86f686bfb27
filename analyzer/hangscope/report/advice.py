"""Says what to do next: the verdict's remedies, then what to collect so that a next look sees more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hangscope.align.versions import Version
from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND, causes
from hangscope.model import Event, Finding, NextStep, Role
from hangscope.report.inputs import DiagnosisView, JobView
from hangscope.report.rank_states import listed_ranks
from hangscope.report.spans import fold_hosts, rank_words

_MOST_STEPS = 8
_SURE = 0.8

_A_PID = re.compile(r"(?<![\w$])PID\b")
_TOLD_PID = re.compile(r"\b(?:pid|[Pp]rocess) (\d+)\b")
_ONE_COMMAND = re.compile(r"[\w\s./:,=@%+-]+")
_IN_QUOTES = re.compile(r'["$`\\!]')

# How each launcher keeps one log a rank. torchrun takes the spelling with an underscore in every version.
_LOG_A_RANK = {
    "torchrun": "torchrun --log_dir logs --tee 3 ...",
    "srun": "srun --output=logs/%j-%t.log ...",
    "mpirun": "mpirun --output-filename logs ...",
    "deepspeed": "deepspeed --enable_each_rank_log logs ...",
}


def advise(job: JobView, diagnosis: DiagnosisView) -> tuple[NextStep, ...]:
    """The most useful first, none twice, and few enough to be read."""
    verdict = diagnosis.verdict
    steps = [NextStep(remedy.text, _with_pid(remedy.command, job, verdict)) for remedy in verdict.remedies]
    if _is_open(verdict):
        # ranks that a launch never made have neither logs nor stacks
        if causes()[verdict.cause].family != "launch":
            steps += (*_missing_logs(job), *_live_stacks(job, verdict))
        steps += (*_more_words(job), *_recorder(job))
    commands = {step.command for step in steps[: len(verdict.remedies)]}
    fresh = [step for step in steps[len(verdict.remedies) :] if step.command is None or step.command not in commands]
    return tuple(dict.fromkeys([*steps[: len(verdict.remedies)], *fresh]))[:_MOST_STEPS]


def _is_open(verdict: Finding) -> bool:
    """More evidence could change the answer."""
    if verdict.cause == NO_FAULT_FOUND:
        return False
    return verdict.cause == INSUFFICIENT_EVIDENCE or verdict.role is Role.SYMPTOM or verdict.confidence < _SURE


def _missing_logs(job: JobView) -> Iterator[NextStep]:
    seen = {rank for rank, process in job.ranks.items() if process.line_count}
    absent = [rank for rank in listed_ranks(job) if rank not in seen]
    command = _LOG_A_RANK.get(job.launcher or "")
    if absent and seen:
        hosts = sorted({process.host for rank in absent if (process := job.ranks.get(rank)) and process.host})
        where = f" ({fold_hosts(hosts)})" if hosts else ""
        yield NextStep(f"Add the logs of {rank_words(absent, most=40)}{where}; none was given.", command)
    elif not seen:
        text = "No line says which rank wrote it: give the log of every rank, a file each."
        yield NextStep(text, command)
    for source in job.sources:
        if source.error is not None:
            yield NextStep(f"Make {source.file} readable: {source.error}.")
            break


def _live_stacks(job: JobView, verdict: Finding) -> Iterator[NextStep]:
    """Who is still there can be asked directly; the ranks that did not come know most."""
    suspect = _suspect(job, verdict)
    if suspect is None and any("py-spy" in (remedy.command or "") for remedy in verdict.remedies):
        return
    command = _with_pid("py-spy dump --native --pid PID", job, verdict)
    who = "every rank" if suspect is None else f"rank {suspect}"
    yield NextStep(f"While it still hangs, take the stack of {who}, and give it to hangscope with the logs.", command)


def _suspect(job: JobView, verdict: Finding) -> int | None:
    """The most suspect rank whose process is known."""
    suspects = [*verdict.ranks, *(rank for stuck in job.stuck for rank in (*stuck.missing, *stuck.arrived))]
    return next((rank for rank in suspects if (process := job.ranks.get(rank)) and process.pid is not None), None)


def _with_pid(command: str | None, job: JobView, verdict: Finding) -> str | None:
    """A command about one process, with the pid and the host of the most suspect rank when they are known."""
    if command is None or not _A_PID.search(command):
        return command
    rank = _suspect(job, verdict)
    # a finding about a child of a rank, or about a process of unknown rank, says in its title which one it means
    told = _TOLD_PID.search(verdict.title)
    if told and not verdict.ranks:
        pid, host = told[1], verdict.hosts[0] if len(verdict.hosts) == 1 else None
    elif rank is not None:
        pid, host = told[1] if told else str(job.ranks[rank].pid), job.ranks[rank].host
    else:
        return command
    ready = _A_PID.sub(pid, command)
    if host is None or not re.fullmatch(r"[\w.-]+", host):
        return ready
    # of a pipe, all of it has to run over there, not only what stands before the first sign
    remote = ready if _ONE_COMMAND.fullmatch(ready) else f'"{ready}"'
    return ready if remote != ready and _IN_QUOTES.search(ready) else f"ssh {host} {remote}"


def _more_words(job: JobView) -> Iterator[NextStep]:
    if not any(_is_nccl_info(process.events) for process in job.processes):
        setting = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV,COLL NCCL_DEBUG_FILE=nccl.%h.%p.log"
        yield NextStep("Next time, let NCCL say what it does, in files of its own.", f"export {setting}")
    elif job.lost_tails:
        text = "NCCL's lines stop in the middle of a buffer: have it write files of its own, which lose nothing."
        yield NextStep(text, "export NCCL_DEBUG_FILE=nccl.%h.%p.log")
    if job.lost_tails:
        first = min(job.lost_tails)
        text = f"The last lines of {first} are lost, they were still in a buffer: run Python unbuffered."
        yield NextStep(text, "export PYTHONUNBUFFERED=1")


def _is_nccl_info(events: Iterable[Event]) -> bool:
    return any(event.line.header == "nccl" and event.line.level == "INFO" for event in events)


def _recorder(job: JobView) -> Iterator[NextStep]:
    """The flight recorder exists from torch 2.2 on, and its buffer is on by itself from 2.11 on."""
    version = _release(job.versions.torch)
    if version is None or not (2, 2) <= version < (2, 11):
        return
    settings = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DEBUG_INFO_TEMP_FILE=fr_rank_"
    yield NextStep(
        "Next time, keep a flight recorder: at a timeout, every rank writes its last calls.", f"export {settings}"
    )


def _release(version: Version) -> tuple[int, int] | None:
    """Major and minor number; None when unknown or when ranks differ."""
    found = re.match(r"(\d+)\.(\d+)", version) if isinstance(version, str) else None
    return (int(found[1]), int(found[2])) if found else None
