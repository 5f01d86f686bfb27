"""Facts about CUDA errors whose text says little by itself: where in NCCL they came up tells what failed.

"invalid argument" in transport/nvls.cc is a multicast set-up, in transport/p2p.cc the import of a peer's memory.
The place is the WARN's own file, or that of the call chain under it when the WARN stands in a header.
"""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.model import Event, Evidence, Fact

KINDS = {
    "nccl_cuda_failure": FactKind(
        ("place", "error_kind", "source_file"),
        "A CUDA error inside NCCL: place is nvls, p2p, shm, net, alloc, init or other.",
    ),
    "cuda_chain_without_warning": FactKind(
        ("place", "source_file"),
        "NCCL's call chain carries a CUDA error (code 1) out of this place, without a warning in front.",
    ),
}
_CUDA_KINDS = (
    "cuda_out_of_memory",
    "cuda_invalid_handle",
    "cuda_peer_access_unsupported",
    "cuda_not_supported",
    "cuda_other_error",
    "cuda_unknown_error",
    "cuda_launch_failed",
    "cuda_illegal_access",
    "cuda_invalid_device",
)
_PLACES = {
    "transport/nvls": "nvls",
    "transport/multicast": "nvls",
    "transport/p2p": "p2p",
    "transport/shm": "shm",
    "misc/shm": "shm",
    "include/shm": "shm",
    "transport/net": "net",
    "transport/coll_net": "net",
    "include/alloc": "alloc",
    "init.c": "init",
    "misc/cudawrap": "init",
    "mnnvl": "mnnvl",
}
_LOOK_BEHIND = 6
_CUDA_ERROR = 1
_HEADERS = ("include/", "misc/cudawrap")


def find(job: Job) -> Iterator[Fact]:
    """Facts about warnings first, then about chains that have none."""
    explained: set[int] = set()
    for process in job.processes if job.events.has(*_CUDA_KINDS, "error_arrow") else ():
        for place in process.by_kind.places(*_CUDA_KINDS):
            event = process.events[place]
            if event.line.header == "nccl":
                explained.add(id(process))
                chain = _chain(process.events[place + 1 : place + 1 + _LOOK_BEHIND * 4], event)
                yield _failure(event, chain)
        if id(process) in explained:
            continue
        chain = [e for e in process.by_kind.of("error_arrow") if e.fields.get("code") == _CUDA_ERROR]
        if chain and not any(_is_warning(e) for e in process.events):
            source = str(chain[0].fields.get("source_file", ""))
            evidence = tuple(evidence_of(e, "a CUDA error goes up here") for e in chain[:4])
            fields = {"place": _place(source), "source_file": source}
            yield Fact(
                "cuda_chain_without_warning",
                fields,
                ranks=_ranks(chain[0]),
                hosts=_hosts(chain[0]),
                time=chain[0].time,
                evidence=evidence,
            )


def _is_warning(event: Event) -> bool:
    return event.line.header == "nccl" and event.line.level in ("WARN", "ATTN")


def _chain(following: list[Event], warning: Event) -> list[Event]:
    """The arrows of the same thread that stand right under a warning."""
    near = [e for e in following if e.line.tid == warning.line.tid]
    arrows = []
    for event in near:
        if event.kind == "error_arrow":
            arrows.append(event)
        elif arrows or _is_warning(event):
            break
    return arrows[:_LOOK_BEHIND]


def _failure(event: Event, chain: list[Event]) -> Fact:
    files = [_relative(event.line.origin), *(_relative(str(e.fields.get("source_file", ""))) for e in chain)]
    own = files[0]
    # Wrappers and allocators serve everybody: who called them is what counts.
    place = next(
        (p for f in files if not f.startswith(_HEADERS) and (p := _place(f)) not in ("other", "init")), _place(own)
    )
    evidence: list[Evidence] = [evidence_of(event, "NCCL's CUDA call failed here")]
    evidence += [evidence_of(e, "the call chain above it") for e in chain[:2]]
    fields = {"place": place, "error_kind": event.kind, "source_file": own.rsplit(":", 1)[0]}
    return Fact(
        "nccl_cuda_failure", fields, ranks=_ranks(event), hosts=_hosts(event), time=event.time, evidence=tuple(evidence)
    )


def _place(source: str) -> str:
    return next((place for prefix, place in _PLACES.items() if _relative(source).startswith(prefix)), "other")


def _relative(source: str) -> str:
    """The file below NCCL's own src folder: builds of RCCL and of distributions print where they were built."""
    return source.rpartition("/src/")[2]


def _ranks(event: Event) -> tuple[int, ...]:
    return () if event.rank is None else (event.rank,)


def _hosts(event: Event) -> tuple[str, ...]:
    return () if event.host is None else (event.host,)
