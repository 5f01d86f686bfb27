"""PyTorch's flight-recorder dumps: pickle, JSON, and the pages of torch's debug server that hold such JSON."""

from __future__ import annotations

import re
from array import array
from typing import BinaryIO

from hangscope.expressions import expression
from hangscope.model import SourceRecord
from hangscope.parse.recorder.columns import build_recording
from hangscope.parse.recorder.recording import Recording
from hangscope.parse.recorder.unpickle import MOST_BYTES, BrokenDumpError, bounded, load_pickle
from hangscope.parse.recorder.unwrap import FoundDump, find_dumps, find_page_dumps, load_json
from hangscope.parse.source import ParsedSource, recording_writer
from hangscope.sources.origin import hints
from hangscope.sources.sniff import Kind

KINDS = (Kind.PICKLE, Kind.JSON, Kind.TEXT)
NAME = "flight-recorder"

_PICKLE = b"\x80"
_PIECE = 1 << 20
_KEYS = expression(rb'"(?:pg_config|pg_status|profiling_name|collective_seq_id|time_created_ns|time_created_us)"\s*:')
_ENTRIES = expression(rb'"entries"\s*:\s*\[.*"version"\s*:\s*"\d|"version"\s*:\s*"\d.*"entries"\s*:\s*\[', re.DOTALL)
_PAGE = expression(rb"^=== Rank \d+: [^\n]*(?:fr_trace|nccl_trace)_?json", re.MULTILINE)


def recognizes(head: bytes) -> bool:
    """Whether a file that begins like this is a flight recorder's. Every pickle is read: no other may be."""
    if head.startswith(_PICKLE):
        return True
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _KEYS.search(head) is not None or _ENTRIES.search(head) is not None
    return _PAGE.search(head) is not None


def read(name: str, stream: BinaryIO, size: int) -> ParsedSource:
    """Reads the dumps of one file; what is wrong with it becomes the record's `error`."""
    data = _read_all(stream)
    if len(data) > MOST_BYTES:
        reason = f"larger than {MOST_BYTES >> 20} MiB: no flight recorder's dump is"
        return ParsedSource(SourceRecord(name, NAME, 0, size, 0, reason))
    try:
        with bounded(len(data)):
            recordings = _recordings(name, data)
    except BrokenDumpError as error:
        return ParsedSource(SourceRecord(name, NAME, 0, size or len(data), 0, str(error)))
    except (MemoryError, RecursionError):
        reason = "refused: it would take far more memory than a flight recorder's dump"
        return ParsedSource(SourceRecord(name, NAME, 0, size or len(data), 0, reason))
    lines = data.count(b"\n") + 1 if data[:1] != _PICKLE else 0
    record = SourceRecord(name, NAME, lines, size or len(data), 0)
    return ParsedSource(record, writers=[recording_writer(r) for r in recordings], recordings=recordings)


def _read_all(stream: BinaryIO) -> bytes:
    """The whole file, or a little more than is allowed. In pieces: one read of the limit would allocate all of it."""
    pieces, left = [], MOST_BYTES + 1
    while left > 0 and (piece := stream.read(min(_PIECE, left))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _recordings(name: str, data: bytes) -> list[Recording]:
    is_pickle = data[:1] == _PICKLE
    if is_pickle:
        dumps = find_dumps(load_pickle(data))
    elif data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        dumps = find_dumps(load_json(data))
    else:
        dumps = find_page_dumps(data.decode("utf-8", "replace"))
    if not dumps:
        raise BrokenDumpError("a pickle, but no flight recorder's dump" if is_pickle else "no flight recorder's dump")
    named = hints(name).rank if len(dumps) == 1 else None
    found = [build_recording(name, named if named is not None else dump.rank, dump) for dump in dumps]
    if not is_pickle:
        _number_lines(found, dumps, data)
    return found


def _number_lines(recordings: list[Recording], dumps: list[FoundDump], data: bytes) -> None:
    """Gives entries of JSON the line of their operation's name, or 1 where all stands in one line."""
    total = sum(len(recording) for recording in recordings)
    if total != sum(len(dump.entries) for dump in dumps) or total != data.count(b'"profiling_name"'):
        return
    at, line = 0, 1
    for recording in recordings:
        numbers = array("I")
        for _ in range(len(recording)):
            found = data.find(b'"profiling_name"', at)
            line += data.count(b"\n", at, found)
            at = found + 1
            numbers.append(line)
        recording.lines = numbers
