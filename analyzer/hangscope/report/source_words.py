"""Says how much was read, and what of it was not understood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hangscope.model import SourceRecord
from hangscope.report.spans import count_words, size_words


def read_words(sources: Sequence[SourceRecord]) -> str:
    """``1,024 files, 3,400,000 lines, 240.1 MB``."""
    lines, size_bytes = sum(source.lines for source in sources), sum(source.bytes for source in sources)
    return f"{count_words(len(sources), 'file')}, {count_words(lines, 'line')}, {size_words(size_bytes)}"


def least_understood(sources: Iterable[SourceRecord]) -> list[SourceRecord]:
    """Inputs with lines of known programs that were not understood, most of them first."""
    strange = (source for source in sources if source.error is None and source.unrecognized)
    return sorted(strange, key=lambda source: (-source.unrecognized, source.file))


def lost_words(sources: Iterable[SourceRecord]) -> str:
    """``1 line of known programs was not understood``."""
    total = sum(source.unrecognized for source in sources)
    return f"{count_words(total, 'line')} of known programs {'was' if total == 1 else 'were'} not understood"
