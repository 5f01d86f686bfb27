"""Leaves out second copies of a file: their lines would count as further calls and messages of the same process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from hangscope.align.dump_owners import only_dumps
from hangscope.expressions import expression
from hangscope.parse.source import ParsedSource
from hangscope.sources.origin import hints

_FINE_TIME = expression(r"\d\d:\d\d:\d\d\.\d{6}")


def without_copies(sources: Sequence[ParsedSource]) -> tuple[list[ParsedSource], list[str]]:
    """The sources without those that repeat another word for word, and a warning for each of these.

    Files of different ranks that failed in the same words are equal, too, and no copies.
    """
    kept: list[ParsedSource] = []
    warnings: list[str] = []
    alone: dict[Hashable, ParsedSource] = {}
    by_content: dict[Hashable, list[ParsedSource]] = defaultdict(list)
    for source in sources:
        outline = _one_of_a_kind(source)
        if outline is None:
            kept.append(source)
            continue
        if outline not in alone:
            # no other is like it so far: what its lines say need not be looked at
            alone[outline] = source
            kept.append(source)
            continue
        first = alone[outline]
        if not by_content[outline]:
            by_content[outline].append(first)
            by_content[outline, _words(first)].append(first)
        alike = by_content[outline, _words(source)]
        original = next((other for other in alike if _same_rest(source, other)), None)
        if original is None:
            kept.append(source)
            alike.append(source)
        else:
            warnings.append(f"{source.record.file} is left out: it is a copy of {original.record.file}")
    return kept, warnings


def _one_of_a_kind(source: ParsedSource) -> Hashable | None:
    """What only a copy of the source has in common with it, but for what the lines say; None when others may have it.

    A process says who wrote a file by naming itself, or the time to the microsecond.
    """
    # two dumps of a process that is stuck are equal, and that they are is what the second one was taken for;
    # of several recordings of a rank the best is chosen later
    if source.recordings or only_dumps(source):
        return None
    record = source.record
    content = (record.bytes, record.lines, len(source.calls), len(source.events))
    processes = {(key.host, key.pid) for writer in source.writers if (key := writer.key).host and key.pid}
    if processes:
        return (*content, frozenset(processes))
    return (*content, _named(source)) if any(_FINE_TIME.search(event.line.raw) for event in source.events) else None


def _same_rest(one: ParsedSource, other: ParsedSource) -> bool:
    return _calls(one) == _calls(other) and _dumps(one) == _dumps(other)


def _named(source: ParsedSource) -> tuple[object, ...]:
    """Whose file it is by its name."""
    told = hints(source.record.file)
    return (told.rank, told.local_rank, told.host)


def _words(source: ParsedSource) -> tuple[tuple[int, str], ...]:
    return tuple((event.line.number, event.line.raw) for event in source.events)


def _dumps(source: ParsedSource) -> list[tuple[object, ...]]:
    return [(dump.pid, dump.line.raw, [thread.frames for thread in dump.threads]) for dump in source.dumps]


def _calls(source: ParsedSource) -> tuple[object, ...]:
    calls = source.calls
    return (calls.ops, calls.shapes, calls.shape, calls.op_count, calls.line)
