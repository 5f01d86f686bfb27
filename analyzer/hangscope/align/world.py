"""How many ranks the job has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hangscope.align.claims import MAX_RANKS
from hangscope.align.recorder_ranks import world_of
from hangscope.model import Value
from hangscope.parse.source import ParsedSource

_WITH_A_SIZE = ("comm_init_start", "comm_init_complete", "ras_comm", "inspector_last")
_NOT_THE_WORLD = frozenset({*_WITH_A_SIZE, "failure_rank"})


def world_size(sources: Sequence[ParsedSource]) -> int | None:
    """The job's world size: what its environment says most often, else the size of its largest communicator."""
    stated: Counter[int] = Counter()
    largest = world_of(sources)
    for source in sources:
        for event in source.by_kind.of(*_WITH_A_SIZE):
            largest = max(largest, size_in(event.fields.get("nranks")))
        for event in source.events:
            # few events have it: the others cost a look
            fields = event.fields
            if "world_size" in fields and event.kind not in _NOT_THE_WORLD and (size := size_in(fields["world_size"])):
                stated[size] += 1
        largest = max(largest, size_in(max(source.calls.shapes.nranks, default=0)))
    if stated:
        common = max(stated.items(), key=lambda item: (item[1], item[0]))[0]
        return max(common, largest)
    return largest or None


def size_in(value: Value) -> int:
    """A number of ranks; 0 when it can be none."""
    return value if isinstance(value, int) and 0 < value <= MAX_RANKS else 0
