"""Says what to do next: the verdict's remedies, and what to collect so that a next look sees more."""

from __future__ import annotations

import re

from hangscope.align.launch import KUBERNETES
from hangscope.diagnose.catalogue import INSUFFICIENT_EVIDENCE, NO_FAULT_FOUND, causes
from hangscope.diagnose.settings import in_order
from hangscope.expressions import expression
from hangscope.model import Finding, NextStep, Remedy, Role
from hangscope.report.collect import rendezvous_of, what_to_collect
from hangscope.report.given_settings import steps_about_settings
from hangscope.report.inputs import DiagnosisView, JobView
from hangscope.report.interfaces import common_interface
from hangscope.report.pieces import Piece, decides, hosts_of_suspects, piece_of, suspects_of
from hangscope.report.reach import Reach, is_name
from hangscope.report.spans import HIGH, MEDIUM

_MOST_STEPS = 8
_ABOUT_SETTINGS = 2

_A_PID = expression(r"(?<![\w$])PID\b")
_TOLD_PID = expression(r"\b(?:pid|[Pp]rocess) (\d+)\b")
_TOLD_ADDRESS = expression(
    r"\b(?:address|[Cc]onnections to|connect to|between \S+ and) (?P<host>[\w.-]+)(?::(?P<port>\d{2,5}))?"
    r"(?=:?(?:\s|\Z))"
    r"|\A(?P<first>[\w.-]+)(?= refuses connections)"
)
# a variable of the job is empty in the shell in which one looks at it
_MASTER = expression(r"(?<![\w'\"$-])MASTER_ADDR\b(?![='\"])")
_TOLD_PAIR = expression(r"\bbetween ([\w.-]+) and ([\w.-]+)(?=:?(?:\s|\Z))")
_OF_SLURM = expression(r"\b(?:sacct|sinfo|scontrol|squeue)\b")
_TOLD_PORT = expression(r"\b[Pp]ort (\d{2,5})\b")
_ON_ALL = expression(r"\b(?:every|all|both|the) hosts?\b")
_PLAIN_STACK = expression(r"py-spy dump (?:--native )?--pid \S+")


def advise(job: JobView, diagnosis: DiagnosisView) -> tuple[NextStep, ...]:
    """The most useful first, none twice, and few enough to be read.

    A verdict that is not sure comes with what to collect next. What is likely is tried first, and what cannot be told
    is asked first. Settings that have no effect as they are stand at the end, but always stand there.
    """
    verdict = diagnosis.verdict
    settings = [] if verdict.cause == NO_FAULT_FOUND else list(steps_about_settings(job))[:_ABOUT_SETTINGS]
    return _few(_steps(job, verdict), settings)


def _steps(job: JobView, verdict: Finding) -> list[NextStep]:
    remedies = [
        (piece_of(remedy.command, remedy.text), remedy)
        for remedy in in_order(verdict.remedies)
        if not _is_for_another_scheduler(remedy, job)
    ]
    if not _is_open(verdict):
        return [NextStep(remedy.text, _fill_in(remedy, job, verdict)) for _, remedy in remedies]
    tried = [
        (piece, NextStep(remedy.text, _fill_in(remedy, job, verdict), _decides(piece, job, verdict)))
        for piece, remedy in remedies
    ]
    collected = what_to_collect(job, verdict)
    if verdict.cause == INSUFFICIENT_EVIDENCE or verdict.role is Role.SYMPTOM or verdict.confidence < MEDIUM:
        there = {piece for piece, _ in collected if piece is not None}
        further = [(piece, step) for piece, step in tried if not (piece in there and _is_plain(step))]
        # stacks are gone when the job is ended, all else can wait
        urgent = [step for piece, step in further if piece is Piece.STACKS and piece not in there]
        return [*urgent, *(step for _, step in collected), *(step for _, step in further if step not in urgent)]
    there = {piece for piece, _ in tried if piece is not None}
    return [*(step for _, step in tried), *(step for piece, step in collected if piece not in there)]


def _is_for_another_scheduler(remedy: Remedy, job: JobView) -> bool:
    """Its command asks Slurm, and the job's launcher is known and runs without it."""
    launch = job.launch
    return launch.launcher is not None and not launch.platform and bool(_OF_SLURM.match(remedy.command or ""))


def _is_open(verdict: Finding) -> bool:
    """More evidence could change the answer."""
    if verdict.cause == NO_FAULT_FOUND:
        return False
    return verdict.cause == INSUFFICIENT_EVIDENCE or verdict.role is Role.SYMPTOM or verdict.confidence < HIGH


def _few(steps: list[NextStep], last: list[NextStep]) -> tuple[NextStep, ...]:
    """None twice, and no command twice; room is kept for the last ones."""
    seen: set[str] = set()
    kept = []
    for step in dict.fromkeys(steps):
        if step.command is None or step.command not in seen:
            kept.append(step)
        seen.add(step.command or "")
    return (*kept[: _MOST_STEPS - len(last)], *last)


def _decides(piece: Piece | None, job: JobView, verdict: Finding) -> str | None:
    return None if piece is None else decides(piece, job, verdict)


def _is_plain(step: NextStep) -> bool:
    """It asks for no more than the step that collects the same kind of evidence does."""
    command = step.command or ""
    return piece_of(command) is not Piece.STACKS or bool(_PLAIN_STACK.search(command))


def _fill_in(remedy: Remedy, job: JobView, verdict: Finding) -> str | None:
    """A remedy's command with the names of this job in it, written so that it runs where it has to."""
    command = remedy.command
    if command is None:
        return None
    reach = Reach(job.launch)
    command, peer = _with_addresses(command, job, verdict)
    command = re.sub(r"\bJOBID\b", reach.job_id, command)
    if job.launch.platform == KUBERNETES:
        # the same question to whoever scheduled it
        command = re.sub(r"\b(?:sacct|sinfo)\b[^;|]*", "kubectl describe pod POD", command)
    if len(verdict.hosts) == 1 and is_name(verdict.hosts[0]):
        command = re.sub(r"\b(ping |ssh )HOST\b|\b(nodename=)NODE\b|\bPOD\b", rf"\g<1>\g<2>{verdict.hosts[0]}", command)
    if port_told := _TOLD_PORT.search(verdict.title):
        command = re.sub(r"\bPORT\b", port_told[1], command)
    if peer is not None and command.startswith("nc -l "):
        return reach.on(peer, command)
    if not _A_PID.search(command):
        pair = _TOLD_PAIR.search(verdict.title)
        hosts = verdict.hosts or (pair.groups() if pair else hosts_of_suspects(job, verdict))
        if not hosts or (not verdict.hosts and pair is None and _ON_ALL.search(remedy.text)):
            hosts = job.hosts
        return reach.for_finding(hosts, command) if len(hosts) == 1 else reach.for_all(hosts, command)
    pid, host = _process(job, verdict)
    return command if pid is None else reach.on(host, _A_PID.sub(pid, command))


def _with_addresses(command: str, job: JobView, verdict: Finding) -> tuple[str, str | None]:
    """A command with the job's addresses and interface in it, and the address that the verdict says is not reached."""
    # most commands name neither, and looking for them goes through all lines
    address, port = rendezvous_of(job) if "MASTER_ADDR" in command or "nc -vz HOST" in command else (None, None)
    if address is not None and port is not None:
        command = re.sub(r"\bMASTER_ADDR MASTER_PORT\b", f"{address} {port}", command)
        command = _MASTER.sub(address, command)
        if causes()[verdict.cause].family == "launch":
            # the port that is tried there is that of the rendezvous
            command = re.sub(r"\bnc -vz HOST (?:PORT|\d+)", f"nc -vz {address} {port}", command)
    if "IFNAME" in command and (interface := common_interface(job)):
        command = re.sub(r"(?<==)IFNAME\b", interface, command)
    told = _TOLD_ADDRESS.search(verdict.title)
    peer = (told["host"] or told["first"]) if told else None
    if told is None or peer is None or not is_name(peer):
        return command, None
    if told["port"]:
        command = re.sub(r"\bnc -vz HOST (?:PORT|\d+)", f"nc -vz {peer} {told['port']}", command)
    return re.sub(r"\b(nc -(?:vz|zv)|ib_write_bw -d \S+) HOST\b", rf"\1 {peer}", command), peer


def _process(job: JobView, verdict: Finding) -> tuple[str | None, str | None]:
    """The pid and the host of the process that the verdict is about; (None, None) when they are not known."""
    told = _TOLD_PID.search(verdict.title)
    its_host = verdict.hosts[0] if len(verdict.hosts) == 1 else None
    # a finding about a child of a rank, or about a process of unknown rank, says in its title which one it means
    if told and not verdict.ranks:
        return told[1], its_host
    arrived = (rank for stuck in job.stuck for rank in stuck.arrived)
    for rank in (*suspects_of(job, verdict), *arrived):
        process = job.ranks.get(rank)
        if process is not None and process.pid is not None:
            return told[1] if told else str(process.pid), process.host
    # no line of the rank tells its pid, a table of processes did
    return (told[1], its_host) if told else (None, None)
