"""Writes down what /proc shows: a table as ps prints it, and lines that ``attach.lark`` reads."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping

from hangscope.live import host, procfs
from hangscope.live.procfs import Stat
from hangscope.live.targets import LiveJob, Target
from hangscope.records import dataclass

MARK = "hangscope attach:"
_MAX_THREADS = 512
_STACK_HEAD = "Kernel stack of"


def describe_job(job: LiveJob, host_name: str, now: float) -> Iterator[str]:
    """Who is who."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    yield f"{MARK} {len(job.targets)} processes of job {_word(job.name)} on {_word(host_name)} at {moment}"
    for target in job.targets:
        yield (
            f"{MARK} process pid={target.pid} parent={target.parent} role={target.role}"
            f"{_pair('rank', target.rank)}{_pair('local_rank', target.local_rank)}"
            f"{_pair('world_size', target.world_size)} host={_word(host_name)}"
        )


def describe_trouble(who: str, text: str) -> str:
    """What could not be had, for the warnings of the report."""
    return f"{MARK} not complete: {who}: {' '.join(text.split())}"


def process_table(targets: Iterable[Target]) -> str:
    """The processes as ``ps -o pid,ppid,stat,wchan:24,etime,time,args`` prints them."""
    now = procfs.uptime_s()
    lines = ["    PID    PPID STAT WCHAN                    ELAPSED     TIME COMMAND"]
    for target in targets:
        one = procfs.read_stat(target.pid)
        if one is not None:
            lines.append(
                f"{one.pid:>7} {one.parent:>7} {_flags(one):<4} {(procfs.wait_channel(one.pid) or '-')[:24]:<24} "
                f"{_clock(now - one.started, days=True):>7} {_clock(one.cpu_s):>8} {target.command or f'[{one.name}]'}"
            )
    return "\n".join([*lines, ""])


def describe_use(targets: Iterable[Target], round_number: int) -> Iterator[str]:
    """State, CPU time, open files and limits of each process."""
    for target in targets:
        one = procfs.read_stat(target.pid)
        if one is None:
            continue
        files = procfs.open_files(target.pid)
        yield (
            f"{MARK} use round={round_number} pid={one.pid} state={one.state} cpu_s={one.cpu_s:.2f}"
            f"{_pair('wchan', procfs.wait_channel(one.pid) or None)}"
            f"{_pair('open_files', None if files is None else len(files))}"
            f"{_pair('open_files_limit', host.limit_of(one.pid, 'Max open files'))}"
            f"{_pair('locked_limit', host.limit_of(one.pid, 'Max locked memory'))}"
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How far a process has come, by signs that only grow.

    Attributes:
        cpu_s: CPU time.
        switches: how often its main thread has waited for something; it stays as it is while one wait lasts.
        logs: sizes of the files that its standard output and error go to, by device and number.
    """

    cpu_s: float
    switches: int | None
    logs: Mapping[tuple[int, int], int]


def read_paces(targets: Iterable[Target]) -> dict[int, Pace]:
    """The paces by process id."""
    return {target.pid: pace for target in targets if (pace := _pace(target.pid)) is not None}


def _pace(pid: int) -> Pace | None:
    one = procfs.read_stat(pid)
    if one is None:
        return None
    status = procfs.read_text(procfs.PROC / str(pid) / "task" / str(pid) / "status") or ""
    waits = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
    return Pace(one.cpu_s, int(waits[1]) if waits else None, procfs.log_sizes(pid))


def describe_progress(before: Mapping[int, Pace], now: Mapping[int, Pace], over_s: float) -> Iterator[str]:
    """What each process did between the two looks."""
    for pid, last in now.items():
        first = before.get(pid)
        if first is None:
            continue
        switches = None if first.switches is None or last.switches is None else last.switches - first.switches
        grown = sum(max(0, size - first.logs.get(log, size)) for log, size in last.logs.items())
        yield (
            f"{MARK} progress pid={pid} cpu_s={max(0.0, last.cpu_s - first.cpu_s):.2f} over_s={over_s:.1f}"
            f"{_pair('switches', switches)}{_pair('log_bytes', grown if last.logs else None)}"
        )


def describe_host(targets: Iterable[Target]) -> Iterator[str]:
    """Memory of the cgroups and shared memory, each place once."""
    seen: set[object] = set()
    for target in targets:
        memory, shared = host.memory_of(target.pid), host.shared_memory(target.pid)
        # a limit is told once, but whoever is frozen is frozen by name
        if (memory not in seen and memory.limit_bytes is not None) or (memory.frozen and target.role == "rank"):
            seen.add(memory)
            yield (
                f"{MARK} memory pid={target.pid}{_pair('limit_bytes', memory.limit_bytes)}"
                f"{_pair('used_bytes', memory.used_bytes)}{_pair('oom_kills', memory.oom_kills)}"
                f" frozen={int(memory.frozen)}"
            )
        if shared is not None and shared not in seen:
            seen.add(shared)
            yield f"{MARK} shm pid={target.pid} size_bytes={shared[0]} used_bytes={shared[1]}"


def describe_threads(target: Target) -> Iterator[str]:
    """The threads of one process, and where the kernel holds them if it shows that."""
    for one in procfs.read_threads(target.pid)[:_MAX_THREADS]:
        wait = procfs.wait_channel(target.pid, one.pid)
        yield (
            f"{MARK} thread pid={target.pid} tid={one.pid} state={one.state} cpu_s={one.cpu_s:.2f}"
            f"{_pair('wchan', wait or None)} name={' '.join(one.name.split())}"
        )
    stack = procfs.read_text(procfs.PROC / str(target.pid) / "stack")
    if stack and stack.strip():
        yield f"{_STACK_HEAD} {target.pid}:"
        yield from (f"  {line}" for line in stack.splitlines()[:64])


def describe_environment(target: Target) -> Iterator[str]:
    """The settings that say how the job is put together."""
    for name, value in target.shown().items():
        yield f"{name}={' '.join(value.split())[:1000]}"


def _flags(one: Stat) -> str:
    return one.state + ("s" if one.session == one.pid else "") + ("l" if one.threads > 1 else "")


def _clock(seconds: float, *, days: bool = False) -> str:
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if days and hours >= 24:
        return f"{hours // 24}-{hours % 24:02}:{minute:02}:{second:02}"
    if days and not hours:
        return f"{minute:02}:{second:02}"
    return f"{hours:02}:{minute:02}:{second:02}"


def _pair(name: str, value: object) -> str:
    return "" if value is None else f" {name}={_word(value)}"


def _word(value: object) -> str:
    return "_".join(str(value).split()) or "-"
