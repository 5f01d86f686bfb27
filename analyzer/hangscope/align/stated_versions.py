"""Collects the versions that the evidence states, and those inferred where it states none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hangscope.align.process import Process
from hangscope.align.releases import common_releases
from hangscope.align.versions import Inferred, Version, Versions
from hangscope.model import Event
from hangscope.parse.recorder.recording import Recording

CUDA_OF_TORCH = (("torch_version", "cuda"), ("torch_cuda_version", "cuda_version"))
"""(Event kind, field) that state for which CUDA a PyTorch is built."""

STATING = {
    "nccl": (
        ("nccl_version", "version"),
        ("rccl_version", "version"),
        ("ras_version", "version"),
        ("process_group_environment", "nccl_version"),
        ("torch_nccl_error", "nccl_version"),
    ),
    "cuda": (("nccl_version", "cuda"), ("ras_version", "cuda"), *CUDA_OF_TORCH),
    "torch": (("torch_version", "torch"),),
    "ofi": (("ofi_version", "version"),),
    "driver": (("nvidia_smi_header", "driver"), ("driver_module", "driver"), ("driver_version", "driver")),
}
"""Software -> (event kind, field) that state its version."""

_INSTALLED = {"nccl": (("nccl_package", "nccl"),)}
"""The same, of what is installed: it counts where nothing says what runs, which may be another library."""
STATING_KINDS = tuple(
    sorted({kind for table in (STATING, _INSTALLED) for places in table.values() for kind, _ in places})
)
"""The kinds of events that state a version of anything."""


def find_versions(events: Sequence[Event], recordings: Iterable[Recording] = ()) -> Versions:
    """The versions in the evidence, as printed.

    Args:
        events: recognized lines, at least all of `STATING_KINDS`.
        recordings: dumps of flight recorders; those of torch 2.8 and later name NCCL's version.
    """
    found = _stated(events, STATING)
    found["nccl"].update(recording.library for recording in recordings if recording.library)
    installed = _stated(events, {software: kinds for software, kinds in _INSTALLED.items() if not found[software]})
    stated: dict[str, Any] = {software: _one_or_more(values) for software, values in (found | installed).items()}
    return Versions(**stated)


def _stated(events: Iterable[Event], kinds: Mapping[str, Iterable[tuple[str, str]]]) -> dict[str, set[str]]:
    wanted: dict[str, list[tuple[str, str]]] = {}
    for software, places in kinds.items():
        for kind, name in places:
            wanted.setdefault(kind, []).append((software, name))
    found: dict[str, set[str]] = {software: set() for software in kinds}
    for event in events:
        for software, name in wanted.get(event.kind, ()):
            value = event.fields.get(name)
            if isinstance(value, str) and value:
                found[software].add(dotted(value))
    return found


def add_inferred(stated: Versions, releases: Mapping[str, Sequence[tuple[Process, Inferred]]]) -> Versions:
    """The versions, with what is inferred for those that nothing states.

    Args:
        stated: as `find_versions` gives them.
        releases: product -> what each process can be of, as `infer_releases` gives it.
    """
    unknown = (product for product in sorted(releases) if getattr(stated, product) is None)
    inferred = {product: common_releases(product, releases[product]) for product in unknown}
    return replace(stated, inferred={product: found for product, found in inferred.items() if found is not None})


def dotted(version: str) -> str:
    """A version with dots: torch's build tags write CUDA 12.4 as ``cu124``."""
    return f"{version[:-1]}.{version[-1]}" if version.isdigit() else version


def _one_or_more(values: set[str]) -> Version:
    ordered = tuple(sorted(values))
    return ordered[0] if len(ordered) == 1 else ordered or None
