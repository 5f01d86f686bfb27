"""The error files of torchrun's workers (``@record``, torch 1.9 and later): an exception with its traceback, as JSON.

``{"message": {"message": "ValueError: ...", "extraInfo": {"py_callstack": "...", "timestamp": "1764436259"}}}``; other
tools write ``{"message": "...", "errorCode": 1}`` in its place. The traceback inside is read as if a log held it.
"""

from __future__ import annotations

import dataclasses
import io
import json
from typing import BinaryIO

from hangscope.model import Line, SourceRecord
from hangscope.parse.json_documents import part, whole, word
from hangscope.parse.source import ParsedSource
from hangscope.parse.tracebacks import MAX_MESSAGE_CHARS
from hangscope.sources.decode import clean
from hangscope.sources.sniff import Kind

KINDS = (Kind.JSON, Kind.TEXT)

_MOST_BYTES = 4 << 20
_MOST_CHARS = 1 << 20
_KEYS = frozenset({"message", "errorCode", "extraInfo", "timestamp"})
_PROOF = (b'"errorCode"', b'"extraInfo"', b'"py_callstack"')


def recognizes(head: bytes) -> bool:
    """Whether the file begins with an error, and with nothing else: lines of logs can be JSON with a message, too."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"{") or b'"message"' not in text[:200] or not any(proof in text for proof in _PROOF):
        return False
    first, _, rest = text.partition(b"\n")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        # longer than what is looked at, or printed over several lines
        return b'"extraInfo"' in text and b'"py_callstack"' in text
    return isinstance(value, dict) and value.keys() <= _KEYS and not rest.strip()


def read(name: str, stream: BinaryIO, size: int) -> ParsedSource:
    """Reads the error; a cut or damaged file becomes the record's `error`."""
    from hangscope.parse.reader import read_stream  # noqa: PLC0415 (the reader asks the formats: a cycle otherwise)

    data = stream.read(_MOST_BYTES)
    error = None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value, error = None, "the JSON is cut off or damaged"
    said, stack, time = _error(value)
    source = read_stream(name, io.BytesIO((stack or said).encode("utf-8", "replace")))
    raw = clean(data[:500].decode("utf-8", "replace").partition("\n")[0])
    last = next((event for event in reversed(source.events) if event.kind == "exception"), None)
    raised, _, message = said.partition(": ")
    if last is not None and message and str(last.fields.get("type")).rpartition(".")[2] == raised.rpartition(".")[2]:
        # of several lines, a traceback shows the end of none
        last.fields["message"] = message[:MAX_MESSAGE_CHARS]
    for event in source.events:
        event.line = _placed(event.line, raw, time)
    for writer in source.writers:
        writer.lines = 1
        writer.first_time = writer.last_time = time
        # the worker writes the file when the exception ends it: these are its last words
        writer.first_line = None
        writer.last_line = source.events[-1].line if source.events else None
    lines = data.count(b"\n") + 1
    record = SourceRecord(name, "worker-error", lines, size or len(data), 0, error)
    return dataclasses.replace(source, record=record, block_buffered=False)


def _error(value: object) -> tuple[str, str, float | None]:
    """Message, traceback ("" if there is none), and time of an error."""
    if not isinstance(value, dict):
        return "", "", None
    inner = value.get("message")
    holder = inner if isinstance(inner, dict) else value
    extra = part(holder, "extraInfo")
    stack = word(extra.get("py_callstack"), _MOST_CHARS)
    when = whole(extra.get("timestamp"), 1 << 40)
    if when is None:
        when = whole(value.get("timestamp"), 1 << 40)
    said = word(holder.get("message"), _MOST_CHARS)
    return said, stack if "Traceback" in stack else "", None if when is None else float(when)


def _placed(line: Line, raw: str, time: float | None) -> Line:
    """A line of the traceback where it stands in the file: all of it is one line."""
    return dataclasses.replace(line, number=1, offset=0, raw=raw, time=time)
