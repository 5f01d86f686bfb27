"""Tells how a job was started, and by which names its processes can be reached: the launcher, job ids, pods."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hangscope.model import Event
from hangscope.parse.source import ParsedSource

SLURM = "slurm"
KUBERNETES = "kubernetes"
RAY = "ray"

_ELASTIC = ("worker_failed", "closing_signal", "failure_rank", "launch_started", "rendezvous_started", "omp_banner")
_SLURM = ("slurm_", "srun_")
_KUBERNETES = ("kube_",)
_RAY = ("ray_", "placement_pending", "no_node_for_resource", "resource_of_node")
_MPI = ("mpi_", "horovod_")
_DEEPSPEED = "deepspeed_"

# Slurm writes slurm-JOBID.out and slurm-JOBID_TASK.out by itself
_SLURM_OUTPUT = re.compile(r"(?:^|/)slurm-(?P<job>\d{1,10}(?:_\d+)?)\.(?:out|err)\b")
_JOB_OF_STEP = re.compile(r"(?P<job>\d{1,10}(?:_\d+)?)(?:\.\w+)*")
# (train_fn pid=123, ip=10.0.0.2)
_RAY_TAG = re.compile(r"\bpid=\d+(?:, ip=|$)")
# [pod/NAME/CONTAINER] of kubectl logs --prefix
_POD_TAG = re.compile(r"(?P<pod>[\w.-]+)/[\w.-]+")
_ACCELERATE = "accelerate/commands/launch.py"
# what ps and the dumps of launchers show of their command lines
_COMMANDS = (
    ("accelerate", re.compile(r"\baccelerate(?:-launch\b| +launch\b|[./]commands[./]launch\b)")),
    ("deepspeed", re.compile(r"\bdeepspeed[./]launcher\b|(?:^|/)deepspeed +[^-\s]*")),
    ("torchrun", re.compile(r"\btorchrun\b|\btorch[./]distributed[./](?:run|launch)\b")),
    ("mpirun", re.compile(r"(?:^|/)(?:mpirun|mpiexec|orterun|prterun|horovodrun)\b")),
    ("srun", re.compile(r"(?:^|/)srun\b")),
    ("ray", re.compile(r"\braylet\b|^ray::")),
)
_PDSH = re.compile(r"^(?:cmd = |\++ )?pdsh\b")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a job was started.

    Attributes:
        launcher: "torchrun", "accelerate", "deepspeed", "mpirun", "srun", "ray", or None when nothing tells.
        platform: "slurm", "kubernetes", "ray", or "" for hosts that one logs into.
        slurm_job: Slurm's id of the job, when one and only one is named.
        pods: pod -> its node, "" when that is not known.
        pdsh: hosts are reached by pdsh.
    """

    launcher: str | None = None
    platform: str = ""
    slurm_job: str | None = None
    pods: Mapping[str, str] = field(default_factory=dict)
    pdsh: bool = False


def find_launch(events: Iterable[Event], sources: Iterable[ParsedSource]) -> Launch:
    """How the job was started, by the prefixes that launchers put in front of lines and by their own messages.

    Args:
        events: every recognized line.
        sources: what was read; the writers' prefixes and the names of the inputs.
    """
    kinds: Counter[str] = Counter()
    jobs: set[str] = set()
    pods: dict[str, str] = {}
    running: set[str] = set()
    accelerate = pdsh = False
    for event in events:
        kinds[event.kind] += 1
        if event.kind.startswith(_SLURM) and (step := _JOB_OF_STEP.fullmatch(str(event.fields.get("job_step", "")))):
            jobs.add(step["job"])
        if event.kind == "kube_pod":
            pods[str(event.fields.get("pod"))] = str(event.fields.get("node") or "")
        elif event.kind == "kube_pod_name":
            pods.setdefault(str(event.fields.get("pod")), "")
        accelerate = accelerate or (event.kind == "traceback_frame" and _ACCELERATE in event.line.text)
        pdsh = pdsh or (event.kind == "launch_command" and bool(_PDSH.match(event.line.text.strip())))
        if event.kind == "process_state":
            running |= _launchers_in(str(event.fields.get("command", "")))
    prefixes: Counter[str] = Counter()
    is_ray = is_elastic = False
    for source in sources:
        if named := _SLURM_OUTPUT.search(source.record.file):
            jobs.add(named["job"])
        for dump in source.dumps:
            running |= _launchers_in(dump.command)
        for writer in source.writers:
            key = writer.key
            prefixes[key.rank_source] += 1
            is_elastic = is_elastic or key.local_rank is not None
            is_ray = is_ray or bool(_RAY_TAG.search(key.stream))
            if key.host is not None and (tag := _POD_TAG.fullmatch(key.stream)) and tag["pod"] == key.host:
                pods.setdefault(key.host, "")
    launcher = _launcher(kinds, prefixes, is_elastic=is_elastic, accelerate=accelerate, is_ray=is_ray)
    # a launcher that runs as a process and has said nothing
    launcher = launcher or next((name for name, _ in _COMMANDS if name in running), None)
    return Launch(launcher, _platform(kinds, launcher, jobs, pods), _only(jobs), pods, pdsh)


def _launcher(
    kinds: Counter[str], prefixes: Counter[str], *, is_elastic: bool, accelerate: bool, is_ray: bool
) -> str | None:
    """What started the ranks themselves; that a scheduler started it in turn is the platform's business."""
    if accelerate:
        return "accelerate"
    if is_elastic or any(kinds[kind] for kind in _ELASTIC):
        return "torchrun"
    votes = [(prefixes[name], name) for name in ("srun", "mpirun") if prefixes[name]]
    if votes:
        return max(votes)[1]
    for name, beginnings in (("deepspeed", _DEEPSPEED), ("srun", _SLURM), ("mpirun", _MPI)):
        if _has(kinds, beginnings):
            return name
    return "ray" if is_ray or _has(kinds, _RAY) else None


def _launchers_in(command: str) -> set[str]:
    return {name for name, pattern in _COMMANDS if command and pattern.search(command)}


def _platform(kinds: Counter[str], launcher: str | None, jobs: set[str], pods: Mapping[str, str]) -> str:
    if pods or _has(kinds, _KUBERNETES):
        return KUBERNETES
    if launcher == "srun" or jobs or _has(kinds, _SLURM):
        return SLURM
    return RAY if launcher == "ray" else ""


def _has(kinds: Counter[str], beginnings: str | tuple[str, ...]) -> bool:
    return any(kind.startswith(beginnings) for kind in kinds)


def _only(jobs: set[str]) -> str | None:
    return next(iter(jobs)) if len(jobs) == 1 else None
