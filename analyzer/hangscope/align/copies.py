"""Leaves out second copies of a file: their lines would count as further calls and messages of the same process."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hangscope.align.dump_owners import only_dumps
from hangscope.parse.source import ParsedSource
from hangscope.sources.origin import hints

_FINE_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{6}")


def without_copies(sources: Sequence[ParsedSource]) -> tuple[list[ParsedSource], list[str]]:
    """The sources without those that repeat another word for word, and a warning for each of these.

    Files of different ranks that failed in the same words are equal, too, and no copies.
    """
    kept: list[ParsedSource] = []
    warnings: list[str] = []
    by_size: dict[tuple[int, int, int], list[ParsedSource]] = {}
    for source in sources:
        record = source.record
        if source.recordings:
            kept.append(source)  # of several dumps of a rank the best is chosen later
            continue
        alike = by_size.setdefault((record.bytes, record.lines, len(source.calls)), [])
        original = next((other for other in alike if _is_copy(source, other)), None)
        if original is None:
            kept.append(source)
            alike.append(source)
        else:
            warnings.append(f"{record.file} is left out: it is a copy of {original.record.file}")
    return kept, warnings


def _is_copy(one: ParsedSource, other: ParsedSource) -> bool:
    if only_dumps(one):
        # two dumps of a process that is stuck are equal, and that they are is what the second one was taken for
        return False
    same = _words(one) == _words(other) and _calls(one) == _calls(other) and _dumps(one) == _dumps(other)
    return same and _is_one_of_a_kind(one, other)


def _is_one_of_a_kind(one: ParsedSource, other: ParsedSource) -> bool:
    """Whether no other process can have written the same: it names itself, or the time to the microsecond."""
    if any(writer.key.host and writer.key.pid for writer in one.writers):
        return True
    return _named(one) == _named(other) and any(_FINE_TIME.search(event.line.raw) for event in one.events)


def _named(source: ParsedSource) -> tuple[object, ...]:
    """Whose file it is by its name."""
    told = hints(source.record.file)
    return (told.rank, told.local_rank, told.host)


def _words(source: ParsedSource) -> list[tuple[int, str]]:
    return [(event.line.number, event.line.raw) for event in source.events]


def _dumps(source: ParsedSource) -> list[tuple[object, ...]]:
    return [(dump.pid, dump.line.raw, [thread.frames for thread in dump.threads]) for dump in source.dumps]


def _calls(source: ParsedSource) -> tuple[object, ...]:
    calls = source.calls
    return (calls.ops, calls.op, calls.count, calls.comm, calls.op_count, calls.line)
