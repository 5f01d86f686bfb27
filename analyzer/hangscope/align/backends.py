"""Tells whether a job talks over gloo alone, so that nothing about NCCL concerns it."""

from __future__ import annotations

from collections.abc import Iterable

from hangscope.align.stacks import Stacks
from hangscope.model import Event, Line

_NCCL, _GLOO = "nccl", "gloo"

_NCCL_SOURCES = ("nccl", "ras", "torch_watchdog", "torch_desync", "cuda")
_GPU_KINDS = frozenset({"gpu_allocation_failed", "process_group_environment", "torch_nccl_error", "last_nccl_warning"})


def talks_over_gloo_alone(events: Iterable[Event], stacks: Stacks, recorded: str) -> bool:
    """Whether lines, frames or recordings show gloo, and none of them NCCL or a GPU.

    A job that computes on GPUs counts as one that uses NCCL, even when NCCL says nothing: torch takes NCCL for CUDA
    tensors, and gloo beside it for those of the host.

    Args:
        events: every recognized line.
        stacks: the dumps, whose native frames and threads name the libraries.
        recorded: the backend that flight recorders name, as ``cuda:nccl`` or ``gloo``; "" for none.
    """
    if _NCCL in recorded:
        return False
    has_gloo = _GLOO in recorded
    for event in events:
        library = _library_of(event)
        if library == _NCCL:
            return False
        has_gloo = has_gloo or library == _GLOO
    for position in stacks.positions:
        for thread in position.dump.threads:
            # threads as ProcessGroupNCCL and ProcessGroupGloo name them: pt_nccl_watchdg, pt_gloo_runloop
            words = f"{thread.name} {' '.join(frame.function for frame in thread.frames if frame.native)}".casefold()
            if _NCCL in words:
                return False
            has_gloo = has_gloo or _GLOO in words
    return has_gloo


def _library_of(event: Event) -> str:
    if asked := str(event.fields.get("asked_backend") or ""):
        return _GLOO if asked in (_GLOO, f"cpu:{_GLOO}") else _NCCL if _NCCL in asked else ""
    if event.source.startswith(_NCCL_SOURCES) or event.kind in _GPU_KINDS or _is_nccl(event.line):
        return _NCCL
    return _GLOO if event.source == _GLOO or event.line.origin.startswith("ProcessGroupGloo") else ""


def _is_nccl(line: Line) -> bool:
    return line.header == _NCCL or line.origin.startswith("ProcessGroupNCCL")
