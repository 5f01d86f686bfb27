"""RAS reports of NCCL in JSON (2.28.7 and later), and the events of its monitor (2.29 and later).

The reports of 2.28.7 to 2.28.9 lack a comma in the entries of missing ranks, so just those that matter are no JSON.
A file may hold several reports, other text around them, or the first part of one only.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import BinaryIO

from hangscope.expressions import expression
from hangscope.model import Event, Line, SourceRecord, Value
from hangscope.parse.columns import WriterKey
from hangscope.parse.json_documents import MOST_CHARS, Document, Json, Lines, find_documents, objects, part, whole, word
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.sources.decode import clean
from hangscope.sources.origin import hints
from hangscope.sources.sniff import Kind
from hangscope.sources.stamps import moment

KINDS = (Kind.JSON, Kind.TEXT)

_REPORT = expression(r'"(?:communicators_count"\s*:\s*\d|secondary_hash"\s*:\s*"|considered_dead"\s*:\s*[tf])')
_MONITOR = expression(r'"event"\s*:\s*"PEER_[A-Z_]+"')
_BEGINS = expression(
    r'\{\s*"(?:nccl_version|cuda_runtime_version|cuda_driver_version|communicators|communicators_count|ras|timestamp'
    r"|group|event|peer)\"\s*:"
)
# a blank makes room for the comma, so that what stands behind keeps its place
_MISSING_COMMA = expression(r'("nvml_dev"\s*:\s*-?\d{1,10})(?=\s)(\r?\n)?[ \t]?(\s*"status")')
_STAMP = expression(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d:\d\d:\d\d)")
_RANK = expression(r'"rank"\s*:')
_HASH = expression(r'"hash"\s*:')
_ERRORS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
"""ncclResult_t (nccl.h); 7 is "in progress"."""
_MOST_COUNTS = 64


def recognizes(head: bytes) -> bool:
    """Whether a file that begins like this holds a report or events of the monitor."""
    text = head.decode("utf-8", "replace")
    return _REPORT.search(text) is not None or _MONITOR.search(text) is not None


def read(name: str, stream: BinaryIO, size: int) -> ParsedSource:
    """Reads all reports and events of one file; what stands around them is read as lines."""
    text = _MISSING_COMMA.sub(r"\1,\2\3", stream.read(MOST_CHARS).decode("utf-8", "replace"))
    reader = _Reader(name, text)
    events: list[Event] = []
    documents = list(find_documents(text, _BEGINS))
    for document in documents:
        events += reader.events_of(document)
    cut = not events or any(document.cut for document in documents)
    lines = text.count("\n") + (not text.endswith("\n"))
    record = SourceRecord(name, "ras", lines, size or len(text), 0, "the JSON is cut off or damaged" if cut else None)
    info = WriterInfo(reader.key)
    for event in events:
        info.note(event.line)
    return _with_other_lines(ParsedSource(record, events, writers=[info], attempt=hints(name).attempt), text, documents)


def _with_other_lines(source: ParsedSource, text: str, documents: list[Document]) -> ParsedSource:
    """Adds what the text around the documents tells, if there is any."""
    pieces, at = [], 0
    for document in documents:
        pieces += [text[at : document.start], _blanked(text[document.start : document.end])]
        at = document.end
    rest = "".join([*pieces, text[at:]])
    if len(rest.strip()) < 20 or recognizes(rest.encode()):
        return source
    from hangscope.parse.reader import read_stream  # noqa: PLC0415 (the reader asks the formats: a cycle otherwise)

    other = read_stream(source.record.file, io.BytesIO(rest.encode()))
    source.events.extend(other.events)
    source.events.sort(key=lambda event: event.line.number)
    known = {writer.key for writer in source.writers}
    source.writers.extend(writer for writer in other.writers if writer.key not in known)
    source.dumps.extend(other.dumps)
    return source


def _blanked(text: str) -> str:
    """As many lines and bytes, with nothing in them: what stands behind keeps its place in the file."""
    return "\n".join(" " * len(line.encode("utf-8", "surrogatepass")) for line in text.split("\n"))


class _Reader:
    """Makes events of the documents of one file."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._lines = Lines(text)
        told = hints(name)
        source = "" if told.rank is None else "file-name"
        self.key = WriterKey(name, "", None, None, told.rank, source, told.local_rank)
        self._time: float | None = None

    def events_of(self, document: Document) -> Iterator[Event]:
        """The events of one report, or of one event of the monitor."""
        value = document.value
        self._time = _time(value.get("timestamp"))
        if isinstance(value.get("event"), str):
            yield from self._monitor(value, document.start)
            return
        places = _Places(self._text, document)
        version = word(value.get("nccl_version"), 40)
        fields: dict[str, Value] = {
            "version": version or None,
            "communicators": whole(value.get("communicators_count")),
        }
        yield self._event("ras_version", fields, document.start)
        for index, comm in enumerate(objects(value.get("communicators"))):
            yield from self._communicator(index, comm, places)
        timeouts = whole(part(value, "ras").get("timeouts_count"))
        if timeouts:
            yield self._event("ras_timeouts", {"timeouts": timeouts}, max(0, document.end - 1))

    def _communicator(self, index: int, comm: Json, places: _Places) -> Iterator[Event]:
        size = whole(comm.get("size"), 1 << 24)
        ranks, missing = objects(comm.get("ranks")), objects(comm.get("missing_ranks"))
        numbers = [whole(rank.get("rank")) for rank in (*ranks, *missing)]
        if size is not None and any(number is not None and number >= size for number in numbers):
            # 2.27.3 reports absurd ranks of communicators that are being destroyed
            return
        fields: dict[str, Value] = {
            "group_index": 0,
            "comm_index": index,
            "comm_hash": _hash(comm.get("hash")),
            "creator": word(comm.get("secondary_hash"), 80) or None,
            "nranks": size,
            "problem": _problem(ranks, missing),
        }
        yield self._event("ras_comm", fields, places.hash())
        for key in comm:
            if key == "ranks":
                for rank in ranks:
                    yield from self._rank(rank, places.rank())
            elif key == "missing_ranks":
                for rank in missing:
                    status = part(rank, "status")
                    fields = _process(rank)
                    fields["unresponsive"] = status.get("unresponsive") is True
                    fields["dead"] = status.get("considered_dead") is True
                    yield self._event("ras_rank_missing", fields, places.rank())

    def _rank(self, rank: Json, at: int) -> Iterator[Event]:
        status = part(rank, "status")
        known = list(part(rank, "collective_counts").items())[:_MOST_COUNTS]
        told = [(str(call)[:40], number) for call, value in known if (number := whole(value)) is not None]
        fields = _process(rank)
        fields["status"] = _state(status)
        fields["calls"] = tuple(call for call, _ in told)
        fields["counts"] = tuple(number for _, number in told)
        yield self._event("ras_rank", fields, at)
        error = next(
            (e for key in ("async_error", "init_state") if (e := _ERRORS.get(whole(status.get(key)) or 0))), None
        )
        if error is not None:
            yield self._event("ras_rank_error", {**_process(rank), "error": error}, at)

    def _monitor(self, value: Json, at: int) -> Iterator[Event]:
        peer = part(value, "peer")
        fields: dict[str, Value] = {
            "event": word(value.get("event"), 60),
            "process": whole(peer.get("pid"), 1 << 40),
            "node": word(peer.get("host")) or word(peer.get("addr")) or None,
            "gpus": ",".join(str(gpu) for gpu in _list(peer.get("cuda_devs"))[:16]) or None,
        }
        yield self._event("ras_monitor_event", fields, at)

    def _event(self, kind: str, fields: dict[str, Value], at: int) -> Event:
        raw = clean(self._lines.line_at(at))
        key = self.key
        line = Line(
            self._name,
            self._lines.number(at),
            self._lines.offset(at),
            raw.strip(),
            raw,
            rank=key.rank,
            rank_source=key.rank_source,
            local_rank=key.local_rank,
            time=self._time,
        )
        return Event("ras_json", kind, fields, line)


class _Places:
    """Where the communicators and ranks of one document stand, in order."""

    def __init__(self, text: str, document: Document) -> None:
        self._text = text
        self._end = document.end
        self._at = document.start

    def hash(self) -> int:
        """The place of the next communicator."""
        return self._next(_HASH)

    def rank(self) -> int:
        """The place of the next rank."""
        return self._next(_RANK)

    def _next(self, pattern: re.Pattern[str]) -> int:
        found = pattern.search(self._text, self._at, self._end)
        if found is not None:
            self._at = found.end()
            return found.start()
        return self._at


def _process(rank: Json) -> dict[str, Value]:
    cuda, nvml = whole(rank.get("cuda_dev"), 1 << 16), whole(rank.get("nvml_dev"), 1 << 16)
    gpu = None if cuda is None else f"{cuda}" if nvml in (None, cuda) else f"{cuda} (NVML {nvml})"
    return {
        "group_rank": whole(rank.get("rank"), 1 << 24),
        "process": whole(rank.get("pid"), 1 << 40),
        "node": word(rank.get("host")) or None,
        "gpu": gpu,
    }


def _problem(ranks: list[Json], missing: list[Json]) -> str:
    if missing:
        return "INCOMPLETE"
    counts = [rank.get("collective_counts") for rank in ranks]
    return "MISMATCH" if any(count != counts[0] for count in counts) else "OK"


def _state(status: Json) -> str:
    """The state as the text report names it (nccl/src/ras/client_support.cc)."""
    if status.get("abort_flag") is True:
        return "ABORT"
    if status.get("finalize_called") is True or status.get("destroy_flag") is True:
        return "FINALIZE"
    return "INIT" if whole(status.get("init_state")) == 7 else "RUNNING"


def _hash(value: object) -> int | None:
    try:
        return int(word(value, 20), 16)
    except ValueError:
        return None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _time(value: object) -> float | None:
    found = _STAMP.match(word(value))
    return moment(int(found[1]), int(found[2]), int(found[3]), found[4]) if found else None
