"""Turns the bytes of a log into clean physical lines, in memory that does not grow with file or line."""

from __future__ import annotations

import codecs
import functools
import itertools
import operator
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from hangscope.expressions import expression

CHUNK = 1 << 20
"""Bytes read at once: enough that lines of a kind are many in it, few enough that memory does not matter."""
MAX_TEXT = 1 << 16
"""How much of one line is kept, in bytes; the rest is read over."""
CUT_MARK = "…[cut]"

LONG = 4 * MAX_TEXT
"""A line of more bytes is read piece by piece."""
_CONTROLS = bytes([*range(9), *range(0x0B, 0x20), 0x7F])
_OTHER_CONTROLS = _CONTROLS.translate(None, b"\0\r\x1b")
# CSI, then OSC, then DCS/SOS/PM/APC, then two-character escapes; the 8-bit CSI is U+009B once decoded.
# An OSC or DCS that does not end on its line loses only its introducer, so that a stray ESC eats nothing.
_ESCAPES = expression(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b\n]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
)
# C0 and C1 controls, line and paragraph separators, and the marks that reorder text (they can hide what a line says);
# not the newline, the carriage return and the tab
_HIDDEN = expression("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_HIDDEN_ASCII = expression("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HIDDEN_UTF8 = expression(rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
_LINE_ENDS = expression(r"\r+(?=\n|\Z)")
_PROGRESS = expression(r"\d%|\d ?/ ?\d|it/s|s/it|[kMG]i?B/s|\dit ")
_WORTH_KEEPING = expression(
    r"NCCL|CCOM|rror|\[rank|Traceback|Warn|WARN|ProcessGroup|[Kk]illed|signal|Xid|[Aa]bort|fault|timeout"
)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


Rest = Sequence[tuple[int, int, int]]
"""Lines of a block: index, start and end in it."""
TakeBlock = Callable[[bytes, int, int], tuple[int, Rest] | None]
"""Given whole lines (without the last newline), the number of the first one, and the offset behind them: how many lines
are there, and which are not taken? None when the block is not taken at all."""


class Sample(NamedTuple):
    """Who wants to see the first lines of a file.

    Attributes:
        most: how many.
        look: shown their texts; False when it would rather have them one by one, like all others, before any block is
            offered. It is not asked where they do not stand together at the beginning.
    """

    most: int
    look: Callable[[Sequence[str]], bool]


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes: ...


class RawLine(NamedTuple):
    """A physical line, or one carriage-return segment of it.

    Attributes:
        number: 1-based number of the physical line; the segments of one line share it.
        offset: where the physical line begins in the decompressed file. For UTF-16 input, offsets count the
            text as UTF-8.
        text: the line without its end, decoded, with escape sequences gone and control characters made visible.
        end: offset just behind the physical line and its line end.
        complete: whether it ended in a newline; only the last line of a file can lack it.
        cut: text beyond `MAX_TEXT` bytes was left out (the text then ends in `CUT_MARK`).
    """

    number: int
    offset: int
    text: str
    end: int
    complete: bool = True
    cut: bool = False


# the class's own constructor is Python code and takes three times as long
_make: Callable[[tuple[int, int, str, int, bool, bool]], RawLine] = functools.partial(tuple.__new__, RawLine)


def read_raw_lines(
    stream: Readable,
    take_block: TakeBlock | None = None,
    sample: Sample | None = None,
    *,
    number: int = 1,
    offset: int = 0,
) -> Generator[RawLine, None, tuple[int, int]]:
    """Yields the lines of a binary stream, in order, without ever holding more than a few MiB of it.

    Args:
        stream: what to read.
        take_block: offered each run of whole lines before they are split; lines that it takes are not yielded.
        sample: shown the first lines before any is offered or yielded.
        number: of the first line.
        offset: of the first line; elsewhere than at the beginning there is no byte order mark.

    Returns:
        Number and offset behind the last line.
    """
    pending = b""
    long: _LongLine | None = None
    to_show = sample.most if sample is not None else 0
    for piece, is_all in _with_end(_chunks(stream) if offset == 0 else _pieces(stream, b"")):
        chunk = piece
        if long is not None:
            cut = chunk.find(b"\n") + 1
            yield from long.feed(chunk[: cut - 1] if cut else chunk)
            if not cut:
                continue
            yield from long.finish(complete=True)
            number, offset, long = number + 1, long.end, None
            chunk = chunk[cut:]
        last = chunk.rfind(b"\n")
        if last >= 0:
            block = b"".join((pending, memoryview(chunk)[:last]))
            tail = chunk[last + 1 :]
            if sample is not None and number == 1 and _shown(block, tail if is_all else None, sample):
                to_show = 0
            for part in (block,) if number > to_show else _parts(block, to_show + 1 - number):
                count, lines = _block(part, number, offset, take_block if number > to_show else None)
                yield from lines
                number += count
                offset += len(part) + 1
            pending = tail
        else:
            pending += chunk
        if len(pending) > LONG:
            long = _LongLine(number, offset)
            yield from long.feed(pending)
            pending = b""
    if long is None and pending:
        long = _LongLine(number, offset)
        yield from long.feed(pending)
    if long is not None:
        yield from long.finish(complete=False)
        return number + 1, long.end
    return number, offset


def _shown(block: bytes, tail: bytes | None, sample: Sample) -> bool:
    """Shows the first lines of a file, if there are enough of them in the first block.

    Args:
        block: whole lines.
        tail: what stands behind the block in a file that has no more; None when there is more to read.
        sample: who wants to see them.
    """
    head, rest = (*_parts(block, sample.most), b"")[:2]
    if not rest:
        if tail is None:
            return False
        head += b"\n" + tail if tail else b""
    lines = _block(head, 1, 0, None)[1]
    return sample.look([line.text for line in itertools.islice(lines, sample.most)])


def _parts(block: bytes, count: int) -> Iterator[bytes]:
    """The first lines of a block, so many of them, then the others."""
    at = -1
    for _ in range(count):
        at = block.find(b"\n", at + 1)
        if at < 0:
            yield block
            return
    yield block[:at]
    yield block[at + 1 :]


def clean(text: str) -> str:
    """Removes terminal escape sequences and NULs, and writes other control characters as hexadecimal escapes."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if "\0" in text:
        text = text.replace("\0", "")
    return _HIDDEN.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _chunks(stream: Readable) -> Iterator[bytes]:
    """The stream's bytes in pieces, as UTF-8: a byte order mark comes off, and UTF-16 is re-coded."""
    first = _read(stream)
    for mark, encoding in _BOMS:
        if first.startswith(mark):
            if encoding == "utf-8":
                # the mark stays out of the text but in the offsets: it is blanked by NULs, which `clean` drops
                first = b"\0" * len(mark) + first[len(mark) :]
                break
            yield from _recode(first[len(mark) :], stream, encoding)
            return
    yield from _pieces(stream, first)


def _with_end(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The pieces, each with whether it is known that there is no other one."""
    first = next(pieces, b"")
    if len(first) < CHUNK:
        try:
            second = next(pieces, b"")
        except Exception:
            # what can be read of a damaged file is read
            yield first, False
            raise
        pieces = itertools.chain((second,), pieces) if second else pieces
        yield first, not second
    else:
        yield first, False
    del first
    yield from ((piece, False) for piece in pieces)


def _pieces(stream: Readable, piece: bytes) -> Iterator[bytes]:
    piece = piece or _read(stream)
    while piece:
        yield piece
        piece = _read(stream)


def _read(stream: Readable) -> bytes:
    """One chunk; a short first read (the two bytes of a pipe) is filled up so that a byte order mark is seen whole."""
    piece = stream.read(CHUNK)
    while 0 < len(piece) < len(codecs.BOM_UTF8):
        more = stream.read(CHUNK)
        if not more:
            break
        piece += more
    return piece


def _recode(first: bytes, stream: Readable, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    piece = first
    while piece:
        yield decoder.decode(piece).encode("utf-8", "replace")
        piece = stream.read(CHUNK)
    tail = decoder.decode(b"", final=True)
    if tail:
        yield tail.encode("utf-8", "replace")


class Lines(NamedTuple):
    """Lines of a block of which each is one logical line at least, none is cut, and all are complete.

    Attributes:
        texts: as those of `RawLine`.
        numbers, offsets, ends: likewise.
    """

    texts: list[str]
    numbers: Sequence[int]
    offsets: Sequence[int]
    ends: Sequence[int]

    def raw(self, index: int) -> RawLine:
        """One of them."""
        return RawLine(self.numbers[index], self.offsets[index], self.texts[index], self.ends[index])


def lines_of(block: bytes, number: int, offset: int, rest: Rest | None = None) -> Lines | None:
    """The lines of a block as columns; None when some are odd.

    Args:
        block: as for `split_block`.
        number: of its first line.
        offset: of its first line.
        rest: the lines that are wanted; None for all.
    """
    if rest is None:
        texts, sizes, is_odd = _texts(block)
        ends = list(map(operator.add, itertools.accumulate(sizes, initial=offset), range(len(sizes) + 1)))
        return None if is_odd else Lines(texts, range(number, number + len(sizes)), ends, ends[1:])
    texts, _, is_odd = _texts(b"\n".join([block[start:end] for _, start, end in rest]))
    if is_odd:
        return None
    return Lines(
        texts,
        [number + index for index, _, _ in rest],
        [offset + start for _, start, _ in rest],
        [offset + end + 1 for _, _, end in rest],
    )


def split_block(block: bytes, number: int, offset: int) -> tuple[int, Iterable[RawLine]]:
    """How many lines a block of whole lines has (the newline of the last one taken off), and the lines.

    Args:
        block: at most a few MiB.
        number: of its first line.
        offset: of its first line.
    """
    return _block(block, number, offset, None)


def _block(block: bytes, number: int, offset: int, take_block: TakeBlock | None) -> tuple[int, Iterable[RawLine]]:
    """Whole lines (the newline of the last one taken off), their number first, cleaned together as far as possible."""
    taken = None if take_block is None else take_block(block, number, offset + len(block) + 1)
    if taken is not None:
        return taken[0], _left_over(block, number, offset, taken[1])
    texts, sizes, is_odd = _texts(block)
    # every line before it adds its bytes and one newline
    ends = list(map(operator.add, itertools.accumulate(sizes, initial=offset), range(len(sizes) + 1)))
    numbers = range(number, number + len(texts))
    made = map(_make, zip(numbers, ends, texts, ends[1:], itertools.repeat(True), itertools.repeat(False)))  # noqa: FBT003
    return len(sizes), _with_odd_lines(made, block, offset) if is_odd else made


def _texts(block: bytes) -> tuple[list[str], list[int], bool]:
    """The clean texts of whole lines, the bytes of each, and whether some have to be cut, or split once more."""
    plain = len(block.translate(None, _CONTROLS)) == len(block)
    returns = False
    if plain and block.isascii():
        texts = block.decode("ascii").split("\n")
        sizes = list(map(len, texts))
    else:
        text = _cleaned(block, plain=plain)
        returns = "\r" in text
        texts = text.split("\n")
        sizes = list(map(len, block.split(b"\n")))
    return texts, sizes, returns or max(sizes) > MAX_TEXT


def _left_over(block: bytes, number: int, offset: int, rest: Rest) -> Iterator[RawLine]:
    for index, start, end in rest:
        line = block[start:end]
        if end - start <= MAX_TEXT and line.isascii() and (text := line.decode("ascii")).isprintable():
            yield RawLine(number + index, offset + start, text, offset + end + 1)
        else:
            yield from _block(line, number + index, offset + start, None)[1]


def _cleaned(block: bytes, *, plain: bool) -> str:
    """A block of lines as clean text; the usual line ends of other systems become newlines."""
    text = block.decode("utf-8", "replace")
    if not plain:
        text = _ESCAPES.sub("", text) if "\x1b" in text else text
        text = text.replace("\0", "") if "\0" in text else text
        text = text.replace("\r\n", "\n") if "\r" in text else text
        # searching decoded text for rare characters is slow; the bytes tell whether there are any
        if "\x1b" in text or len(block.translate(None, _OTHER_CONTROLS)) != len(block):
            text = _HIDDEN_ASCII.sub(_visible, text)
        text = _LINE_ENDS.sub("", text) if "\r" in text else text
    return clean(text) if not text.isascii() and _HIDDEN_UTF8.search(block) else text


def _with_odd_lines(lines: Iterable[RawLine], block: bytes, start: int) -> Iterator[RawLine]:
    """The same lines, but the long ones cut and those with carriage returns in them split."""
    for line in lines:
        if line.end - line.offset - 1 > MAX_TEXT or "\r" in line.text:
            long = _LongLine(line.number, line.offset)
            yield from long.feed(block[line.offset - start : line.end - start - 1])
            yield from long.finish(complete=True)
        else:
            yield line


class _LongLine:
    """One physical line that comes in pieces: split at carriage returns, bounded, progress bars collapsed."""

    def __init__(self, number: int, offset: int) -> None:
        self.end = offset
        self._number = number
        self._offset = offset
        self._segment = b""
        self._cut = False
        self._progress: RawLine | None = None
        self._said = False

    def feed(self, piece: bytes) -> Iterator[RawLine]:
        """Takes some more bytes of the line (no newline among them)."""
        self.end += len(piece)
        *whole, rest = piece.split(b"\r")
        for segment in whole:
            self._extend(segment)
            yield from self._close()
        self._extend(rest)

    def finish(self, *, complete: bool) -> Iterator[RawLine]:
        """The line has ended."""
        self.end += complete
        ready = [*self._close()]
        if self._progress is not None:
            ready.append(self._progress)
        if not ready and not self._said:
            ready.append(RawLine(self._number, self._offset, "", self.end))
        yield from ready[:-1]
        if ready:
            yield ready[-1]._replace(end=self.end, complete=complete)
        elif not complete:
            # everything was said before the end came; the end itself still has to be told
            yield RawLine(self._number, self._offset, "", self.end, complete=False)

    def _extend(self, segment: bytes) -> None:
        room = MAX_TEXT - len(self._segment)
        self._cut = self._cut or len(segment) > room
        self._segment += segment[:room]

    def _close(self) -> Iterator[RawLine]:
        text = clean(self._segment.decode("utf-8", "replace"))
        line = RawLine(self._number, self._offset, text + CUT_MARK if self._cut else text, self.end, cut=self._cut)
        self._segment, self._cut = b"", False
        if not text.strip():
            return
        held, self._progress = self._progress, None
        if _PROGRESS.search(text) and not _WORTH_KEEPING.search(text):
            self._progress = line
            return
        if held is not None:
            self._said = True
            yield held
        self._said = True
        yield line
