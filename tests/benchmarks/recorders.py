"""Writes the flight-recorder dumps of an imagined job, one rank after the other: a thousand do not fit into memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from recorder_dumps import Dump, write

TENSOR = 8
_STEP = 10
"""Calls of a training step: six of the tensor-parallel group, three of the data-parallel one, one of all ranks."""


def write_recorders(folder: Path, ranks: int, entries: int) -> tuple[int, ...]:
    """Dumps of a job with tensor- and data-parallel groups in which one rank makes all calls but the last.

    Returns:
        That rank.
    """
    culprit = ranks // 3 + 1
    tensor = min(TENSOR, ranks)
    for rank in range(ranks):
        row, column = rank // tensor, rank % tensor
        groups = {
            "0": ("default_pg", range(ranks)),
            f"tp{row}": ("TENSOR_MODEL_PARALLEL_GROUP", range(row * tensor, (row + 1) * tensor)),
            f"dp{column}": ("DATA_PARALLEL_GROUP", range(column, ranks, tensor)),
        }
        dump = Dump(rank, groups)
        names = list(groups)
        for number in range(entries - 1):
            place = number % _STEP
            group = names[1] if place < 6 else names[2] if place < 9 else names[0]
            # all_reduce alone: the dumps have one size a call, which of an all_gather torchfrtrace takes for an error
            dump.call("all_reduce", 64 + place, group, line=10 + place)
        dump = dump if rank == culprit else dump.wait(size=4096)
        _share(dump.entries)
        write(folder, [dump])
    return (culprit,)


def _share(entries: list[dict[str, Any]]) -> None:
    """Makes equal frames and names one object each: torch pickles these once, and refers to them later on."""
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in entries:
        entry["frames"] = [known.setdefault(tuple(frame.values()), frame) for frame in entry["frames"]]
        entry["profiling_name"] = sys.intern(entry["profiling_name"])
