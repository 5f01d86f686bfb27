"""Says in plain words why the kernel does not let us look at a process, and what to do about it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hangscope.expressions import expression
from hangscope.live import procfs

_SYS_PTRACE = 1 << 19
"""CAP_SYS_PTRACE, capabilities(7)."""

_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Docker and Podman leave these in their containers."""

_REFUSED = expression(
    r"Permission [Dd]enied|Operation not permitted|os error 1\b|os error 13\b|EPERM|Try running again with elevated"
)


def is_refusal(error: str) -> bool:
    """Whether py-spy was refused, rather than failed."""
    return _REFUSED.search(error) is not None


def explain_refusal(pid: int) -> str:
    """Why this process may not be looked at, and what to do."""
    owner, own = procfs.user_of(pid), os.geteuid()
    if own not in (0, owner) and owner is not None:
        return f"it belongs to user {owner}, and hangscope runs as user {own}: run hangscope as that user, or with sudo"
    if in_container():
        return (
            "this container may not trace: start it with docker run --cap-add=SYS_PTRACE, or in Kubernetes with "
            "securityContext: {capabilities: {add: [SYS_PTRACE]}}; or run hangscope on the host as root"
        )
    scope = ptrace_scope()
    if scope == 3:
        return "kernel.yama.ptrace_scope is 3, which forbids tracing until the machine is started again"
    if own != 0:
        if scope in (1, 2):
            return (
                f"kernel.yama.ptrace_scope is {scope}, so only "
                f"{'a parent may look at its children' if scope == 1 else 'root may trace'}: run hangscope with sudo"
                + (", or let users trace for now with sudo sysctl kernel.yama.ptrace_scope=0" if scope == 1 else "")
            )
        return "the kernel refuses to trace it (it changed its user, or may not be dumped): run hangscope with sudo"
    if not _may_trace():
        return "root lacks the capability SYS_PTRACE here: run hangscope where it has it (docker: --cap-add=SYS_PTRACE)"
    return "the kernel refuses to trace it; a security module or another debugger may hold it"


def ptrace_scope() -> int | None:
    """Yama's setting; None where the kernel has no Yama."""
    text = (procfs.read_text(procfs.PROC / "sys/kernel/yama/ptrace_scope") or "").strip()
    return int(text) if text.isdecimal() else None


def in_container() -> bool:
    """Whether this looks like a container that may not trace."""
    marks = any(mark.exists() for mark in _MARKS) or "KUBERNETES_SERVICE_HOST" in os.environ
    return marks and not _may_trace()


def _may_trace() -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", procfs.read_text(procfs.PROC / "self/status") or "", re.MULTILINE)
    return found is not None and bool(int(found[1], 16) & _SYS_PTRACE)
