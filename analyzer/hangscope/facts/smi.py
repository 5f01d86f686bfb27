"""What nvidia-smi shows of the GPUs: faults that it counts, and one GPU that idles while all others work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangscope.align.job import Job
from hangscope.align.process_ranks import TASK_KINDS, ProcessRanks
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Evidence, Fact, Value

KINDS = {
    "smi_problem": FactKind(
        ("bus", "gpu_index", "problem", "what", "value"),
        "nvidia-smi says that something is wrong with a GPU: unreadable, ecc-uncorrectable, remap-failed, "
        "remap-pending, reset-required, fabric-not-ready, slowed or link-down.",
    ),
    "smi_gpu": FactKind(
        ("bus", "gpu_index", "model", "used_percent", "power_w", "limit_w", "processes"),
        "One GPU, as nvidia-smi shows it.",
    ),
    "smi_process": FactKind(("gpu_index", "process", "command"), "A process on a GPU, as nvidia-smi lists it."),
    "smi_fault": FactKind(
        ("bus", "gpu", "problem", "what", "value"), "A fault of a GPU, with its rank if that is known."
    ),
    "smi_gpu_idle": FactKind(
        ("gpu", "used_percent", "others"),
        "One GPU of a host idles while all others are at work: its rank is elsewhere.",
    ),
}
_IDLE, _BUSY = 5.0, 90.0


def find(job: Job) -> Iterator[Fact]:
    """Faults, and GPUs that stand out."""
    if not job.events.has("smi_problem", "smi_gpu"):
        return
    owners = _Owners(job)
    for event in job.events.of("smi_problem"):
        fields = {name: event.fields.get(name) for name in ("bus", "problem", "what", "value")}
        index = event.fields.get("gpu_index")
        fields["gpu"] = index if index is not None else event.fields.get("bus")
        yield _fact("smi_fault", fields, event, owners.of(event), _seen(event, "nvidia-smi says so"))
    files: dict[tuple[str, str | None], list[Event]] = {}
    for event in job.events.of("smi_gpu"):
        if isinstance(event.fields.get("used_percent"), float):
            files.setdefault((event.line.file, event.host), []).append(event)
    for events in files.values():
        yield from _loads({_name(event): event for event in events}, owners)


def _loads(gpus: dict[object, Event], owners: _Owners) -> Iterator[Fact]:
    """What the loads of one host's GPUs say, by the last look at each."""
    loads = [(event, float(str(event.fields["used_percent"]))) for event in gpus.values()]
    idle = [event for event, load in loads if load <= _IDLE]
    busy = [event for event, load in loads if load >= _BUSY]
    if len(idle) == 1 and len(busy) == len(loads) - 1 >= 2:
        fields: dict[str, Value] = {
            "gpu": str(_name(idle[0])),
            "used_percent": idle[0].fields["used_percent"],
            "others": len(busy),
        }
        yield _fact("smi_gpu_idle", fields, idle[0], owners.of(idle[0]), _seen(idle[0], "this GPU idles", busy[:3]))


class _Owners:
    """Which rank uses a GPU."""

    def __init__(self, job: Job) -> None:
        seen = job.events.of("process_state", *TASK_KINDS)
        self._ranks = ProcessRanks(seen, job.processes, job.world_size)
        self._buses: dict[object, set[int]] = {}
        for init in job.events.of("comm_init_start", "comm_init_complete"):
            if init.rank is not None and (bus := str(init.fields.get("bus_id") or "").lower().lstrip("0")):
                self._buses.setdefault((init.host, bus), set()).add(init.rank)
        self._pids: dict[object, list[int]] = {}
        for event in job.events.of("smi_process"):
            if (pid := event.number("process")) is not None:
                self._pids.setdefault((event.host, event.fields.get("gpu_index")), []).append(pid)

    def of(self, event: Event) -> tuple[int, ...]:
        """The rank of the processes on that GPU."""
        own = event.fields.get("processes")
        pids = [pid for pid in own if isinstance(pid, int)] if isinstance(own, tuple) else []
        pids = pids or self._pids.get((event.host, event.fields.get("gpu_index")), [])
        owners = {owner.rank for pid in pids if (owner := self._ranks.owner(pid, event.host)) is not None}
        if not owners:
            owners = self._buses.get((event.host, _short(event.fields.get("bus"))), set())
        return tuple(sorted(owners)) if len(owners) == 1 else ()


def _short(bus: object) -> str:
    """As NCCL spells a bus id: 00000000:3b:00.0 -> 3b000."""
    return str(bus or "").replace(":", "").replace(".", "").lstrip("0")


def _name(event: Event) -> object:
    index = event.fields.get("gpu_index")
    return index if index is not None else event.fields.get("bus")


def _fact(kind: str, fields: dict[str, Value], event: Event, ranks: tuple[int, ...], seen: Sequence[Evidence]) -> Fact:
    hosts = (event.host,) if event.host else ()
    return Fact(kind, fields, ranks, hosts, time=event.time, evidence=tuple(seen))


def _seen(event: Event, why: str, others: Sequence[Event] = ()) -> list[Evidence]:
    return [evidence_of(event, why), *(evidence_of(other, "another GPU") for other in others)]
