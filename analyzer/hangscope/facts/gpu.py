"""Reads Xid and SXid lines: what each number means, and which of several is the one that came first.

The meanings restate NVIDIA's Xid catalog (state of October 2025) and the Fabric Manager guide. The first serious
event counts: 43, 45, 137 and 154 follow from something earlier, and so do GSP time-outs and switch errors after a
GPU or a link is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hangscope.align.job import Job
from hangscope.facts import FactKind, exceptions
from hangscope.facts.collect import evidence_of
from hangscope.facts.who import RankFinder
from hangscope.model import Event, Fact, Value

KINDS = {
    "gpu_fault": FactKind(
        ("cause", "xid", "sxid", "meaning", "bus", "process", "weak", "primary", "advice", "count"),
        "The driver reports a GPU or NVSwitch error; `cause` is the id of the cause that it points at, `weak` = often "
        "harmless or software, `primary` = no earlier fault explains it.",
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

_BUS_GONE, _MEMORY, _NVLINK = "gpu-fell-off-bus", "gpu-memory-fault", "nvlink-error"
_HARDWARE, _ACCESS = "gpu-hardware-error", "cuda-illegal-access"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an Xid number stands for; cause "" = a consequence or only information."""

    cause: str
    text: str
    weak: bool = False


def _many(cause: str, text: str, *numbers: int, weak: bool = False) -> dict[int, Meaning]:
    return dict.fromkeys(numbers, Meaning(cause, text, weak))


XIDS: dict[int, Meaning] = {
    8: Meaning(_HARDWARE, "the GPU stopped processing"),
    **_many(_ACCESS, "an invalid or damaged command stream", 11, 25, 32, 80, weak=True),
    13: Meaning(_ACCESS, "an exception in a running kernel"),
    31: Meaning(_ACCESS, "a memory page fault in a kernel"),
    **_many("", "a complaint of the driver's firmware", 37, 38, 44, 66, 67, 69, 93, 141),
    **_many(
        _HARDWARE, "an error in a copy engine", 39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136), weak=True
    ),
    **_many("", "channels stopped after an earlier fault", 43, 45, 137, 154),
    46: Meaning(_HARDWARE, "the GPU stopped processing"),
    48: Meaning(_MEMORY, "an uncorrectable (double-bit) memory error"),
    54: Meaning(_HARDWARE, "auxiliary power is not connected"),
    **_many(_HARDWARE, "a display or board error", 56, 57, 68),
    58: Meaning(_MEMORY, "an unstable memory interface"),
    **_many(_HARDWARE, "the GPU's internal micro-controller stopped", 61, 62),
    63: Meaning(_MEMORY, "a bad memory row was recorded for remapping", weak=True),
    64: Meaning(_MEMORY, "a memory row could not be remapped"),
    74: Meaning(_NVLINK, "an NVLink error"),
    79: Meaning(_BUS_GONE, "the GPU has fallen off the bus"),
    92: Meaning(_MEMORY, "many single-bit memory errors", weak=True),
    94: Meaning(_MEMORY, "a contained uncorrectable memory error"),
    95: Meaning(_MEMORY, "an uncontained uncorrectable memory error"),
    109: Meaning(_HARDWARE, "a context switch took too long"),
    110: Meaning(_HARDWARE, "a security fault"),
    119: Meaning(_HARDWARE, "the GPU's system processor (GSP) does not answer"),
    120: Meaning(_HARDWARE, "an error inside the GSP firmware"),
    **_many(_HARDWARE, "an error on the chip-to-chip link or an internal interface", 121, 122, 123, 159, weak=True),
    136: Meaning(_NVLINK, "NVLink training failed"),
    140: Meaning(_MEMORY, "an unrecovered ECC error"),
    143: Meaning(_HARDWARE, "the GPU failed to initialise"),
    **_many(_NVLINK, "an NVLink error", *range(144, 151), 155),
    151: Meaning(_HARDWARE, "key rotation failed"),
    **_many(_HARDWARE, "a faulty unit was retired", 156, 157),
    158: Meaning(_HARDWARE, "a fatal time-out in the GPU"),
    **_many(_MEMORY, "a memory channel was retired", 160, 161, weak=True),
    **_many(_NVLINK, "unexpected NVLink traffic", 166, 170, weak=True),
    167: Meaning(_BUS_GONE, "a fatal PCIe time-out"),
    168: Meaning(_MEMORY, "errors in a protected part of memory"),
    **_many(_HARDWARE, "the GPU's security micro-controller stopped", 169, 173),
    **_many(_MEMORY, "details of an uncorrectable memory error", 171, 172),
}
# Corrected single-bit errors, and controller requests that the guide calls harmless.
_HARMLESS_SXIDS = frozenset(
    {11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071}
    | {20001, 20009, 22013, 24001, 24002, 24003, 10004, 10005}
)
_FATAL_SXIDS = frozenset({12020, 22003, 22011, 10003, 20034, 19084, *range(23001, 23018)})
_PREVIOUS = re.compile(r"previous Xid (\d+)")
_RECOVERY = re.compile(r"changed from .* to (0x\w+) \(([^)]*)\)")
_TELLING = re.compile(r"Warp Exception|MMU Fault|faulted @|[Ff]atal|link \d|DBE|RPC|Out Of Range|Illegal")
_NONFATAL = re.compile(r"\b[Nn]on-?fatal\b")
# What a lost GPU or link brings about on others: GSP time-outs, switch errors, link errors.
_FOLLOWERS = {_BUS_GONE: (_NVLINK, _HARDWARE), _NVLINK: (_HARDWARE,), _MEMORY: (_HARDWARE,)}


@dataclass(slots=True)
class _Report:
    event: Event
    cause: str
    text: str
    weak: bool
    xid: int | None = None
    sxid: int | None = None
    count: int = 1
    further: list[Event] = field(default_factory=list)


def find(job: Job) -> Iterator[Fact]:
    """Driver errors with their meaning, and GPUs that cannot be reached."""
    reports = _merged([*_xids(job), *_switch_errors(job)])
    recovery = _recovery(job)
    for position, report in enumerate(reports):
        yield _fact(job, report, primary=_is_primary(position, reports), advice=recovery.get(_bus(report.event)))
    yield from _gone(job)
    yield from _cuda_errors(job)
    yield from _full_memories(job)


def _full_memories(job: Job) -> Iterator[Fact]:
    """Failed allocations; the rank is taken from the exception on the same line, else from the GPU's index."""
    raised = {
        (fact.evidence[0].at.file, fact.evidence[0].at.line): fact.ranks
        for fact in exceptions.find(job)
        if fact.evidence and fact.ranks
    }
    who = RankFinder(job)
    for event in job.events.of("gpu_allocation_failed"):
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
    for event in job.events.of(*(kind for kind in job.events.kinds() if kind.startswith("cuda_"))):
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
        meaning = XIDS.get(number)
        previous = _PREVIOUS.search(message)
        if number in (43, 45) and previous and (earlier := XIDS.get(int(previous[1]))) and earlier.cause:
            # the first event may be missing from the log, the aftermath names it
            yield _Report(event, earlier.cause, earlier.text, weak=True, xid=int(previous[1]), count=event.count)
        elif meaning is not None and meaning.cause:
            weak = meaning.weak or (meaning.cause == _NVLINK and bool(_NONFATAL.search(message)))
            yield _Report(event, meaning.cause, meaning.text, weak, xid=number, count=event.count)


def _switch_errors(job: Job) -> Iterator[_Report]:
    for event in job.events.of("sxid", "fabric_manager_switch_error"):
        number = event.fields.get("sxid")
        if not isinstance(number, int) or number in _HARMLESS_SXIDS:
            continue
        severity = str(event.fields.get("severity", "")).lower()
        if severity or number in _FATAL_SXIDS:
            weak = severity != "fatal" and number not in _FATAL_SXIDS
            yield _Report(event, _NVLINK, "an NVSwitch error", weak, sxid=number, count=event.count)


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


def _is_primary(position: int, reports: list[_Report]) -> bool:
    """Whether no other report explains this one: an earlier one of a graver kind, or any strong one if it is weak."""
    report = reports[position]
    for other_position, other in enumerate(reports):
        if other is report:
            continue
        if report.cause in _FOLLOWERS.get(other.cause, ()) and (other_position < position or not other.weak):
            return False
        if report.weak and not other.weak and other.cause != report.cause:
            return False
    return True


def _recovery(job: Job) -> dict[str, str]:
    """What Xid 154 says is needed to recover each GPU; the last word counts."""
    found: dict[str, str] = {}
    for event in job.events.of("xid"):
        if event.fields.get("xid") == 154:
            match = _RECOVERY.search(str(event.fields.get("message", "")))
            if match:
                found[_bus(event)] = match[2]
    return found


def _fact(job: Job, report: _Report, *, primary: bool, advice: str | None) -> Fact:
    event = report.event
    ranks = _ranks(job, event)
    hosts = {event.host} if event.host else {h for rank in ranks if (h := job.ranks[rank].host)}
    fields: dict[str, Value] = {
        "cause": report.cause,
        "xid": report.xid,
        "sxid": report.sxid,
        "meaning": report.text,
        "bus": _bus(event),
        "process": event.fields.get("process"),
        "weak": report.weak,
        "primary": primary,
        "advice": advice,
        "count": report.count,
    }
    number = f"Xid {report.xid}" if report.xid is not None else f"SXid {report.sxid}"
    evidence = [evidence_of(event, f"{number}: {report.text}")]
    telling = sorted(report.further, key=lambda other: not _TELLING.search(str(other.fields.get("message", ""))))
    evidence += [evidence_of(other, "further detail") for other in telling[:5]]
    evidence += [evidence_of(other, "what followed") for other in _aftermath(job, event)[:2]]
    return Fact("gpu_fault", fields, ranks, tuple(sorted(hosts)), time=event.time, evidence=tuple(evidence))


def _aftermath(job: Job, event: Event) -> list[Event]:
    """Xids of the same GPU that only follow: channels stopped, recovery wanted."""
    return [
        other
        for other in job.events.of("xid")
        if other.fields.get("xid") in (43, 45, 154) and _bus(other) == _bus(event) and other is not event
    ]


def _ranks(job: Job, event: Event) -> tuple[int, ...]:
    """The rank on that GPU: by the process the driver names, else by host and bus id as NCCL printed them."""
    pid = event.fields.get("gpu_pid")
    by_pid = [rank for rank, process in job.ranks.items() if pid is not None and process.pid == pid]
    if by_pid:
        return tuple(sorted(by_pid))
    wanted = _short_bus(_bus(event))
    by_bus = {
        init.rank
        for init in job.events.of("comm_init_start", "comm_init_complete")
        if init.rank is not None
        and event.host
        and init.host == event.host
        and str(init.fields.get("bus_id") or "").lower().lstrip("0") == wanted
    }
    return tuple(sorted(by_bus)) if wanted else ()


def _bus(event: Event) -> str:
    return str(event.fields.get("bus") or "").lower()


def _short_bus(bus: str) -> str:
    """NCCL's spelling of a bus id: 0000:dc:00.0 -> dc000, 0009:01:00 -> 901000."""
    whole = bus if "." in bus else f"{bus}.0"
    return whole.replace(":", "").replace(".", "").lstrip("0")


def _gone(job: Job) -> Iterator[Fact]:
    for kind, how in (
        ("gpu_fallen_off_bus", "the driver says that it has fallen off the bus"),
        ("smi_device_unreadable", "nvidia-smi cannot read it"),
        ("smi_gpu_lost", "nvidia-smi says that it is lost"),
    ):
        for event in job.events.of(kind):
            yield Fact(
                "gpu_gone",
                {"bus": _bus(event) or None, "how": how},
                _ranks(job, event),
                (event.host,) if event.host else (),
                time=event.time,
                evidence=(evidence_of(event, how),),
            )
