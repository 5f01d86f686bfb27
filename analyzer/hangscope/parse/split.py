"""Reads one big file with several processes: the call lines of later blocks, while the lines before them are read.

Blocks are cut where they are cut when one process reads all. What stands in a block's call lines depends on nothing
before it, so that part is done by others; all other lines come back, and go the usual way in their order.
"""

from __future__ import annotations

import codecs
import io
import itertools
import os
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hangscope.parse.bulk import CallReader
from hangscope.parse.call_shapes import CallShape, CallShapes
from hangscope.parse.call_tallies import Tally
from hangscope.parse.columns import WriterKey
from hangscope.records import dataclass
from hangscope.sources.decode import CHUNK, LONG, RawLine, Sample, TakeBlock, read_raw_lines, split_block

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

UNIT = 8
"""So many chunks are one piece of work."""
WORTH_SPLITTING = 48 << 20
_AHEAD = 2
"""Pieces of work that a worker has at once."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The call lines of one block, in the numbers of the worker that read them.

    Attributes:
        count: lines of the block.
        rest: index, place in the block and bytes of each line that was not read.
        shapes, op_counts, lines, times: a row for each call; its line is an index.
        tallies: the calls by writer; lines are indexes, offsets places in the block.
        new_shapes, new_writers, new_ops: what this worker has not told yet, a writer with its device.
    """

    count: int
    rest: list[tuple[int, int, bytes]]
    shapes: array[int]
    op_counts: array[int]
    lines: array[int]
    times: array[float] | None
    tallies: dict[int, Tally]
    new_shapes: CallShapes
    new_writers: list[tuple[WriterKey, int | None]]
    new_ops: list[str]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines: where they begin, their length without the last newline, and their calls if they were read."""

    offset: int
    length: int
    rows: Rows | None


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of work: its blocks, and what stands behind the last newline of the file."""

    blocks: list[Block]
    tail: bytes


class SplitFile:
    """The lines of one file, as `read_raw_lines` gives them.

    Args:
        file: a plain file.
        size: bytes of it to read.
        calls: takes the calls.
        processes: how many to read with beside this one.
    """

    def __init__(self, file: io.FileIO, size: int, calls: CallReader, processes: int) -> None:
        self._file = file
        self._size = size
        self._calls = calls
        self._processes = processes
        self._codes: list[Codes] = [Codes(calls) for _ in range(processes)]

    def lines(self, take_block: TakeBlock, sample: Sample, taken: Callable[[int, int], None]) -> Iterator[RawLine]:
        """The lines that are not taken, in order.

        Args:
            take_block: as for `read_raw_lines`, for what is read here.
            sample: as for `read_raw_lines`.
            taken: told of a block whose calls were taken elsewhere: the number of its last line, the offset behind it.
        """
        utf_16 = os.pread(self._file.fileno(), 2, 0) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        cut = None if utf_16 else _behind_newline(self._file, UNIT * CHUNK)
        first = _Part(self._file, 0, cut if cut is not None else self._size)
        number, offset = yield from read_raw_lines(first, take_block, sample)
        if cut is None:
            return
        if len(self._calls.columns) and self._calls.takes_blocks:
            number, offset = yield from self._split(number, offset, taken)
        if offset < self._size:
            # no calls, or a line so long that it is none
            rest = _Part(self._file, offset, self._size)
            yield from read_raw_lines(rest, take_block, number=number, offset=offset)

    def _split(
        self, number: int, offset: int, taken: Callable[[int, int], None]
    ) -> Generator[RawLine, None, tuple[int, int]]:
        last = -(-self._size // CHUNK)
        with _workers(self._file, self._size, self._calls, range(UNIT, last, UNIT), self._processes) as units:
            for numbers, unit in zip(itertools.cycle(self._codes), units, strict=False):
                if unit is None:
                    break
                for block in unit.blocks:
                    if block.rows is None:
                        text = os.pread(self._file.fileno(), block.length, block.offset)
                        count, lines = split_block(text, number, offset)
                        yield from lines
                    else:
                        count = block.rows.count
                        numbers.take(block.rows, number, block.offset)
                        taken(number + count - 1, offset + block.length + 1)
                        for index, start, line in block.rows.rest:
                            yield from split_block(line, number + index, offset + start)[1]
                    number += count
                    offset += block.length + 1
                if unit.tail:
                    tail = io.BytesIO(unit.tail)
                    number, offset = yield from read_raw_lines(tail, number=number, offset=offset)
        return number, offset


class Codes:
    """Brings what one worker numbered into the numbers of all."""

    def __init__(self, calls: CallReader) -> None:
        self._calls = calls
        self._writers: list[int] = []
        self._ops: list[int] = []
        self._shapes = array("i")

    def take(self, rows: Rows, first_line: int, offset: int) -> None:
        """Adds the calls of a block whose first line has this number and this offset."""
        import numpy as np  # noqa: PLC0415 - longer to import than a log without calls to read

        columns = self._calls.columns
        for key, device in rows.new_writers:
            self._writers.append(columns.writer_code(key))
            if device is not None:
                columns.devices[key] = device
        self._ops += map(columns.op_code, rows.new_ops)
        if len(rows.new_shapes):
            writers, ops, *rest = (rows.new_shapes.column(name) for name in CallShape._fields)
            own = np.array(self._writers, dtype=np.int32)[writers], np.array(self._ops, dtype=np.int32)[ops]
            begin = columns.add_shapes([*own, *rest], distinct=False)
            self._shapes.extend(range(begin, len(columns.shapes)))
        if len(rows.shapes):
            shapes = np.array(self._shapes, dtype=np.int32)[np.frombuffer(rows.shapes, dtype=np.int32)]
            counts = np.frombuffer(rows.op_counts, dtype=np.dtype(rows.op_counts.typecode))
            lines = np.frombuffer(rows.lines, dtype=np.int32) + np.int32(first_line)
            self._calls.add_rows(shapes, counts, lines, None if rows.times is None else np.frombuffer(rows.times))
        for writer, tally in rows.tallies.items():
            self._calls.add_tally(self._writers[writer], tally.moved(first_line, offset))


class _Part(io.RawIOBase):
    """The bytes of a file from one place to another."""

    def __init__(self, file: io.FileIO, start: int, end: int) -> None:
        self._file = file
        self._at = start
        self._end = end

    def read(self, size: int = -1) -> bytes:
        data = os.pread(self._file.fileno(), min(size, self._end - self._at), self._at)
        self._at += len(data)
        return data


def _behind_newline(file: io.FileIO, end: int) -> int | None:
    """The place behind the last newline before `end`; None when it is too far away."""
    start = max(0, end - LONG - 1)
    at = os.pread(file.fileno(), end - start, start).rfind(b"\n")
    return None if at < 0 else start + at + 1


# --- the workers ---------------------------------------------------------------------------------------------


@contextmanager
def _workers(
    file: io.FileIO, size: int, calls: CallReader, firsts: Sequence[int], processes: int
) -> Iterator[Iterator[Unit | None]]:
    """Starts the workers; gives the pieces of work that begin with these chunks, in order, those of worker 0 first.

    None stands for a piece that cannot be read so.
    """
    import multiprocessing  # noqa: PLC0415 (few files are so big)

    context = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    started = []
    try:
        for _ in range(processes):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(there, [*pipes, here], file, size, calls), daemon=True)
            process.start()
            there.close()
            pipes.append(here)
            started.append(process)
        yield _units(pipes, firsts)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in started:
            process.terminate()
            process.join()


def _units(pipes: Sequence[Connection], firsts: Sequence[int]) -> Iterator[Unit | None]:
    ahead = _AHEAD * len(pipes)
    try:
        for at, first in enumerate(firsts[:ahead]):
            pipes[at % len(pipes)].send(first)
        for at in range(len(firsts)):
            pipe = pipes[at % len(pipes)]
            unit: Unit | None = pipe.recv()
            if at + ahead < len(firsts):
                pipe.send(firsts[at + ahead])
            yield unit
    except (EOFError, OSError):
        # a worker is gone, killed for memory perhaps: the rest is read here
        yield None


def _work(pipe: Connection, foreign: list[Connection], file: io.FileIO, size: int, calls: CallReader) -> None:
    for other in foreign:
        other.close()
    worker = _Worker(file, size, calls.another())
    try:
        while True:
            pipe.send(worker.unit(pipe.recv()))
    except (EOFError, OSError, KeyboardInterrupt):
        return


class _Worker:
    """Reads the call lines of pieces of one file; what it has told of calls it does not tell again."""

    def __init__(self, file: io.FileIO, size: int, calls: CallReader) -> None:
        self._file = file
        self._size = size
        self._calls = calls
        self._told = [0, 0, 0]

    def unit(self, first: int) -> Unit | None:
        """The blocks of the chunks from `first` on; None where a line is too long for a block."""
        at = first * CHUNK
        begin = _behind_newline(self._file, at)
        if begin is None:
            return None
        pending = os.pread(self._file.fileno(), at - begin, begin)
        blocks = []
        for _ in range(UNIT):
            length = min(CHUNK, self._size - at)
            piece = os.pread(self._file.fileno(), length, at)
            if len(piece) < length:
                return None
            at += length
            last = piece.rfind(b"\n")
            if last >= 0:
                block = b"".join((pending, memoryview(piece)[:last]))
                blocks.append(Block(begin, len(block), self._rows(block)))
                begin += len(block) + 1
                pending = piece[last + 1 :]
            else:
                pending += piece
            if len(pending) > LONG:
                return None
        _leave_out_middles(blocks)
        return Unit(blocks, pending if at == self._size else b"")

    def _rows(self, block: bytes) -> Rows | None:
        taken = self._calls.take_block(block, 0, 0)
        if taken is None:
            return None
        columns = self._calls.columns
        shapes, writers, ops = self._told
        rows = Rows(
            taken[0],
            [(index, start, block[start:end]) for index, start, end in taken[1]],
            *columns.take_rows(),
            self._calls.tallies.take(),
            columns.shapes.part(shapes),
            [(key, columns.devices.get(key)) for key in columns.writers[writers:]],
            columns.ops[ops:],
        )
        self._told = [len(columns.shapes), len(columns.writers), len(columns.ops)]
        return rows


def _leave_out_middles(blocks: Sequence[Block]) -> None:
    """Of each writer, only the first and the last line of all blocks are of interest."""
    for ordered, which in ((blocks, "first"), (blocks[::-1], "last")):
        seen: set[int] = set()
        for tallies in (block.rows.tallies for block in ordered if block.rows is not None):
            for writer, tally in tallies.items():
                if writer in seen:
                    setattr(tally, which, None)
            seen |= tallies.keys()
