"""Communicators and memberships as rows of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hangscope.align.groups import Communicator, Group


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
