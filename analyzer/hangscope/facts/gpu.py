"""Reads Xid and SXid lines: what each number means, and which of several is the one that came first.

What a number means stands in `codes/xid.toml`. The first serious event counts: 43, 45, 137 and 154 follow from
something earlier, and so do GSP time-outs and switch errors after a GPU or a link is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field, replace

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts import FactKind, exceptions
from hangscope.facts.codes.xid import Meaning, recovery_step, sxid_meaning, xid_meaning
from hangscope.facts.collect import evidence_of
from hangscope.facts.who import RankFinder
from hangscope.model import Event, Fact, Value
from hangscope.records import dataclass

_FAULT_FIELDS = (
    *("cause", "xid", "sxid", "meaning", "origin", "first_step", "afterwards", "bus", "process", "weak", "primary"),
    *("advice", "count", "spread"),
)

KINDS = {
    "gpu_fault": FactKind(
        _FAULT_FIELDS,
        "The driver reports a GPU or NVSwitch error; `cause` is the id of the cause that it points at, `weak` = often "
        "harmless or software, `primary` = no earlier fault explains it. `first_step` is what Xid 154 asks for on that "
        "GPU (`advice`), else what NVIDIA's catalog does; `spread` what the number of GPUs and programs hit says.",
    ),
    "gpu_fault_corrected": FactKind(
        _FAULT_FIELDS, "The driver reports an error that the hardware put right by itself; fields as of gpu_fault."
    ),
    "gpu_error": FactKind(
        ("error", "text"),
        "The CUDA runtime or driver reports an error to the program: `error` is the event kind without cuda_.",
    ),
    "gpu_memory_full": FactKind(
        ("wanted", "gpu", "total", "free"), "An allocator could not get GPU memory, and says what it asked for."
    ),
    "gpu_gone": FactKind(("bus", "how"), "The driver or nvidia-smi cannot reach a GPU any more."),
}

ERROR_KINDS = tuple(
    f"cuda_{error}"
    for error in (
        *("after_fork", "device_assert", "driver_too_old", "ecc_error", "fabric_not_ready", "hardware_stack_error"),
        *("illegal_access", "illegal_state", "invalid_device", "invalid_handle", "launch_failed", "launch_timeout"),
        *("no_device", "no_kernel_image", "not_supported", "nvlink_error", "os_call_failed", "other_error"),
        *("out_of_memory", "peer_access_unsupported", "unknown_error"),
    )
)
"""Event kinds that are errors of the runtime or driver; not what NCCL says of its own calls' ends."""

_BUS_GONE, _MEMORY, _NVLINK, _HARDWARE = "gpu-fell-off-bus", "gpu-memory-fault", "nvlink-error", "gpu-hardware-error"

_PREVIOUS = expression(r"previous Xid (\d+)")
_TELLING = expression(r"Warp Exception|MMU Fault|faulted @|[Ff]atal|link \d|DBE|RPC|Out Of Range|Illegal")
_RECOVERY_CHANGED = 154
_ACCESS = "cuda-illegal-access"
# What a lost GPU or link brings about on others: GSP time-outs, switch errors, link errors.
_FOLLOWERS = {_BUS_GONE: (_NVLINK, _HARDWARE), _NVLINK: (_HARDWARE,), _MEMORY: (_HARDWARE,)}


@dataclass(slots=True)
class _Report:
    event: Event
    meaning: Meaning
    xid: int | None = None
    sxid: int | None = None
    count: int = 1
    further: list[Event] = field(default_factory=list)

    @property
    def cause(self) -> str:
        return self.meaning.cause

    @property
    def weak(self) -> bool:
        return self.meaning.weak


def find(job: Job) -> Iterator[Fact]:
    """Driver errors with their meaning, and GPUs that cannot be reached."""
    reports = _merged([*_xids(job), *_switch_errors(job)])
    recovery = _recovery(job)
    serious = [report for report in reports if not report.meaning.corrected]
    primary = {id(report) for report in _primary(serious)}
    places = _Places(job)
    for report in reports:
        yield _fact(job, report, places, primary=id(report) in primary, advice=recovery.get(_bus(report.event)))
    yield from _gone(job, places)
    yield from _cuda_errors(job)
    yield from _full_memories(job)


def _full_memories(job: Job) -> Iterator[Fact]:
    """Failed allocations; the rank is taken from the exception on the same line, else from the GPU's index."""
    failed = job.events.of("gpu_allocation_failed")
    if not failed:
        return
    raised = {
        (fact.evidence[0].at.file, fact.evidence[0].at.line): fact.ranks
        for fact in exceptions.find(job)
        if fact.evidence and fact.ranks
    }
    who = RankFinder(job)
    for event in failed:
        rank = who.rank_of(event)
        ranks = raised.get((event.line.file, event.line.number), ()) if rank is None else (rank,)
        gpu = event.fields.get("gpu")
        if not ranks and isinstance(gpu, int) and gpu > 0 and len(job.hosts) <= 1:
            # on one host the index of the device is the rank, unless each process sees one device only
            ranks = (gpu,)
        yield Fact(
            "gpu_memory_full",
            {name: event.fields.get(name) for name in ("wanted", "gpu", "total", "free")},
            ranks,
            (event.host,) if event.host else (),
            time=event.time,
            evidence=(evidence_of(event, "the allocator's word"),),
        )


def _cuda_errors(job: Job) -> Iterator[Fact]:
    """What programs print of CUDA errors, with the rank where it can be told."""
    who = RankFinder(job)
    for event in job.events.of(*ERROR_KINDS):
        rank = who.rank_of(event)
        yield Fact(
            "gpu_error",
            {"error": event.kind.removeprefix("cuda_"), "text": event.line.text.strip()[:200]},
            () if rank is None else (rank,),
            (event.host,) if event.host else (),
            time=event.time,
            evidence=(evidence_of(event, "the error"),),
        )


def _xids(job: Job) -> Iterator[_Report]:
    for event in job.events.of("xid"):
        number = event.fields.get("xid")
        message = str(event.fields.get("message", ""))
        if not isinstance(number, int):
            continue
        meaning = xid_meaning(number, message)
        previous = _PREVIOUS.search(message)
        if number in (43, 45) and previous and (earlier := xid_meaning(int(previous[1]))) and earlier.cause:
            # the first event may be missing from the log, the aftermath names it
            yield _Report(event, replace(earlier, weak=True), xid=int(previous[1]), count=event.count)
        elif meaning is not None and meaning.cause:
            yield _Report(event, meaning, xid=number, count=event.count)


def _switch_errors(job: Job) -> Iterator[_Report]:
    for event in job.events.of("sxid", "fabric_manager_switch_error"):
        number = event.fields.get("sxid")
        if isinstance(number, int) and (meaning := sxid_meaning(number, str(event.fields.get("severity", "")))):
            yield _Report(event, meaning, sxid=number, count=event.count)


def _merged(reports: list[_Report]) -> list[_Report]:
    """Reports in order of time; the same number on the same GPU counts once."""
    reports.sort(key=lambda r: (r.event.time or 0.0, r.event.line.file, r.event.line.number))
    seen: dict[tuple[object, ...], _Report] = {}
    for report in reports:
        key = (report.xid, report.sxid, _bus(report.event), report.event.line.file)
        if key in seen:
            seen[key].count += report.count
            seen[key].further.append(report.event)
        else:
            seen[key] = report
    return list(seen.values())


def _primary(reports: list[_Report]) -> Iterator[_Report]:
    """Those that no other explains: an earlier or strong one of a graver kind, or any strong one if it is weak."""
    strong = {report.cause for report in reports if not report.weak}
    explained = {follower for cause in strong for follower in _FOLLOWERS.get(cause, ())}
    for report in reports:
        if report.cause not in explained and not (report.weak and strong - {report.cause}):
            yield report
        explained.update(_FOLLOWERS.get(report.cause, ()))


def _recovery(job: Job) -> dict[str, str]:
    """What Xid 154 says has to be done with each GPU; the last word counts."""
    return {
        _bus(event): recovery_step(str(event.fields.get("message", "")))
        for event in job.events.of("xid")
        if event.fields.get("xid") == _RECOVERY_CHANGED
    }


class _Places:
    """What else is known of the GPUs that Xids name: whose they are, and what was said of them."""

    def __init__(self, job: Job) -> None:
        self._xids = job.events.of("xid")
        self._spreads: dict[int | None, str] = {}
        self._by_pid: dict[int, list[int]] = defaultdict(list)
        for rank, process in job.ranks.items():
            if process.pid is not None:
                self._by_pid[process.pid].append(rank)
        self._by_bus: dict[tuple[str, str], set[int]] = defaultdict(set)
        for init in job.events.of("comm_init_start", "comm_init_complete"):
            if init.rank is not None and init.host:
                self._by_bus[init.host, str(init.fields.get("bus_id") or "").lower().lstrip("0")].add(init.rank)
        self._following: dict[str, list[Event]] = defaultdict(list)
        for event in self._xids:
            if event.fields.get("xid") in (43, 45, 154):
                self._following[_bus(event)].append(event)

    def ranks(self, event: Event) -> tuple[int, ...]:
        """The rank on that GPU: by the process the driver names, else by host and bus id as NCCL printed them."""
        pid = event.fields.get("gpu_pid")
        if isinstance(pid, int) and (by_pid := self._by_pid.get(pid)):
            return tuple(sorted(by_pid))
        wanted = _short_bus(_bus(event))
        return tuple(sorted(self._by_bus.get((event.host or "", wanted), ()))) if wanted else ()

    def aftermath(self, event: Event) -> list[Event]:
        """The first Xids of the same GPU that only follow: channels stopped, recovery wanted."""
        return [other for other in self._following[_bus(event)][:3] if other is not event][:2]

    def spread(self, xid: int | None) -> str:
        """Whether a kernel's fault follows the program or the GPU; "" when the lines do not tell."""
        if xid not in self._spreads:
            self._spreads[xid] = self._spread(xid)
        return self._spreads[xid]

    def _spread(self, xid: int | None) -> str:
        same = [event for event in self._xids if event.fields.get("xid") == xid]
        gpus = {(event.host, _bus(event)) for event in same}
        programs = {event.fields.get("process") for event in same} - {None, "<unknown>"}
        if len(gpus) > 1:
            return f"It is seen on {len(gpus)} GPUs, which speaks for the program."
        return "It stays with one GPU while the programs differ, which speaks for the GPU." if len(programs) > 1 else ""


def _fact(job: Job, report: _Report, places: _Places, *, primary: bool, advice: str | None) -> Fact:
    event, meaning = report.event, report.meaning
    ranks = places.ranks(event)
    hosts = {event.host} if event.host else {h for rank in ranks if (h := job.ranks[rank].host)}
    fields: dict[str, Value] = {
        "cause": report.cause,
        "xid": report.xid,
        "sxid": report.sxid,
        "meaning": meaning.text,
        "origin": meaning.origin,
        "first_step": f"{advice} (Xid 154 says so)" if advice else meaning.first,
        "afterwards": meaning.then,
        "bus": _bus(event),
        "process": event.fields.get("process"),
        "weak": report.weak,
        "primary": primary,
        "advice": advice or None,
        "count": report.count,
        "spread": (places.spread(report.xid) or None) if report.cause == _ACCESS else None,
    }
    number = f"Xid {report.xid}" if report.xid is not None else f"SXid {report.sxid}"
    evidence = [evidence_of(event, f"{number}: {meaning.text}")]
    telling = sorted(report.further, key=lambda other: not _TELLING.search(str(other.fields.get("message", ""))))
    evidence += [evidence_of(other, "further detail") for other in telling[:5]]
    evidence += [evidence_of(other, "what followed") for other in places.aftermath(event)]
    kind = "gpu_fault_corrected" if meaning.corrected else "gpu_fault"
    return Fact(kind, fields, ranks, tuple(sorted(hosts)), time=event.time, evidence=tuple(evidence))


def _bus(event: Event) -> str:
    return str(event.fields.get("bus") or "").lower()


def _short_bus(bus: str) -> str:
    """NCCL's spelling of a bus id: 0000:dc:00.0 -> dc000, 0009:01:00 -> 901000."""
    whole = bus if "." in bus else f"{bus}.0"
    return whole.replace(":", "").replace(".", "").lstrip("0")


def _gone(job: Job, places: _Places) -> Iterator[Fact]:
    for kind, how in (
        ("gpu_fallen_off_bus", "the driver says that it is lost from the bus"),
        ("amdgpu_lost", "the driver says that it is lost from the bus"),
        ("smi_device_unreadable", "nvidia-smi cannot read it"),
        ("smi_gpu_lost", "nvidia-smi says that it is lost"),
    ):
        for event in job.events.of(kind):
            yield Fact(
                "gpu_gone",
                {"bus": _bus(event) or None, "how": how},
                places.ranks(event),
                (event.host,) if event.host else (),
                time=event.time,
                evidence=(evidence_of(event, how),),
            )
