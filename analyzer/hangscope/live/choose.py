"""Chooses the jobs to look at, and says what could be meant when there is none."""

from __future__ import annotations

from collections.abc import Collection

from hangscope.errors import InputError
from hangscope.live import procfs, refusal
from hangscope.live.processes import Host, look_around
from hangscope.live.targets import LiveJob

_MAX_CANDIDATES = 4


def find_jobs(pids: Collection[int] = (), *, several: bool = True) -> tuple[LiveJob, ...]:
    """The jobs of this host, or those that the processes `pids` belong to.

    Raises:
        InputError: there is none, or more than one where several will not do; the advice names what could be meant.
    """
    gone = [pid for pid in pids if not procfs.is_alive(pid)]
    if gone:
        raise InputError(f"there is no process {', '.join(map(str, gone))} on this host", "Look with: ps -ef")
    found = look_around(pids)
    if not found.jobs:
        raise InputError("no training process was found on this host", _candidates(found))
    for job in found.jobs:
        if not any(target.python for target in job.targets):
            first = job.targets[0]
            what = f"process {first.pid} ({_short(first.command)}) runs no Python, and neither does a child of it"
            raise InputError(what, _candidates(found))
    if len(found.jobs) > 1 and not several:
        listed = "; ".join(f"{job.name} ({_who(job)})" for job in found.jobs)
        raise InputError(f"{len(found.jobs)} jobs run on this host: {listed}", "Choose one with --pid PID.")
    return found.jobs


def _who(job: LiveJob) -> str:
    ranks = job.ranks
    return f"{len(ranks)} rank{'s' if len(ranks) > 1 else ''}, first pid {ranks[0].pid}: {_short(ranks[0].command)}"


def _candidates(found: Host) -> str:
    """What a user could have meant."""
    listed = [
        f"{one.pid} ({_short(procfs.command_of(one.pid))}; {one.cpu_s:.0f} s of CPU time)" for one in found.busiest
    ]
    if found.refused:
        first, count = found.refused[0], len(found.refused)
        return (
            f"{count} Python process{'es' if count > 1 else ''} may not be looked into, such as {first.pid} "
            f"({_short(procfs.command_of(first.pid))}): {refusal.explain_refusal(first.pid)}."
        )
    if not listed:
        return "No Python process runs here. Is this the host of the job, and do you see its processes (ps -ef)?"
    return (
        "No process has RANK and WORLD_SIZE in its environment. Python processes here: "
        f"{'; '.join(listed[:_MAX_CANDIDATES])}. Name one with --pid PID."
    )


def _short(command: str) -> str:
    return command if len(command) <= 60 else command[:57] + "..."
