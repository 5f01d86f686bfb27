"""Reads ``py-spy dump --json``: an array of threads for each process, one array after another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from hangscope.expressions import expression
from hangscope.model import Frame, Line, ProcessDump, SourceRecord
from hangscope.parse.columns import writer_key
from hangscope.parse.json_documents import Json, Lines, whole
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.parse.stacks.builder import MAX_FRAMES, MAX_NAME, MAX_PATH, MAX_THREADS, Builder, Shelf
from hangscope.parse.stacks.headers import Headers
from hangscope.parse.stacks.reader import time_in
from hangscope.sources.decode import clean
from hangscope.sources.origin import hints
from hangscope.sources.sniff import Kind

KINDS = (Kind.JSON,)
MAX_CHARS = 64 << 20
TOOL = "py-spy"
_HEAD = expression(rb"\s*\[\s*\{")
_PROOF = (b'"owns_gil"', b'"os_thread_id"', b'"short_filename"', b'"thread_name"')
_BETWEEN = expression(r"[\s,]*")
# in the two blanks a level that py-spy prints, the name of a frame, not of a local variable
_FRAME_NAME = expression(r'^ {8}"name": ', re.MULTILINE)
_NO_ARRAY = "the JSON is cut off"


def recognizes(head: bytes) -> bool:
    """Whether the file begins with an array of threads."""
    return _HEAD.match(head) is not None and b'"frames"' in head and any(word in head for word in _PROOF)


def read(name: str, stream: BinaryIO, size: int) -> ParsedSource:
    """Reads all arrays; what a cut file still holds is kept."""
    text = stream.read(MAX_CHARS).decode("utf-8", "replace")
    shelf = Shelf()
    builder = Builder(shelf, Headers())
    lines = Lines(text)
    error = None
    try:
        for threads in _arrays(text):
            _take_process(builder, name, text, lines, threads)
    except (ValueError, RecursionError):
        error = _NO_ARRAY
    builder.end()
    count = text.count("\n") + (not text.endswith("\n"))
    dumps = [dump for dump in shelf.dumps if dump.threads]
    writers: dict[object, WriterInfo] = {}
    for dump in dumps:
        dump.time = time_in(name)
        key = writer_key(dump.line)
        writers.setdefault(key, WriterInfo(key)).note(dump.line)
    record = SourceRecord(name, "stacks", count, size or len(text), 0, error)
    return ParsedSource(record, writers=list(writers.values()), attempt=hints(name).attempt, dumps=dumps)


def _arrays(text: str) -> Iterator[list[tuple[int, int, Json]]]:
    """The objects of each array with their places; those of a cut array come before the error."""
    decoder = json.JSONDecoder()
    at = text.find("[")
    while at >= 0:
        found = list[tuple[int, int, Json]]()
        at += 1
        while True:
            at = _skip(text, at)
            if text[at : at + 1] == "]":
                break
            try:
                value, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                yield found
                raise
            if isinstance(value, dict) and len(found) < MAX_THREADS:
                found.append((at, end, value))
            at = end
        yield found
        at = text.find("[", at)


def _skip(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _take_process(builder: Builder, name: str, text: str, lines: Lines, threads: list[tuple[int, int, Json]]) -> None:
    """One process, or several when somebody joined their arrays: the threads name theirs."""
    dumps: dict[int | None, ProcessDump] = {}
    for begin, end, thread in threads:
        line = _line(name, text, begin, lines)
        pid = whole(thread.get("pid"))
        if pid not in dumps or builder.dump is not dumps[pid]:
            dumps[pid] = builder.begin(TOOL, line, pid)
        _take_thread(builder, line, text[begin:end], thread)
    builder.end()


def _line(name: str, text: str, at: int, lines: Lines) -> Line:
    told = hints(name)
    raw = clean(text[at : text.find("\n", at) if "\n" in text[at : at + MAX_PATH] else at + MAX_PATH])
    source = "" if told.rank is None else "file-name"
    number, offset = lines.number(at), lines.offset(at)
    return Line(name, number, offset, raw, raw, rank=told.rank, rank_source=source, local_rank=told.local_rank)


def _take_thread(builder: Builder, line: Line, text: str, thread: Json) -> None:
    number = whole(thread.get("os_thread_id"))
    shown = str(number) if number is not None else hex(whole(thread.get("thread_id"), 1 << 64) or 0)
    made = builder.thread(line, shown, _text(thread.get("thread_name")))
    made.activity = "active" if thread.get("active") is True else "idle"
    made.gil = thread.get("owns_gil") is True
    frames = thread.get("frames")
    frames = [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    places = _places(text, line.number, len(frames))
    for frame, at in zip(frames[:MAX_FRAMES], places, strict=False):
        file = _text(frame.get("filename")) or _text(frame.get("module"))
        native = isinstance(frame.get("module"), str)
        function = _text(frame.get("name"))[:MAX_NAME]
        builder.frame(Frame(function, file[-MAX_PATH:] or None, whole(frame.get("line")) or None, native, at))
        variables = frame.get("locals")
        for variable in variables if isinstance(variables, list) else ():
            if isinstance(variable, dict):
                builder.value(_text(variable.get("name")), _text(variable.get("repr")))


def _places(text: str, number: int, frames: int) -> list[int | None]:
    """The line of each frame's name, if the text is printed as py-spy does."""
    places: list[int | None] = []
    counted = 0
    for found in _FRAME_NAME.finditer(text):
        number, counted = number + text.count("\n", counted, found.start()), found.start()
        places.append(number)
    return places if len(places) == frames else [None] * frames


def _text(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""
