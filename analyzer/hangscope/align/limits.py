"""Says what limits the analysis: ranks without lines, empty files, lost tails, inputs that were not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hangscope.align.identity import Identity
from hangscope.model import SourceRecord
from hangscope.parse.source import ParsedSource
from hangscope.sources.stamps import REFERENCE_YEAR

_MAX_NAMES = 4
_YEAR_2001 = 978_307_200.0
"""Logs of GPU jobs are younger; an earlier time has the reference year of a stamp without one."""
_A_DAY_S = 86_400.0
_UNREAD = {
    "json": "not read, as no kind of JSON that hangscope knows",
    "pickle": "not read, as no kind of pickle that hangscope knows",
}
"""Kinds of input that are recognized and not analyzed."""


def limits(
    sources: Sequence[ParsedSource], unreadable: Sequence[SourceRecord], identity: Identity, lost: frozenset[str]
) -> Iterator[str]:
    """Warnings about the evidence as a whole, the gravest first."""
    failed = [record.file for record in unreadable] + [s.record.file for s in sources if s.record.error is not None]
    if failed:
        yield f"{_count(failed, 'input')} could not be read: {_names(failed)}"
    yield from _silent_ranks(sources, identity)
    yield from _dumped_twice(sources)
    if lost:
        yield (
            f"{_count(list(lost), 'file')} may lack the last lines, up to 4095 bytes: "
            f"the output was block-buffered or cut ({_names(sorted(lost))})"
        )
    undated = [t for s in sources for w in s.writers for t in (w.first_time, w.last_time) if t and t < _YEAR_2001]
    # within a day nobody needs the year; the report's head says that it is unknown
    if undated and max(undated) - min(undated) > _A_DAY_S:
        yield f"the logs name no year: times are given as if it were {REFERENCE_YEAR}"
    for kind, what in _UNREAD.items():
        unread = [s.record.file for s in sources if s.record.kind == kind and s.record.error is None]
        if unread:
            yield f"{what}: {_names(unread)}"


def _silent_ranks(sources: Sequence[ParsedSource], identity: Identity) -> Iterator[str]:
    empty = [s.record.file for s in sources if s.empty and s.record.error is None and s.record.kind == "empty"]
    if empty:
        yield (
            f"{_count(empty, 'file')} empty: {_names(empty)}. A rank that hangs before its first 4096 bytes of "
            "block-buffered output leaves an empty file"
        )
    if identity.world_size is None or not identity.ranks:
        return
    missing = sorted(set(range(identity.world_size)) - set(identity.ranks))
    if missing:
        yield f"nothing here is known to come from {_ranks(missing)} of {identity.world_size}"


def _dumped_twice(sources: Sequence[ParsedSource]) -> Iterator[str]:
    """Sets of dumps of several runs: a rank that left none in the last would get the one of an earlier run."""
    folders: dict[tuple[int, str], set[str]] = defaultdict(set)
    for source in sources:
        for recording in source.recordings:
            folder, _, base = source.record.file.rpartition("/")
            if recording.rank is not None:
                folders[recording.rank, base].add(f"{folder}/" if folder else source.record.file)
    twice = {key: found for key, found in folders.items() if len(found) > 1}
    if twice:
        where = sorted({folder for found in twice.values() for folder in found})
        ranks = sorted({rank for rank, _ in twice})
        yield (
            f"{_count([str(rank) for rank in ranks], 'rank')} left several flight-recorder dumps "
            f"({_names(where)}), and the youngest of each is used: analyze each run alone if they are of several"
        )


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"


def _count(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
