"""Reads what a file's name and folders tell about who wrote it: rank, host, process, attempt."""

from __future__ import annotations

import functools
import re

from hangscope.expressions import expression
from hangscope.records import dataclass

# LOG_DIR/{run_id}_{random}/attempt_{restart}/{local_rank}/{stdout.log,stderr.log,error.json} (torchrun --log-dir)
_TORCHRUN = expression(r"(?:^|/)attempt_\d+/(?P<local>\d{1,6})/(?:(?:stdout|stderr)\.log|error\.json)[^/]*$")
_ATTEMPT = expression(r"(?:^|/)attempt_(?P<attempt>\d{1,6})(?:/|$)")
# NCCL_DEBUG_FILE=nccl.%h.%p.log and its like: whatever stands between is the host
_NCCL_FILE = expression(
    r"nccl(?:[-_.](?:debug|log))?(?:\.(?P<host>[A-Za-z][\w-]*)\.(?P<pid>\d{1,10})|[-_](?P<name>(?!(?:trace[-_])?rank[-_])[A-Za-z][\w-]*?)[-_](?P<id>\d{4,7}))"
    r"(?:\.(?:log|txt|out|err))?",
    re.IGNORECASE,
)
_LOCAL_RANK = expression(r"(?:^|[^A-Za-z])local[-_.]?rank[-_.=]?(?P<rank>\d{1,6})(?![\dA-Za-z])", re.IGNORECASE)
_RANK = expression(r"(?:^|[^A-Za-z])(?:global[-_.]?)?rank[-_.=]?(?P<rank>\d{1,6})(?![\dA-Za-z])", re.IGNORECASE)
# Slurm's --output=%j_%t.out: job id, then task number, which is the usual global rank
_SLURM_TASK = expression(r"^(?:slurm|job)[-_.]?\d{2,}[-_.](?P<rank>\d{1,5})$", re.IGNORECASE)
_SUFFIX = expression(r"(?:\.(?:log|txt|out|err|stdout|stderr|json|gz|zst|xz|bz2|tar|tgz|zip|\d{1,2}))+$", re.IGNORECASE)

# names that people and clusters give to machines and pods, with their number
_HOST = expression(
    r"(?:^|[-_])(?:node|host|worker|master|trainer|launcher|dgx|hgx|compute|server|executor|pod|vm|slave|leader|ip)-?\d"
    r"|(?:^|[-_])gpu\d{3}|(?:^|[-_])gpu-\d",
    re.IGNORECASE,
)
# words that say what a file is, not where it comes from
_NOISE = expression(
    r"(?:local|global|rank\d*|py|pyspy|spy|pystack|gdb|lldb|stacks?|dump|trace|nccl|ncclras|ras|debug|log|logs|out|err|stdout|stderr"
    r"|dmesg|kern|kernel|syslog|journal|messages|agent|ps|top|nvidia|smi|strace|train|training|run\d*|console|before|after)$",
    re.IGNORECASE,
)
_PID = expression(r"\d{4,7}$")
# stack_node01_3.txt, node01-gpu3.txt: a host's dumps, numbered as its processes are
_STACK_ON_HOST = expression(
    r"(?:(?:stacks?|py-?spy|pystack|gdb|dump|bt|backtrace|trace)[-_.](?P<host>[A-Za-z][\w.-]*?)[-_](?:gpu|local|lr)?"
    r"|(?P<named>[A-Za-z][\w.-]*?)[-_](?:gpu|lr))(?P<local>\d{1,2})",
    re.IGNORECASE,
)


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


@functools.lru_cache(maxsize=1 << 16)
def hints(name: str) -> FileHints:
    """Hints in an input's name (with its folders, slashes between)."""
    path = name.replace("\\", "/")
    *folders, base = path.split("/")
    stem = _SUFFIX.sub("", base)
    torchrun, attempt = _TORCHRUN.search(path), _ATTEMPT.search(path)
    local_rank = int(torchrun["local"]) if torchrun else _number(_LOCAL_RANK, [stem], whole=folders)
    rank = _number(_RANK, [stem], whole=folders)
    if rank is None:
        rank = _number(_SLURM_TASK, [stem], whole=[])
    host, pid = _host_in(base)
    numbered = _STACK_ON_HOST.fullmatch(stem)
    if numbered and rank is None and local_rank is None:
        named = numbered["host"] or numbered["named"]
        if _HOST.search(named):
            host, local_rank = named, int(numbered["local"])
    for folder in reversed(folders):
        # a folder is a host's only when it is named after nothing else
        if host is None and _host_in(folder)[0] == folder:
            host = folder
    return FileHints(rank, local_rank, host, pid, int(attempt["attempt"]) if attempt else None)


def _number(pattern: re.Pattern[str], parts: list[str], *, whole: list[str]) -> int | None:
    """The rank that one of the parts names; folders (`whole`, innermost last) must be named so and nothing else."""
    for part in parts:
        found = pattern.search(part)
        # "local_rank3" names no global rank
        if found and (pattern is _LOCAL_RANK or not _LOCAL_RANK.search(part)):
            return int(found["rank"])
    for folder in reversed(whole):
        found = pattern.fullmatch(folder)
        if found:
            return int(found["rank"])
    return None


def _host_in(base: str) -> tuple[str | None, int | None]:
    """The machine that a file's name speaks of, and the process id behind it."""
    nccl = _NCCL_FILE.fullmatch(base)
    if nccl:
        return nccl["host"] or nccl["name"], int(nccl["pid"] or nccl["id"])
    stem = _SUFFIX.sub("", base)
    name, pid = "", None
    for separator, token in re.findall(r"(^|[-_.])([^-_.]+)", stem):
        if _HOST.search(name) and _PID.match(token):
            pid = int(token)
            break
        if _NOISE.match(token) or (separator == "." and name):
            if _HOST.search(name):
                break
            name = ""
            continue
        name = name + separator + token if name else token
    return (name, pid) if _HOST.search(name) else (None, None)
