"""Reads what a file's name and folders tell about who wrote it: rank, host, process, attempt."""

from __future__ import annotations

import re
from dataclasses import dataclass

# LOG_DIR/{run_id}_{random}/attempt_{restart}/{local_rank}/{stdout,stderr}.log (torchrun --log-dir)
_TORCHRUN = re.compile(r"(?:^|/)attempt_(?P<attempt>\d+)/(?P<local>\d+)/(?:stdout|stderr)\.log[^/]*$")
_ATTEMPT = re.compile(r"(?:^|/)attempt_(?P<attempt>\d+)(?:/|$)")
# NCCL_DEBUG_FILE=nccl.%h.%p.log and its like
_NCCL_FILE = re.compile(r"^nccl[-_.]?(?:debug|log)?[-_.](?P<host>[A-Za-z][\w-]*?)[-_.](?P<pid>\d+)(?:\.(?:log|txt|out))?$", re.I)
_LOCAL_RANK = re.compile(r"(?:^|[^A-Za-z])local[-_.]?rank[-_.=]?(?P<rank>\d+)(?![\dA-Za-z])", re.I)
_RANK = re.compile(r"(?:^|[^A-Za-z])(?:global[-_.]?)?rank[-_.=]?(?P<rank>\d+)(?![\dA-Za-z])", re.I)
# Slurm's --output=...%j_%t.out: job id, then task number, which is the usual global rank
_SLURM_TASK = re.compile(r"^(?:slurm|job)[-_.]?\d{2,}[-_.](?P<rank>\d{1,5})\.(?:out|err|log|txt)$", re.I)
# names people and clusters give to machines; "rank", "step" and other counted things are not among them
_HOST = re.compile(
    r"^(?:[A-Za-z0-9]+[-_])*?(?P<host>(?:[A-Za-z][\w]*-)*"
    r"(?:node|host|worker|master|trainer|launcher|gpu|ip|dgx|hgx|compute|server|launcher|pod|executor)-?\d[\w-]*?)"
    r"(?:[-_.](?:rank|pyspy|py-spy|dmesg|kern|agent|ps|nvidia|nccl|strace|top|stacks?|journal|syslog|log|out|err|gpu).*)?$",
    re.I,
)
_HOST_PID = re.compile(r"^(?P<host>[A-Za-z][\w-]*?\d[\w-]*?)[-_.](?P<pid>\d{4,7})$")
_SUFFIX = re.compile(r"(?:\.(?:log|txt|out|err|stdout|stderr|json|gz|zst|xz|bz2|tar|tgz|zip|\d))+$", re.I)


@dataclass(frozen=True, slots=True)
class FileHints:
    """What a name tells; None where it tells nothing. Hints are weaker than what lines say themselves.

    Attributes:
        rank: global rank, when the name says "rank" or is a Slurm task file.
        local_rank: index on its host.
        host: name of a host, pod or worker.
        pid: process id.
        attempt: number of the launcher's attempt (torchrun restarts), 0 for the first.
    """

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    attempt: int | None = None


def hints(name: str) -> FileHints:
    """Hints in an input's name (with its folders, slashes between)."""
    path = name.replace("\\", "/")
    torchrun = _TORCHRUN.search(path)
    attempt = _ATTEMPT.search(path)
    *folders, base = path.split("/")
    stem = _SUFFIX.sub("", base)
    rank, local_rank, host, pid = None, None, None, None
    nccl = _NCCL_FILE.match(base)
    if nccl:
        host, pid = nccl["host"], int(nccl["pid"])
    if torchrun:
        local_rank = int(torchrun["local"])
    for part in [stem, *reversed(folders)]:
        local = _LOCAL_RANK.search(part)
        if local and local_rank is None:
            local_rank = int(local["rank"])
        found = None if local else _RANK.search(part)
        if found and rank is None:
            rank = int(found["rank"])
        if host is None:
            host, host_pid = _host_of(part)
            pid = pid if pid is not None else host_pid
    task = _SLURM_TASK.match(base)
    if rank is None and task:
        rank = int(task["rank"])
    return FileHints(rank, local_rank, host, pid, int(attempt["attempt"]) if attempt else None)


def _host_of(part: str) -> tuple[str | None, int | None]:
    with_pid = _HOST_PID.match(part)
    pid = int(with_pid["pid"]) if with_pid else None
    found = _HOST.match(with_pid["host"] if with_pid else part)
    return (found["host"], pid) if found else (None, None)
