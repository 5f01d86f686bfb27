"""Tells how a job was started, and by which names its processes can be reached: the launcher, job ids, pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field

from hangscope.expressions import expression
from hangscope.model import Event
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass

SLURM = "slurm"
KUBERNETES = "kubernetes"
RAY = "ray"

_ELASTIC = ("worker_failed", "closing_signal", "failure_rank", "launch_started", "rendezvous_started", "omp_banner")
_SLURM = ("slurm_", "srun_")
_KUBERNETES = ("kube_",)
_RAY = ("ray_", "placement_pending", "no_node_for_resource", "resource_of_node")
_MPI = ("mpi_", "horovod_")
_TELLING = ("kube_pod", "kube_pod_name", "traceback_frame", "launch_command", "process_state")
_DEEPSPEED = "deepspeed_"

# Slurm writes slurm-JOBID.out and slurm-JOBID_TASK.out by itself
_SLURM_OUTPUT = expression(r"(?:^|/)slurm-(?P<job>\d{1,10}(?:_\d+)?)\.(?:out|err)\b")
_JOB_OF_STEP = expression(r"(?P<job>\d{1,10}(?:_\d+)?)(?:\.\w+)*")
# (train_fn pid=123, ip=10.0.0.2)
_RAY_TAG = expression(r"\bpid=\d+(?:, ip=|$)")
# [pod/NAME/CONTAINER] of kubectl logs --prefix
_POD_TAG = expression(r"(?P<pod>[\w.-]+)/[\w.-]+")
_ACCELERATE = "accelerate/commands/launch.py"
# what ps and the dumps of launchers show of their command lines
_COMMANDS = (
    ("accelerate", expression(r"\baccelerate(?:-launch\b| +launch\b|[./]commands[./]launch\b)")),
    ("deepspeed", expression(r"\bdeepspeed[./]launcher\b|(?:^|/)deepspeed +[^-\s]*")),
    ("torchrun", expression(r"\btorchrun\b|\btorch[./]distributed[./](?:run|launch)\b")),
    ("mpirun", expression(r"(?:^|/)(?:mpirun|mpiexec|orterun|prterun|horovodrun)\b")),
    ("srun", expression(r"(?:^|/)srun\b")),
    ("ray", expression(r"\braylet\b|^ray::")),
)
_PDSH = expression(r"^(?:cmd = |\++ )?pdsh\b")


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
    every = tuple(events)
    signs = _Signs(Counter(event.kind for event in every))
    # of a million lines few tell
    if telling := {kind for kind in signs.kinds if kind in _TELLING or kind.startswith(_SLURM)}:
        for event in every:
            if event.kind in telling:
                signs.take(event)
    for source in sources:
        signs.take_source(source)
    launcher = _launcher(signs)
    return Launch(launcher, _platform(signs, launcher), _only(signs.jobs), signs.pods, signs.pdsh)


@dataclass(slots=True)
class _Signs:
    """What lines, prefixes and names of inputs tell, before it is weighed."""

    kinds: Counter[str]
    prefixes: Counter[str] = field(default_factory=Counter)
    jobs: set[str] = field(default_factory=set)
    pods: dict[str, str] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    elastic: bool = False
    accelerate: bool = False
    ray: bool = False
    pdsh: bool = False

    def take(self, event: Event) -> None:
        """A line whose text or fields tell more than its kind."""
        if step := _JOB_OF_STEP.fullmatch(str(event.fields.get("job_step", ""))):
            self.jobs.add(step["job"])
        match event.kind:
            case "kube_pod":
                self.pods[str(event.fields.get("pod"))] = str(event.fields.get("node") or "")
            case "kube_pod_name":
                self.pods.setdefault(str(event.fields.get("pod")), "")
            case "traceback_frame":
                self.accelerate = self.accelerate or _ACCELERATE in event.line.text
            case "launch_command":
                self.pdsh = self.pdsh or _PDSH.match(event.line.text.strip()) is not None
            case "process_state":
                self.running |= _launchers_in(str(event.fields.get("command", "")))

    def take_source(self, source: ParsedSource) -> None:
        """An input: its name, the prefixes of its lines, the command lines of its dumps."""
        if named := _SLURM_OUTPUT.search(source.record.file):
            self.jobs.add(named["job"])
        for dump in source.dumps:
            self.running |= _launchers_in(dump.command)
        for writer in source.writers:
            key = writer.key
            self.prefixes[key.rank_source] += 1
            self.elastic = self.elastic or key.local_rank is not None
            self.ray = self.ray or _RAY_TAG.search(key.stream) is not None
            if key.host is not None and (tag := _POD_TAG.fullmatch(key.stream)) and tag["pod"] == key.host:
                self.pods.setdefault(key.host, "")

    def has(self, beginnings: str | tuple[str, ...]) -> bool:
        """Whether there are lines of a kind that begins so."""
        return any(kind.startswith(beginnings) for kind in self.kinds)


def _launcher(signs: _Signs) -> str | None:
    """What started the ranks themselves; that a scheduler started it in turn is the platform's business."""
    if signs.accelerate:
        return "accelerate"
    if signs.elastic or any(signs.kinds[kind] for kind in _ELASTIC):
        return "torchrun"
    votes = [(signs.prefixes[name], name) for name in ("srun", "mpirun") if signs.prefixes[name]]
    if votes:
        return max(votes)[1]
    for name, beginnings in (("deepspeed", _DEEPSPEED), ("srun", _SLURM), ("mpirun", _MPI), ("ray", _RAY)):
        if signs.has(beginnings) or (name == "ray" and signs.ray):
            return name
    # one that runs as a process and has said nothing
    return next((name for name, _ in _COMMANDS if name in signs.running), None)


def _launchers_in(command: str) -> set[str]:
    return {name for name, pattern in _COMMANDS if command and pattern.search(command)}


def _platform(signs: _Signs, launcher: str | None) -> str:
    if signs.pods or signs.has(_KUBERNETES):
        return KUBERNETES
    if launcher == "srun" or signs.jobs or signs.has(_SLURM):
        return SLURM
    return RAY if launcher == "ray" else ""


def _only(jobs: set[str]) -> str | None:
    return next(iter(jobs)) if len(jobs) == 1 else None
