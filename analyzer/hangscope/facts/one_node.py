"""Whether a job runs on one node as far as the evidence goes, so that an index on the node is the global rank."""

from __future__ import annotations

from hangscope.align.job import Job
from hangscope.model import Event

_NODES = {
    "rendezvous_joined": "nodes",
    "deepspeed_nodes": "nodes",
    "agent_barrier_timeout": "nodes",
    "members_missing": "nodes",
}
_SETTINGS = ("min_nodes", "max_nodes")
_MOST_GPUS = 16
"""No node has more; a larger world is of several."""


def is_one_node(job: Job) -> bool:
    """One host at most is named, no launcher speaks of several nodes, and the world fits on one."""
    if len(job.hosts) > 1 or (job.world_size or 0) > _MOST_GPUS:
        return False
    if any((event.number(field) or 0) > 1 for kind, field in _NODES.items() for event in job.events.of(kind)):
        return False
    if any(_names_nodes(event) for event in job.events.of("launch_setting", "rendezvous_value")):
        return False
    if any(len(writer) > 1 for writer in _agents(job).values()):
        return False
    workers = {event.fields.get("worker_pid") for event in job.events.of("closing_signal", "worker_failed")}
    return job.world_size is None or len(workers) < 2 or len(workers) + 1 >= job.world_size


def _names_nodes(event: Event) -> bool:
    name = event.fields.get("setting_name", event.fields.get("result_name"))
    value = str(event.fields.get("value"))
    if name in (*_SETTINGS, "group_world_size"):
        return value.isdecimal() and int(value) > 1
    return name == "group_rank" and value.isdecimal() and int(value) > 0


def _agents(job: Job) -> dict[object, set[int]]:
    """Process ids that one local rank had: two on one local rank are of two nodes (or attempts)."""
    found: dict[object, set[int]] = {}
    for event in job.events.of("worker_failed"):
        pid = event.number("worker_pid")
        if pid is not None:
            found.setdefault(event.fields.get("local_rank"), set()).add(pid)
    return found
