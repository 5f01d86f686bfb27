"""Writes RAS reports in JSON, as NCCL 2.28.7 and later do."""

from __future__ import annotations

import json
from collections.abc import Sequence

Json = dict[str, object]


def rank(number: int, *, error: int = 0, **counts: int) -> Json:
    """A rank that answers: two a host, pid 100 + rank."""
    status = {
        "init_state": 0,
        "async_error": error,
        "finalize_called": False,
        "destroy_flag": False,
        "abort_flag": False,
    }
    return {**_process(number), "status": status, "collective_counts": counts}


def missing(number: int, *, unresponsive: bool = True, dead: bool = False) -> Json:
    """A rank of which there is no data."""
    return {**_process(number), "status": {"unresponsive": unresponsive, "considered_dead": dead}}


def _process(number: int) -> Json:
    place = {"host": f"10.0.0.{number // 2 + 1}", "pid": 100 + number}
    return {"rank": number, **place, "cuda_dev": number % 2, "nvml_dev": number % 2}


def comm(ranks: Sequence[Json], lost: Sequence[Json] = (), name: str = "0xbbd7cdaf5c9b0794") -> Json:
    """A communicator."""
    return {
        "hash": name,
        "secondary_hash": "0x1:0x2",
        "size": len(ranks) + len(lost),
        "ranks_count": len(ranks),
        "missing_ranks_count": len(lost),
        "ranks": list(ranks),
        "missing_ranks": list(lost),
    }


def report(*comms: Json, at: str = "12:00:00", comma: bool = True) -> str:
    """A report; without the comma that 2.28.7 to 2.28.9 forget."""
    value = {
        "nccl_version": "2.29.2",
        "cuda_runtime_version": 12090,
        "cuda_driver_version": 12090,
        "timestamp": f"2026-01-31 {at}",
        "communicators_count": len(comms),
        "communicators": list(comms),
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
    }
    text = json.dumps(value, indent=2)
    if not comma:
        lines = text.splitlines()
        for at_line, line in enumerate(lines[1:], 1):
            if '"status"' in line and '"nvml_dev"' in lines[at_line - 1] and "unresponsive" in lines[at_line + 1]:
                lines[at_line - 1] = lines[at_line - 1].rstrip(",")
        text = "\n".join(lines)
    return text + "\n"
