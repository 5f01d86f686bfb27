"""The fast way through collective-call lines: from blocks of raw lines to columns, no object a line.

Lines are found together (`hangscope.parse.call_layouts`); what is new in them is read for many at a time, too
(`hangscope.parse.call_entries`), and what stands around them once for each text (`hangscope.parse.call_texts`). A line
that looks like no call of NCCL's goes the slow way.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from hangscope.model import Event
from hangscope.parse.call_ahead import CallsAhead, has_many_calls
from hangscope.parse.call_shapes import CallShape
from hangscope.parse.call_tallies import Tallies, Tally, Texts
from hangscope.parse.call_texts import CallTexts, headed_call
from hangscope.parse.columns import WriterKey, pointer
from hangscope.sources.unwrap import Unwrapper

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hangscope.parse.call_codes import CodeSlots
    from hangscope.parse.call_entries import Entries
    from hangscope.parse.call_layouts import Found, LayoutFinder

    Codes = npt.NDArray[np.int32]
    Numbers = npt.NDArray[np.integer[Any]]
    Floats = npt.NDArray[np.float64]

WORTH_A_BLOCK = 1 << 14
"""Bytes of a block from which looking at all its lines at once is faster than one by one."""
_MANY_LAYOUTS = 512
_MANY = 256
_MOST_FRUITLESS = 3
"""Blocks in which about every call has something new around it; behind them the slow way is the faster one."""


class _Learned(threading.local):
    """What inputs have taught of the layouts of lines; workers of a cluster may read several at once, in threads."""

    finder: LayoutFinder | None = None


_learned = _Learned()


def _finder() -> LayoutFinder:
    """One for many inputs: what it learns is how lines look, not who wrote them."""
    # numpy takes longer to import than a log without calls to read
    from hangscope.parse.call_layouts import LayoutFinder

    if _learned.finder is None or len(_learned.finder.layouts) > _MANY_LAYOUTS:
        # what inputs of other kinds have taught would be in the way of what this one teaches
        _learned.finder = LayoutFinder(headed_call().search)
    return _learned.finder


class CallReader:
    """Puts the collective calls of one file into columns.

    Args:
        file: name of the input.
        unwrapper: takes off what is put around a line.
        ahead: looks for the calls of several files at once.

    Attributes:
        columns: the calls.
        tallies: how many of them each writer made.
    """

    def __init__(self, file: str, unwrapper: Unwrapper, ahead: CallsAhead | None = None) -> None:
        self._ahead = ahead
        self._texts = CallTexts(file, unwrapper.lines)
        self._unwrapper = unwrapper
        self.columns = self._texts.columns
        self.tallies = Tallies()
        self._entries: Entries | None = None
        self._finder: LayoutFinder | None = None
        self._slots: CodeSlots | None = None
        self._fruitless = 0

    def another(self) -> CallReader:
        """One that reads the same file, with calls of its own."""
        return CallReader(self._texts.file, self._unwrapper)

    @property
    def takes_blocks(self) -> bool:
        """Whether it is of any use to offer blocks."""
        return not self._unwrapper.joins and self._fruitless <= _MOST_FRUITLESS

    # --- blocks -----------------------------------------------------------------------------------------

    def take_block(self, block: bytes, first_line: int, offset: int) -> tuple[int, list[tuple[int, int, int]]] | None:
        """Reads the call lines of a block of whole lines.

        Args:
            block: without the last newline.
            first_line: number of its first line.
            offset: of its first line.

        Returns:
            How many lines it has, and index, start and end of each that was not read; None when nothing was, as few
            lines are calls.
        """
        if len(block) < WORTH_A_BLOCK or not self.takes_blocks or not has_many_calls(block):
            return None
        from hangscope.parse.call_codes import CodeSlots
        from hangscope.parse.call_entries import Entries

        finder = self._finder = self._finder or _finder()
        found = None if self._ahead is None else self._ahead.found(self._texts.file, block, offset, finder)
        found = found or finder.find(block)
        if found is None:
            return None
        if self._slots is None or self._entries is None:
            self._slots, self._entries = CodeSlots(), Entries(self._texts, finder)
        layouts = len(finder.layouts)
        codes = self._codes(found, self._slots, self._entries)
        if len(finder.layouts) > layouts and (again := finder.find(block)) is not None:
            # lines with a time of day were taken for others until that was seen
            found = again
            codes = self._codes(found, self._slots, self._entries)
        if len(codes):
            self._append(found, codes, self._entries, block, first_line=first_line, offset=offset)
        rest = (~found.taken).nonzero()[0]
        lines, base = found.lines, found.base
        begins, ends = lines.starts[rest] - base, lines.ends[rest] - base
        others = zip(rest.tolist(), begins.tolist(), ends.tolist(), strict=True)
        return len(lines.ends), list(others)

    def _codes(self, found: Found, slots: CodeSlots, entries: Entries) -> Codes:
        """The number of what each call line of a block says, -1 for no call."""
        heads = entries.new_heads
        news = found.news if slots.empty else None
        if news is None:
            codes = slots.codes(found.keys, lambda lines: entries.read(found, lines))
        else:
            numbers = news.numbers
            codes = slots.codes(
                found.keys, lambda lines: entries.read(found, lines, numbers), (news.firsts, news.which)
            )
        fresh = entries.new_heads - heads
        self._fruitless = self._fruitless + 1 if fresh > _MANY and fresh * 2 > len(codes) else 0
        return codes

    def _append(
        self, found: Found, codes: Codes, entries: Entries, block: bytes, *, first_line: int, offset: int
    ) -> None:
        import numpy as np

        times, good = entries.times(found, codes)
        rows, op_counts = found.parts.rows, found.parts.op_counts
        if not good.all():
            # what stands in the fields of these, or around them, no call has
            found.taken[rows[~good]] = False
            codes, rows, op_counts = codes[good], rows[good], op_counts[good]
            times = None if times is None else times[good]
            if not len(rows):
                return
        numbers = rows + first_line
        self.add_rows(entries.shapes(codes), op_counts, numbers.astype(np.int32), times)
        tallies = Tallies()
        whos = entries.whos(codes)
        plain, owners = entries.plain(whos), entries.writers(whos)
        if plain.all():
            tallies.add_plain(owners, numbers)
        else:
            tallies.add_plain(owners[plain], numbers[plain])
            wrapped = ~plain
            rows, numbers, owners = rows[wrapped], numbers[wrapped], owners[wrapped]
            starts, ends = found.lines.starts[rows] - found.base, found.lines.ends[rows] - found.base
            texts = Texts(block, offset, starts, starts + found.lines.lengths[rows], ends)
            tallies.add_wrapped(owners, numbers, texts)
            if times is not None:
                timed = ~np.isnan(times[wrapped])
                tallies.add_times(owners[timed], numbers[timed], times[wrapped][timed])
            tallies.add_headed(owners[entries.headed(whos[wrapped])])
        for writer, tally in tallies.items():
            self.add_tally(writer, tally)

    def add_rows(self, shapes: Codes, op_counts: Numbers, lines: Codes, times: Floats | None) -> None:
        """Adds call lines: the number of the distinct call, opCount, line number and time (NaN: none) of each."""
        import numpy as np

        wide = bool(op_counts.max() > np.iinfo(np.int32).max)
        counts = op_counts.astype(np.int64 if wide else np.int32)
        timed = None if times is None else times.tobytes()
        self.columns.append_rows(shapes.tobytes(), counts.tobytes(), lines.tobytes(), timed, wide=wide)

    def add_tally(self, writer: int, tally: Tally) -> None:
        """Adds what a writer wrote behind what was counted before."""
        self.tallies.of(writer).add(tally)
        key = self.columns.writers[writer]
        if tally.headed and key.host is not None and key.pid is not None:
            self._unwrapper.saw(key.host, key.pid, tally.headed)

    # --- single lines -----------------------------------------------------------------------------------

    def take(self, text: str, number: int) -> bool:
        """Reads one raw line with `call_ahead.MARK` in it; False when it is not a plain call line."""
        said = self._texts.plain(text)
        if said is None:
            return False
        code, op_count = said
        self.columns.append_code(code, op_count, number)
        self.tallies.of(self.columns.shapes.writer[code]).add_plain(1, number, number)
        return True

    def take_event(self, event: Event, key: WriterKey) -> None:
        """Takes a call line that came the slow way (with something around it, or torn off another line)."""

        def number(name: str) -> int:
            value = event.fields.get(name)
            return value if isinstance(value, int) else 0

        columns = self.columns
        shape = CallShape(
            columns.writer_code(key),
            columns.op_code(str(event.fields.get("call", ""))),
            number("count"),
            number("dtype"),
            number("reduce_op"),
            number("root"),
            pointer(str(event.fields.get("comm", ""))),
            number("nranks"),
        )
        columns.append(shape, number("op_count"), event.line.number, event.line.time)
