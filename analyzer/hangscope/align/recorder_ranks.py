"""Gives every flight-recorder dump its global rank: by its file's name, by its groups, by numbers of its siblings."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hangscope.align.claims import MAX_RANKS
from hangscope.expressions import expression
from hangscope.parse.recorder.recording import Recording
from hangscope.parse.source import ParsedSource, recording_writer

_NUMBERED = expression(r"^(?P<before>.*?)(?P<number>\d{1,7})(?P<after>(?:\.[A-Za-z]\w*)*)$")

_Age = tuple[int, bool, str]
"""When the youngest call of a folder's dumps was made, whether they have stacks, and the folder's name."""


@functools.lru_cache(maxsize=1 << 14)
def parse_ranks(text: str) -> tuple[int, ...]:
    """The ranks of a group as `pg_config` prints them: ``[0, 1]``."""
    return tuple(sorted({rank for found in re.findall(r"\d{1,7}", text) if (rank := int(found)) < MAX_RANKS}))


def name_recordings(sources: Sequence[ParsedSource]) -> None:
    """Writes the ranks into the dumps, and into the writers of their files, where the names said nothing."""
    unnamed = [r for source in sources for r in source.recordings if r.rank is None]
    if not unnamed:
        return
    by_number = _by_number(sources)
    for recording in unnamed:
        rank = _by_groups(recording)
        recording.rank = rank if rank is not None else by_number.get(id(recording))
    for source in sources:
        if source.recordings and not source.dumps and not source.events:
            source.writers = [recording_writer(recording) for recording in source.recordings]


def world_of(sources: Iterable[ParsedSource]) -> int:
    """How many ranks the groups of all dumps speak of; 0 when they name none."""
    seen: set[str] = {group.ranks for s in sources for r in s.recordings for group in r.groups if group.ranks}
    return max((parse_ranks(text)[-1] + 1 for text in seen if parse_ranks(text)), default=0)


def _by_groups(recording: Recording) -> int | None:
    """The one rank that is in all of its groups, or the one that its sends and receives name."""
    groups = [set(parse_ranks(group.ranks)) for group in recording.groups if group.ranks and parse_ranks(group.ranks)]
    if groups:
        common = set.intersection(*groups)
        if len(common) == 1:
            return next(iter(common))
    for shape in recording.shapes:
        members = parse_ranks(recording.groups[shape.group].ranks)
        if shape.way and 0 <= shape.me < len(members):
            return members[shape.me]
    return None


def _by_number(sources: Sequence[ParsedSource]) -> dict[int, int]:
    """Ranks by the last number in the names, where a set of files differs in it only: fr_0, fr_1, fr_2."""
    sets: dict[tuple[str, str], list[tuple[int, Recording]]] = defaultdict(list)
    for source in sources:
        if len(source.recordings) != 1:
            continue
        base = source.record.file.rpartition("/")[2]
        found = _NUMBERED.match(base)
        if found:
            sets[found["before"], found["after"]].append((int(found["number"]), source.recordings[0]))
    ranks: dict[int, int] = {}
    world = world_of(sources)
    for files in sets.values():
        numbers = [number for number, _ in files]
        whole = sorted(numbers) == list(range(len(numbers)))
        # some ranks left no dump: the numbers still have to be ranks of the world
        if len(set(numbers)) == len(numbers) and len(numbers) > 1 and (whole or max(numbers) < world):
            ranks.update({id(recording): number for number, recording in files})
    return ranks


def one_for_each_rank(sources: Sequence[ParsedSource]) -> dict[int, Recording]:
    """Rank -> its dump; of several the one of the youngest folder, then the youngest, then the one with stacks.

    A folder for each run is the habit: what one run left behind is not mixed with what another did.
    """
    folders: dict[str, _Age] = {}
    for source in sources:
        for recording in source.recordings:
            folder = _folder(recording)
            folders[folder] = max(folders.get(folder, (0, False, "")), _age(recording))
    found: dict[int, Recording] = {}
    for source in sources:
        for recording in source.recordings:
            if recording.rank is None:
                continue
            other = found.get(recording.rank)
            if other is None or _worth(recording, folders) > _worth(other, folders):
                found[recording.rank] = recording
    return dict(sorted(found.items()))


def of_other_sets(sources: Sequence[ParsedSource], chosen: Mapping[int, Recording]) -> tuple[int, ...]:
    """The ranks whose only dump lies in a folder that holds other dumps of ranks that have one in a younger folder."""
    folders: dict[str, dict[int, Recording]] = defaultdict(dict)
    for source in sources:
        for recording in source.recordings:
            if recording.rank is not None and len(recording):
                folders[_folder(recording)][recording.rank] = recording
    if len(folders) < 2:
        return ()
    used = {_folder(recording) for recording in chosen.values() if len(recording)}
    replaced = {
        old
        for old in used
        for new in used - {old}
        if max(map(_age, folders[old].values())) < max(map(_age, folders[new].values()))
        and any(_differ(one, folders[new].get(rank, one)) for rank, one in folders[old].items())
    }
    return tuple(rank for rank, recording in chosen.items() if len(recording) and _folder(recording) in replaced)


def _folder(recording: Recording) -> str:
    return recording.file.rpartition("/")[0]


def _age(recording: Recording) -> _Age:
    return recording.last_time_ns, recording.has_frames, _folder(recording)


def _differ(one: Recording, other: Recording) -> bool:
    """Whether they are of different moments, with or without stacks."""
    return (one.last_time_ns, one.state, one.seq) != (other.last_time_ns, other.state, other.seq)


def _worth(recording: Recording, folders: Mapping[str, _Age]) -> tuple[bool, _Age, int, bool, int, str]:
    # a dump with stacks and one without, taken one after the other, have the same last entry
    return (
        len(recording) > 0,
        folders[_folder(recording)],
        recording.last_time_ns,
        recording.has_frames,
        len(recording),
        recording.file,
    )
