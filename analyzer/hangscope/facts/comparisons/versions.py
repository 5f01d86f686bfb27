"""Compares versions: PyTorch, NCCL, CUDA, driver, Python, and the image that processes run in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hangscope.align.job import Job
from hangscope.align.releases import common_releases, group_by_release
from hangscope.align.stated_versions import CUDA_OF_TORCH, STATING, dotted
from hangscope.expressions import expression
from hangscope.facts.comparisons.said import Holders, Said, compared
from hangscope.facts.nccl_releases import release_groups
from hangscope.model import Comparison, Evidence
from hangscope.parse.columns import writer_key

TOPIC = "versions"
ORDER = 1

TORCH, NCCL, CUDA, NCCL_CUDA, PYTHON = "PyTorch", "NCCL", "CUDA of PyTorch", "CUDA of NCCL", "Python"
CUDA_DRIVER, DRIVER, IMAGE = "CUDA of the driver", "NVIDIA driver", "container image"

_STATED: dict[str, tuple[tuple[str, str], ...]] = {
    TORCH: STATING["torch"],
    CUDA: CUDA_OF_TORCH,
    NCCL_CUDA: (("nccl_version", "cuda"),),
    CUDA_DRIVER: (("cuda_driver_version", "driver_version"), ("nvidia_smi_header", "cuda_version")),
    DRIVER: STATING["driver"],
    IMAGE: (("container_image", "image"),),
}
"""Aspect -> (event kind, field) that state it; the first kind that a process says decides."""
_PYTHON_PATH = expression(r"/python(3\.\d{1,2})/")


def compare(job: Job) -> Iterator[Comparison]:
    """A comparison for each product of which two processes state the version."""
    for aspect in (TORCH, NCCL, CUDA, NCCL_CUDA, CUDA_DRIVER, DRIVER, PYTHON, IMAGE):
        found = compare_product(job, aspect)
        if found is not None:
            yield found


def compare_product(job: Job, aspect: str, *, infer: bool = True) -> Comparison | None:
    """The comparison of one product; versions of PyTorch, NCCL and CUDA have to be equal on all ranks.

    Args:
        job: the job.
        aspect: the product.
        infer: where no line states a version of PyTorch, take what the lines and stacks of each process can be of.
    """
    holders = Holders(job)
    if aspect == NCCL:
        said: Iterable[Said] = _nccl(holders)
    elif aspect == PYTHON:
        said = _python(holders)
    else:
        said = _stated(holders, aspect)
        if not said and aspect == TORCH and infer:
            said = _inferred(holders)
    return compared(TOPIC, aspect, said, must_agree=aspect in (TORCH, NCCL, CUDA, NCCL_CUDA))


def _stated(holders: Holders, aspect: str) -> list[Said]:
    found: list[Said] = []
    for kind, field in _STATED[aspect]:
        known = {(one.ranks, one.hosts, one.name) for one in found}
        said = holders.fields(holders.job.events.of(kind), field)
        new = [one for one in said if (one.ranks, one.hosts, one.name) not in known]
        found += [replace(one, text=_release(one.text, aspect)) for one in new]
    return found


def _inferred(holders: Holders) -> list[Said]:
    """Where no line states a version: what each process can be of, put together while releases have one in common."""
    said = []
    for group in group_by_release(holders.job.releases["torch"]):
        common = common_releases("torch", group)
        for process, own in group:
            text = f"{common or own} (inferred)"
            said.append(holders.of_process(process, text, own.evidence[0] if own.evidence else None))
    return said


def _release(text: str, aspect: str) -> str:
    """A version as people write it: of ``12080``, the driver interface's number, ``12.8``."""
    if aspect == CUDA_DRIVER and text.isdecimal():
        return f"{int(text) // 1000}.{int(text) % 1000 // 10}"
    return dotted(text) if aspect == CUDA else text


def _nccl(holders: Holders) -> Iterator[Said]:
    """Releases as told or inferred; processes that can be of one release count as of one."""
    for group in release_groups(holders.job.processes):
        for number, own in zip(group.members, group.shown_by, strict=True):
            yield holders.of_process(holders.job.processes[number], group.releases.text(), own.shown_by)


def _python(holders: Holders) -> Iterator[Said]:
    """The minor release, as py-spy says it of each process, or as the paths in its tracebacks show it."""
    seen: set[int] = set()
    for source in holders.job.parsed:
        for dump in source.dumps:
            process = holders.job.by_writer.get(writer_key(dump.line))
            if process is None or not dump.python or id(process) in seen:
                continue
            seen.add(id(process))
            shown = Evidence(dump.line.location, dump.line.raw, f"Python {dump.python}")
            yield holders.of_process(process, ".".join(dump.python.split(".")[:2]), shown)
    for event in holders.job.events.of("exception"):
        process = holders.job.process_of(event)
        releases = set(_PYTHON_PATH.findall(str(event.fields.get("frames") or "")))
        if len(releases) == 1 and id(process) not in seen:
            seen.add(id(process))
            yield holders.of_process(process, releases.pop(), event)
