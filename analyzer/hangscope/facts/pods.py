"""Pods that do not run while their peers do, as kubectl shows them."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Fact, Value

KINDS = {
    "kube_pod": FactKind(
        ("pod", "pod_status", "ready", "containers", "restarts", "node"), "A row of the table of kubectl get pods."
    ),
    "pod_not_started": FactKind(
        ("pod", "pod_status", "others"), "A pod waits or cannot start while `others` pods of its kind run."
    ),
    "pod_failed": FactKind(
        ("pod", "pod_status", "others"),
        "A pod has failed, or fails again and again, while `others` pods of its kind run.",
    ),
    "pod_deleted": FactKind(
        ("pod", "pod_status", "others"), "A pod is being deleted while `others` pods of its kind run."
    ),
}
_WAITING = expression(
    r"(?:Init:.*|Pending|ContainerCreating|PodInitializing|ImagePullBackOff|ErrImagePull|InvalidImageName|"
    r"CreateContainer(?:Config)?Error|SchedulingGated|ContainersNotReady)"
)
_FAILED = expression(r"(?:CrashLoopBackOff|Error|RunContainerError|StartError|ContainerStatusUnknown|DeadlineExceeded)")
_NUMBER = expression(r"\d+")


def find(job: Job) -> Iterator[Fact]:
    """Pods that stand out among those of their kind, by the last table of each file."""
    kinds: dict[tuple[str, str], list[Event]] = {}
    for event in job.events.of("kube_pod"):
        # job-worker-1 and job-worker-2 are of one kind
        name = _NUMBER.sub("#", str(event.fields.get("pod")))
        kinds.setdefault((event.line.file, name), []).append(event)
    for pods in kinds.values():
        last = list({event.fields.get("pod"): event for event in pods}.values())
        running = [event for event in last if event.fields.get("pod_status") == "Running"]
        if not running:
            continue
        for event in last:
            status = str(event.fields.get("pod_status"))
            for kind, odd in (
                ("pod_not_started", bool(_WAITING.fullmatch(status))),
                ("pod_failed", bool(_FAILED.fullmatch(status))),
                ("pod_deleted", status == "Terminating"),
            ):
                if odd:
                    yield _fact(kind, event, len(running), job)


def ranks_of(job: Job, pod: str) -> tuple[int, ...]:
    """The ranks whose host is that pod: inside of a pod, its name is the host's."""
    return tuple(sorted(rank for rank, process in job.ranks.items() if process.host == pod))


def _fact(kind: str, event: Event, running: int, job: Job) -> Fact:
    pod = str(event.fields.get("pod"))
    fields: dict[str, Value] = {"pod": pod, "pod_status": event.fields.get("pod_status"), "others": running}
    shown = (evidence_of(event, "the pod that stands out"),)
    return Fact(kind, fields, ranks_of(job, pod), (pod,), time=event.time, evidence=shown)
