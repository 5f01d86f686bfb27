"""Finds out whether the inputs are of several jobs, or of several runs of one, that lie in one folder.

Whatever one process or one file has a part in is of one run, and so are all members of a communicator with one
commId (NCCL 2.16 and later). Where worlds remain that share nothing and number the same ranks, they are no one job:
in one job the communicators of all processes hang together through the world's, or through each other.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from hangscope.align.groups import Group
from hangscope.align.process import Process
from hangscope.align.unite import Union
from hangscope.parse.columns import WriterKey
from hangscope.records import dataclass

_MOST_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Run:
    """What hangs together.

    Attributes:
        files: names of its inputs, sorted.
        ranks: ranks of its largest world, sorted.
        size: number of that world's ranks.
    """

    files: tuple[str, ...]
    ranks: tuple[int, ...]
    size: int


def find_runs(
    groups: Sequence[Group], by_writer: Mapping[WriterKey, Process], world_size: int | None
) -> tuple[Run, ...]:
    """The runs that the inputs are of, by their first file; empty when they can be of one."""
    stated: dict[int, set[int]] = defaultdict(set)
    for key, process in by_writer.items():
        if key.rank is not None:
            stated[id(process)].add(key.rank)
    worlds = [group for group in groups if _is_world(group, stated, world_size)]
    if len(worlds) < 2:
        return ()
    together: Union[str] = Union()
    for number, group in enumerate(groups):
        for member in group.members:
            for file in member.process.files:
                together.unite(f"group {number}", f"file {file}")
    found: dict[str, list[Group]] = defaultdict(list)
    for group in worlds:
        found[together.find(f"file {group.members[0].process.files[0]}")].append(group)
    runs = sorted((_run(ones) for ones in found.values()), key=lambda run: run.files)
    seen: set[int] = set()
    twice: set[int] = set()
    for run in runs:
        twice |= seen.intersection(run.ranks)
        seen.update(run.ranks)
    return tuple(runs) if twice else ()


def describe_runs(runs: Sequence[Run]) -> Iterator[str]:
    """The warning that says so, when there are several."""
    if len(runs) > 1:
        shown = "; ".join(f"{_where(run, runs)} ({run.size} ranks)" for run in runs[:_MOST_SHOWN])
        more = f"; and {len(runs) - _MOST_SHOWN} more" if len(runs) > _MOST_SHOWN else ""
        yield (
            f"the files seem to be of {len(runs)} jobs, or of {len(runs)} runs of one: {shown}{more}. "
            "The answer mixes them: analyze each alone"
        )


def _is_world(group: Group, stated: Mapping[int, set[int]], world_size: int | None) -> bool:
    """Whether its ranks are the numbers that its processes have elsewhere, or it is as large as the world."""
    if (
        group.key[0] != "id"
        or group.size < 2
        or any(m.parent is not None or not m.process.files for m in group.members)
    ):
        return False
    votes = [m.group_rank in stated[id(m.process)] for m in group.members if id(m.process) in stated]
    return all(votes) and (bool(votes) or group.size == world_size)


def _run(worlds: Sequence[Group]) -> Run:
    files = sorted({file for group in worlds for m in group.members for file in m.process.files})
    largest = max(worlds, key=lambda group: group.size)
    ranks = sorted({m.group_rank for m in largest.members if m.group_rank is not None})
    return Run(tuple(files), tuple(ranks), largest.size)


def _where(run: Run, runs: Sequence[Run]) -> str:
    """The folder that holds its files and none of another run, else the files."""
    # names of inputs are no paths of this machine; of sorted names, first and last share what all share
    parts = (file.split("/")[:-1] for file in (run.files[0], run.files[-1]))
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*parts, strict=False))
    folder = "/".join(one for one, _ in same)
    others = (file for other in runs if other is not run for file in other.files)
    if folder and not any(file.startswith(f"{folder}/") for file in others):
        return f"{folder}/"
    more = f" and {len(run.files) - 2} more" if len(run.files) > 2 else ""
    return ", ".join(run.files[:2]) + more
