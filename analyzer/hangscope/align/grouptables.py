"""Processes, communicators and memberships as rows of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hangscope.align.groups import Communicator, Group
from hangscope.align.process import Process


def process_rows(processes: Iterable[Process]) -> Iterator[dict[str, object]]:
    """One row a process (table `processes`)."""
    for number, process in enumerate(processes):
        yield {
            "process": number,
            "rank": process.rank,
            "rank_source": process.rank_source,
            "local_rank": process.local_rank,
            "host": process.host,
            "pid": process.pid,
            "gpu": process.gpu,
            "first_time": float("nan") if process.first_time is None else process.first_time,
            "last_time": float("nan") if process.last_time is None else process.last_time,
            "lines": process.line_count,
        }


def communicator_rows(groups: Iterable[Group]) -> Iterator[dict[str, object]]:
    """One row a group (table `communicators`)."""
    for group in groups:
        ids = {m.comm_id for m in group.members if m.comm_id is not None}
        yield {
            "group": group.name,
            "size": group.size,
            "comm_id": f"0x{min(ids):x}" if ids else None,
            "members": len(group.members),
            "complete": sum(m.complete is not None for m in group.members),
            "ended": sum(m.ended is not None for m in group.members),
        }


def membership_rows(groups: Iterable[Group]) -> Iterator[dict[str, object]]:
    """One row a communicator object (table `memberships`)."""
    for group in groups:
        for member in group.members:
            yield {
                "group": group.name,
                "group_rank": member.group_rank,
                "rank": member.process.rank,
                "host": member.process.host,
                "pid": member.process.pid,
                "comm": f"0x{member.comm:x}",
                "state": _state(member),
            }


def _state(member: Communicator) -> str:
    if member.ended is not None:
        return "aborted" if member.end_action == "Abort" else "ended"
    return "ready" if member.complete is not None or member.start is None else "started"
