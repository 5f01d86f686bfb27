"""How many ranks the job has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hangscope.align.claims import MAX_RANKS
from hangscope.align.recorder_ranks import world_of
from hangscope.model import Value
from hangscope.parse.source import ParsedSource


def world_size(sources: Sequence[ParsedSource]) -> int | None:
    """The job's world size: what its environment says most often, else the size of its largest communicator."""
    stated: Counter[int] = Counter()
    largest = world_of(sources)
    for source in sources:
        for event in source.events:
            if event.kind in ("comm_init_start", "comm_init_complete", "ras_comm", "inspector_last"):
                largest = max(largest, size_in(event.fields.get("nranks")))
            elif (size := size_in(event.fields.get("world_size"))) and event.kind != "failure_rank":
                stated[size] += 1
        largest = max(largest, size_in(max((shape.nranks for shape in source.calls.shapes), default=0)))
    if stated:
        common = max(stated.items(), key=lambda item: (item[1], item[0]))[0]
        return max(common, largest)
    return largest or None


def size_in(value: Value) -> int:
    """A number of ranks; 0 when it can be none."""
    return value if isinstance(value, int) and 0 < value <= MAX_RANKS else 0
