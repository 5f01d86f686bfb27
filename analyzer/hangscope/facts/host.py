"""What the host ran out of, or that it is gone: memory, disk, /dev/shm, the node itself."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import replace

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.death import expand_hosts, expand_numbers
from hangscope.facts.deaths import find_deaths
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "memory_kill": FactKind(
        ("how", "killed_pid", "process", "anon_rss_kb"),
        "The kernel, Slurm, Kubernetes or Ray killed a process because the host or its cgroup ran out of memory.",
    ),
    "space_exhausted": FactKind(("path", "place"), "A write failed for want of space; `place` is shm or disk."),
    "shared_memory_failed": FactKind(
        ("action", "segment", "error", "full"),
        "Python or torch could not make, open or map shared memory; `full` = for want of space.",
    ),
    "node_gone": FactKind(("how",), "A node left the job as a whole."),
}

_SHM = expression(r"/dev/shm|\bshm\b|psm_|/torch_\d|nccl-\w{6}")  # noqa: S108  (text to find, no file is opened)
# joblib found no room for its semaphores, and goes on without them
_SERIAL = "joblib will operate in serial mode"
_VOLUMES = expression(r"shm")
# Kubernetes evicts pods for want of these
_DISKS = ("ephemeral-storage", "nodefs", "imagefs", "inodes")


def find(job: Job) -> Iterator[Fact]:
    """Memory kills, full places, failing shared memory, lost nodes."""
    yield from _memory_kills(job)
    yield from _full_places(job)
    yield from _shared_memory(job)
    yield from _lost_nodes(job)


# --- memory ----------------------------------------------------------------------------------------------


def _memory_kills(job: Job) -> Iterator[Fact]:
    yield from _kernel_kills(job)
    for event in job.events.of("srun_task_out_of_memory"):
        hosts = expand_hosts(str(event.fields.get("nodes", "")))
        tasks = expand_numbers(str(event.fields.get("tasks", "")))
        elastic = job.events.has("worker_failed", "closing_signal", "failure_rank")
        yield _fact("memory_kill", {"how": "Slurm reports Out Of Memory"}, event, hosts, () if elastic else tasks)
    for kind, how in (
        ("slurm_out_of_memory", "Slurm counted OOM kills in the job step"),
        ("slurm_state", "Slurm's record says OUT_OF_MEMORY"),
        ("slurm_record", "Slurm's record says OUT_OF_MEMORY"),
        ("kube_oom_killed", "Kubernetes reports OOMKilled"),
        ("ray_out_of_memory", "Ray's memory monitor killed it"),
        ("oom_unit", "systemd reports an OOM kill"),
    ):
        for event in job.events.of(kind):
            state = str(event.fields.get("state", event.fields.get("record_state", "OUT_OF_ME")))
            if not state.startswith("OUT_OF_ME"):
                continue
            ranks = () if event.rank is None else (event.rank,)
            yield _fact("memory_kill", {"how": how}, event, (event.host,) if event.host else (), ranks)


def _kernel_kills(job: Job) -> Iterator[Fact]:
    """The kernel's OOM killer, one fact a killed process; what it says around one kill belongs together."""
    dead = {death.pid: death for death in find_deaths(job) if death.pid is not None}
    pids = {process.pid: process for process in job.processes if process.pid is not None}
    kills: dict[tuple[str, object], list[Event]] = {}
    for event in job.events.of("oom_killed", "oom_constraint", "oom_daemon"):
        kills.setdefault((event.line.file, event.fields.get("killed_pid")), []).append(event)
    calls: dict[str, list[Event]] = {}
    for call in sorted(job.events.of("oom_invoked"), key=lambda call: call.line.number):
        calls.setdefault(call.line.file, []).append(call)
    for (file, pid), events in kills.items():
        events.sort(key=lambda event: (event.kind != "oom_killed", event.line.number))
        first = events[0]
        said = calls.get(file, [])
        starts = bisect.bisect_right(said, first.line.number, key=lambda call: call.line.number)
        death = dead.get(pid) if isinstance(pid, int) else None
        process = pids.get(pid) if isinstance(pid, int) else None
        rank = death.rank if death else process.rank if process else None
        host = first.host or (death.host if death else process.host if process else None)
        evidence = [evidence_of(event, "the kernel names the process it killed") for event in events]
        evidence += [evidence_of(call, "the kernel's OOM killer starts") for call in said[max(0, starts - 1) : starts]]
        evidence += [evidence_of(end, "and its supervisor sees it end") for end in (death.evidence if death else [])]
        yield Fact(
            "memory_kill",
            {
                "how": "The kernel's OOM killer acted",
                "killed_pid": first.fields.get("killed_pid"),
                "process": first.fields.get("process"),
                "anon_rss_kb": first.fields.get("anon_rss_kb"),
            },
            ranks=() if rank is None else (rank,),
            hosts=() if host is None else (host,),
            time=first.time,
            evidence=tuple(evidence),
        )


# --- space -----------------------------------------------------------------------------------------------


def _full_places(job: Job) -> Iterator[Fact]:
    for event in job.events.of("no_space_left"):
        text = event.line.text
        if _SERIAL in text:
            continue
        is_shm = event.line.header == "nccl" or bool(_SHM.search(text))
        yield _said("space_exhausted", {"path": event.fields.get("path"), "place": "shm" if is_shm else "disk"}, event)
    for event in job.events.of("filesystem_usage"):
        if event.fields.get("used_percent") == 100:
            mount = str(event.fields.get("mount"))
            place = "shm" if _SHM.search(mount) else "disk"
            yield _said("space_exhausted", {"path": mount, "place": place}, event)
    for event in job.events.of("kube_storage_exceeded"):
        yield _said("space_exhausted", {"path": "the pod's ephemeral storage", "place": "disk"}, event)
    for event in job.events.of("kube_evicted"):
        if event.fields.get("resource") in _DISKS:
            yield _said("space_exhausted", {"path": "the node's disk", "place": "disk"}, event)
    for event in job.events.of("kube_volume_exceeded"):
        volume = str(event.fields.get("volume"))
        place = "shm" if _VOLUMES.search(volume) else "disk"
        yield _said("space_exhausted", {"path": volume, "place": place}, event)


def _shared_memory(job: Job) -> Iterator[Fact]:
    for event in job.events.of("torch_shm_error", "torch_shm_manager_failed"):
        error = str(event.fields.get("error", ""))
        fields = {
            "action": event.fields.get("action") or "start torch_shm_manager",
            "segment": event.fields.get("segment"),
            "error": error,
            "full": "No space left" in error or "Cannot allocate memory" in error,
        }
        yield _said("shared_memory_failed", fields, event)
    for event in job.events.of("dataloader_shm_bus_error", "dataloader_worker_killed"):
        if event.kind == "dataloader_worker_killed" and event.fields.get("signal_text") != "Bus error":
            continue
        fields = {"action": "write to shared memory", "segment": None, "error": "Bus error", "full": True}
        yield _said("shared_memory_failed", fields, event)
    yield from _semaphores(job)
    yield from _bus_errors(job)


def _bus_errors(job: Job) -> Iterator[Fact]:
    """SIGBUS while Python handles shared memory: the pages of a full tmpfs cannot be given."""
    frames = job.events.of("shared_memory_frame")
    for event in job.events.of("fatal_python_error"):
        if "Bus error" not in str(event.fields.get("error")):
            continue
        near = [f for f in frames if f.line.file == event.line.file and 0 < f.line.number - event.line.number < 60]
        near = [f for f in near if f.rank == event.rank]
        if near:
            fields: dict[str, Value] = {"action": "write to shared memory", "error": "Bus error", "full": True}
            fact = _said("shared_memory_failed", fields, event)
            yield replace(fact, evidence=(*fact.evidence, *(evidence_of(f, "inside shared memory") for f in near[:2])))


def _semaphores(job: Job) -> Iterator[Fact]:
    """multiprocessing's SemLock: sem_open needs a writable /dev/shm (FileNotFoundError, PermissionError, ENOSPC)."""
    calls = job.events.of("semaphore_call")
    for event in job.events.of("exception"):
        frames = event.fields.get("frames")
        inside = isinstance(frames, tuple) and bool(frames) and "multiprocessing/synchronize.py" in str(frames[-1])
        if not inside:
            continue
        error = str(event.fields.get("message", ""))
        near = [c for c in calls if c.line.file == event.line.file and 0 < event.line.number - c.line.number < 12]
        yield Fact(
            "shared_memory_failed",
            {"action": "create a semaphore", "segment": None, "error": error, "full": "No space left" in error},
            ranks=() if event.rank is None else (event.rank,),
            hosts=() if event.host is None else (event.host,),
            time=event.time,
            evidence=(
                evidence_of(event, "the error"),
                *(evidence_of(call, "raised here") for call in near if call.rank == event.rank),
            ),
        )


# --- nodes -----------------------------------------------------------------------------------------------


def _lost_nodes(job: Job) -> Iterator[Fact]:
    for event in job.events.of("slurm_node_failure"):
        yield _gone(job, event, expand_hosts(str(event.fields.get("nodes", ""))), "Slurm reports a node failure")
    for event in job.events.of("slurm_cancelled"):
        if str(event.fields.get("reason") or "").startswith("NODE FAILURE"):
            # the node named here is the one that writes the message, not the one that failed
            yield _gone(job, event, (), "Slurm cancelled the job for a node failure")
    for event in job.events.of("slurm_state", "slurm_record"):
        if event.fields.get("state", event.fields.get("record_state")) == "NODE_FAIL":
            yield _gone(job, event, (), "Slurm's record says NODE_FAIL")
    yield from _down_nodes(job)
    lost = job.events.of("mpi_daemon_lost")
    for event in job.events.of("mpi_remote_daemon"):
        if any(0 < event.line.number - said.line.number <= 6 and said.line.file == event.line.file for said in lost):
            yield _gone(job, event, (str(event.fields.get("node")),), "mpirun lost its daemon on it")
    for event in job.events.of("ray_node_died", "kube_node_not_ready", "kernel_panic"):
        node = event.fields.get("node")
        host = str(node) if node else event.host if event.kind == "kernel_panic" else None
        how = {"ray_node_died": "Ray marked it dead", "kernel_panic": "Its kernel panicked"}.get(
            event.kind, "Kubernetes says that the node is not ready"
        )
        yield _gone(job, event, (host,) if host else (), how)
    yield from _pings(job)


def _down_nodes(job: Job) -> Iterator[Fact]:
    """Nodes that Slurm lists as down or silent; one that only drains goes on with what it runs."""
    names = job.events.of("slurm_node_name")
    for event in job.events.of("slurm_node_state"):
        state = str(event.fields.get("node_state") or "not responding")
        if not re.match(r"down|fail|not resp", state.lower()) and "NOT_RESPONDING" not in state:
            continue
        hosts = expand_hosts(str(event.fields.get("nodes") or ""))
        before = [n for n in names if n.line.file == event.line.file and 0 < event.line.number - n.line.number < 30]
        if not hosts and before:
            hosts = [str(max(before, key=lambda name: name.line.number).fields.get("node"))]
        # of a whole cluster's nodes, only the job's count
        if hosts and (not job.hosts or set(hosts) & set(job.hosts)):
            yield _gone(job, event, hosts, f"Slurm lists it as {state}")


def _pings(job: Job) -> Iterator[Fact]:
    """A ping that nobody answered; the target stands in the lines before the result."""
    targets = job.events.of("ping_command", "ping_target")
    for event in job.events.of("ping_result"):
        if event.fields.get("received") != 0:
            continue
        before = [t for t in targets if t.line.file == event.line.file and t.line.number < event.line.number]
        if not before:
            continue
        # the command names the host as the user calls it, the reply line its address
        said = next((t for t in reversed(before) if t.kind == "ping_command"), before[-1])
        yield _gone(job, event, (str(said.fields.get("node")),), "It does not answer ping")


def _gone(job: Job, event: Event, hosts: tuple[str, ...] | list[str], how: str) -> Fact:
    names = set(hosts)
    ranks = sorted(rank for rank, process in job.ranks.items() if process.host in names)
    evidence = (evidence_of(event, how),)
    return Fact("node_gone", {"how": how}, tuple(ranks), tuple(sorted(names)), time=event.time, evidence=evidence)


def _said(kind: str, fields: dict[str, Value], event: Event) -> Fact:
    return _fact(kind, fields, event, (event.host,) if event.host else (), () if event.rank is None else (event.rank,))


def _fact(
    kind: str,
    fields: dict[str, Value],
    event: Event,
    hosts: list[str] | tuple[str, ...],
    ranks: list[int] | tuple[int, ...],
) -> Fact:
    evidence: tuple[Evidence, ...] = (evidence_of(event, ""),)
    return Fact(kind, fields, tuple(ranks), tuple(hosts), time=event.time, evidence=evidence)
