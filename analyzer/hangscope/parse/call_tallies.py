"""Counts the call lines of each writer, and keeps the first and the last of those that have something around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hangscope.records import dataclass
from hangscope.sources.decode import RawLine, clean

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.integer[Any]]
    Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Tally:
    """The call lines of one writer.

    Attributes:
        plain: lines with nothing around the call.
        first_plain, last_plain: numbers of the first and the last of them, 0 for none.
        wrapped: lines with something around it.
        first, last: the first and the last of them.
        headed: lines in which what stands in front of the header is different each time.
        first_timed, last_timed: number and time of the first and the last of them that has a time.
    """

    plain: int = 0
    first_plain: int = 0
    last_plain: int = 0
    wrapped: int = 0
    first: RawLine | None = None
    last: RawLine | None = None
    headed: int = 0
    first_timed: tuple[int, float] | None = None
    last_timed: tuple[int, float] | None = None

    def add_plain(self, lines: int, first: int, last: int) -> None:
        """Adds lines, wherever they stand."""
        if lines:
            self.first_plain = min(self.first_plain, first) if self.plain else first
            self.plain += lines
            self.last_plain = max(self.last_plain, last)

    @property
    def first_number(self) -> int:
        """Number of the first line, 0 for none."""
        return min(filter(None, (self.first_plain, self.first.number if self.first else 0)), default=0)

    def add_wrapped(self, lines: int, first: RawLine | None, last: RawLine | None) -> None:
        """Adds lines behind those that were added before."""
        self.wrapped += lines
        self.first = self.first or first
        self.last = last or self.last

    def add_times(self, first: tuple[int, float] | None, last: tuple[int, float] | None) -> None:
        """Adds times of lines behind those that were added before."""
        self.first_timed = self.first_timed or first
        self.last_timed = last or self.last_timed

    def add(self, other: Tally) -> None:
        """Adds the tally of what stands behind the lines of this one."""
        self.headed += other.headed
        self.add_plain(other.plain, other.first_plain, other.last_plain)
        self.add_wrapped(other.wrapped, other.first, other.last)
        self.add_times(other.first_timed, other.last_timed)

    def moved(self, lines: int, offset: int) -> Tally:
        """The same for lines so many lines and bytes further down."""

        def down(raw: RawLine | None) -> RawLine | None:
            if raw is None:
                return None
            return raw._replace(number=raw.number + lines, offset=raw.offset + offset, end=raw.end + offset)

        first, last = (
            None if timed is None else (timed[0] + lines, timed[1]) for timed in (self.first_timed, self.last_timed)
        )
        first_plain, last_plain = (
            number + lines if self.plain else 0 for number in (self.first_plain, self.last_plain)
        )
        plain = self.plain, first_plain, last_plain
        return Tally(*plain, self.wrapped, down(self.first), down(self.last), self.headed, first, last)


@dataclass(frozen=True, slots=True)
class Texts:
    """Some lines of a block.

    Attributes:
        block: where they stand.
        offset: of the block in the file.
        starts, text_ends, ends: where in the block each line begins, its text ends, and the line itself does.
    """

    block: bytes
    offset: int
    starts: Numbers
    text_ends: Numbers
    ends: Numbers

    def raw(self, index: int, number: int) -> RawLine:
        """One of the lines; it has this number in the file."""
        start, end = int(self.starts[index]), int(self.ends[index])
        text = clean(self.block[start : int(self.text_ends[index])].decode("ascii"))
        return RawLine(number, self.offset + start, text, self.offset + end + 1)


class Tallies:
    """The tallies of one input, by the number of the writer."""

    def __init__(self) -> None:
        self._of: dict[int, Tally] = {}

    def of(self, writer: int) -> Tally:
        tally = self._of.get(writer)
        if tally is None:
            tally = self._of[writer] = Tally()
        return tally

    def items(self) -> Iterator[tuple[int, Tally]]:
        yield from self._of.items()

    def take(self) -> dict[int, Tally]:
        """Takes all of them out."""
        taken, self._of = self._of, {}
        return taken

    def add_plain(self, writers: Numbers, lines: Numbers) -> None:
        """Adds plain lines: the writer and number of each, ascending."""
        for writer, calls, first, last in _spans(writers):
            self.of(writer).add_plain(calls, int(lines[first]), int(lines[last]))

    def add_wrapped(self, writers: Numbers, lines: Numbers, texts: Texts) -> None:
        """Adds lines with something around the call: the writer and number of each, ascending, and the text."""

        def raw(index: int) -> RawLine:
            return texts.raw(index, int(lines[index]))

        for writer, calls, first, last in _spans(writers):
            tally = self.of(writer)
            tally.add_wrapped(calls, None if tally.first else raw(first), raw(last))

    def add_times(self, writers: Numbers, lines: Numbers, times: Floats) -> None:
        """Adds the times of lines with something around the call: writer, number and time of each."""
        for writer, _, first, last in _spans(writers):
            spans = ((int(lines[at]), float(times[at])) for at in (first, last))
            self.of(writer).add_times(*spans)

    def add_headed(self, writers: Numbers) -> None:
        """Adds lines, given the writer of each, that have something new in front of the header."""
        for writer, lines, *_ in _spans(writers):
            self.of(writer).headed += lines


def _spans(writers: Numbers) -> Iterator[tuple[int, int, int, int]]:
    """Each of these numbers, how often it comes, and the first and last place where it does."""
    import numpy as np  # noqa: PLC0415 - longer to import than a log without calls to read

    if len(writers) and (writers == writers[0]).all():
        yield int(writers[0]), len(writers), 0, len(writers) - 1
        return
    counts = np.bincount(writers)
    places = np.arange(len(writers))
    firsts, lasts = np.zeros((2, len(counts)), dtype=np.int64)
    lasts[writers] = places
    firsts[writers[::-1]] = places[::-1]
    for writer in np.flatnonzero(counts).tolist():
        yield writer, int(counts[writer]), int(firsts[writer]), int(lasts[writer])
