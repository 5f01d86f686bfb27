"""The lines of NCCL's Inspector (2.28.3 and later): a JSON object for each operation that completed.

A job writes millions of them, so only the last operation of each kind is kept for every rank and communicator. What
hangs has not completed and is in none of them.
"""

from __future__ import annotations

import json
from typing import BinaryIO

from hangscope.expressions import expression
from hangscope.model import Event, Line, SourceRecord, Value
from hangscope.parse.columns import WriterKey, writer_key
from hangscope.parse.json_documents import Json, part, whole, word
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.records import dataclass
from hangscope.sources.decode import clean
from hangscope.sources.origin import hints
from hangscope.sources.sniff import Kind

KINDS = (Kind.JSON, Kind.TEXT)

_PROOF = expression(rb'"(?:coll_perf|p2p_perf)"\s*:')
_MOST_BYTES_A_LINE = 1 << 18
_MOST_KEPT = 1 << 17


@dataclass(slots=True)
class _Last:
    """The last operation of one kind of one rank in one communicator."""

    number: int
    done: int
    at: int
    offset: int
    text: bytes


def recognizes(head: bytes) -> bool:
    """Whether the file begins with such an object."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and _PROOF.search(head) is not None


def read(name: str, stream: BinaryIO, size: int) -> ParsedSource:
    """Reads all lines, and keeps the last ones."""
    last: dict[tuple[object, ...], _Last] = {}
    number = offset = bad = 0
    while line := stream.readline(_MOST_BYTES_A_LINE):
        number += line.endswith(b"\n") or not number or len(line) < _MOST_BYTES_A_LINE
        if line.strip():
            bad += not _take(last, line, number, offset)
        offset += len(line)
    writers: dict[WriterKey, WriterInfo] = {}
    events = []
    for one in sorted(last.values(), key=lambda one: one.at):
        event = _event(name, one)
        if event is not None:
            events.append(event)
            key = writer_key(event.line)
            writers.setdefault(key, WriterInfo(key)).note(event.line)
    record = SourceRecord(name, "inspector", number, size or offset, bad)
    return ParsedSource(record, events, writers=list(writers.values()), attempt=hints(name).attempt)


def _take(last: dict[tuple[object, ...], _Last], line: bytes, number: int, offset: int) -> bool:
    """Keeps one operation if it is the last of its kind so far; False when the line is none."""
    value = _load(line)
    header, perf = value.get("header"), value.get("coll_perf")
    if not isinstance(header, dict):
        return False
    if not isinstance(perf, dict):
        return isinstance(value.get("p2p_perf"), dict)
    sequence = whole(perf.get("coll_sn"))
    if sequence is None:
        return False
    key = (word(header.get("id"), 40), whole(header.get("rank")), word(perf.get("coll"), 40))
    known = last.get(key)
    if known is None and len(last) < _MOST_KEPT:
        last[key] = _Last(sequence, 1, number, offset, line)
    elif known is not None:
        known.done += 1
        if sequence >= known.number:
            known.number, known.at, known.offset, known.text = sequence, number, offset, line
    return True


def _load(line: bytes) -> Json:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _event(name: str, one: _Last) -> Event | None:
    value = _load(one.text)
    header, perf, meta = (part(value, key) for key in ("header", "coll_perf", "metadata"))
    stamp = whole(meta.get("dump_timestamp_us"), 1 << 62)
    raw = clean(one.text[:500].decode("utf-8", "replace")).strip()
    told = hints(name)
    line = Line(
        name,
        one.at,
        one.offset,
        raw,
        raw,
        rank=told.rank,
        rank_source="" if told.rank is None else "file-name",
        local_rank=told.local_rank,
        host=word(meta.get("hostname"), 100) or None,
        pid=whole(meta.get("pid"), 1 << 40),
        time=None if stamp is None else stamp / 1e6,
    )
    try:
        comm_hash = int(word(header.get("id"), 20), 16)
    except ValueError:
        comm_hash = None
    took = perf.get("coll_exec_time_us")
    fields: dict[str, Value] = {
        "comm_hash": comm_hash,
        "comm_name": word(header.get("comm_name"), 80) or None,
        "group_rank": whole(header.get("rank"), 1 << 24),
        "nranks": whole(header.get("n_ranks"), 1 << 24),
        "call": word(perf.get("coll"), 40),
        "sn": one.number,
        "size_bytes": whole(perf.get("coll_msg_size_bytes")),
        "took_us": float(took) if isinstance(took, int | float) and abs(took) < 1e15 else None,
    }
    return Event("inspector", "inspector_last", fields, line)
