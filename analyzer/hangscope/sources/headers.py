"""Recognizes the headers that NCCL, PyTorch and Python's logging put in front of their messages."""

from __future__ import annotations

import re

from hangscope.expressions import expression
from hangscope.records import dataclass
from hangscope.sources.stamps import moment
from hangscope.sources.writer import Writer

# NCCL's own marker. Between it and the line's start stands host:pid:tid [dev] and, for all but INFO, file:line.
# RCCL keeps the word NCCL; CCOM is a vendor's fork (it prints no host).
_MARKER = expression(r"(?:NCCL|CCOM|RCCL) (?P<level>INFO|WARN|ATTN|TRACE|CALL|ABORT|DIAG)(?![A-Z_]) ?")
_WINDOW = 400
_IDS = expression(r"(?:(?P<pid>\d{1,10}):(?P<tid>\d{1,10})|(?<=:)(?P<only>\d{1,10})) (?:\[(?P<dev>-?\d+)\] )?")
# a header torn within "NCCL INFO" ends where the next line's host begins
_HOST_END = expression(r"(?:(?<!\S)(?:NCCL|INFO|WARN)(?=[a-z\d]))?(?P<host>[^\s:\[\]]{0,128}):$")
# file.cc:123 (func), or a plugin's function with its signature in the file slot; TRACE has a time before it
_PLACE = expression(r"(?P<file>\S.*?:\d+)(?: \([^)]*\))? ")
_TORN_HEAD = expression(r".{0,40}?(?:^|[\s\d])\[-?\d+\] (?:(?P<file>\S{1,300}:\d+)(?: \([^)]*\))? )?$")
# reports often leave out host and process, or a launcher's prefix took the device's number
_BARE_PLACE = expression(r"(?P<file>[\w./+-]{1,300}\.(?:cc|cu|cpp|c|h|hpp):\d+)(?: \([^)]*\))? ")
# NCCL before 2.3 printed no NCCL in front of the level
_OLD_NCCL = expression(
    r"(?P<host>[^\s:\[\]]{1,128}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) \[(?P<dev>-?\d+)\] "
    r"(?:(?P<place>\S+:\d+) )?(?P<level>INFO|WARN) "
)

_C10 = expression(
    r"(?P<rank>\[rank(?P<number>\d{1,6})\]: ?)?"
    r"\[(?P<level>[DIWEFCV])(?:(?P<month>\d{1,2})(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)\.\d{9})? "
    r"(?P<origin>[\w./-]{1,200}\.(?:cpp|cc|cu|h|hpp|cuh):\d+)\] "
)
_GLOG = expression(
    r"(?<!\[)(?P<level>[DIWEFC])(?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)\.(?P<frac>\d{6}) +"
    r"(?P<id>\d{1,20}) (?P<origin>[^\s\]]{1,200}:\d+)\](?: |$)"
)
_PYTHON_MID = expression(r"(?P<origin>[A-Za-z_][\w.]*): \[(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\] ")
_PYTHON_OLD = expression(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?P<origin>[A-Za-z_][\w.]*):")
_DEEPSPEED = expression(r"\[(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\] \[(?P<origin>[\w./-]+:\d+)(?::[\w<>]+)?\] ")
_VLLM = expression(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) +"
    r"(?:(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)? +)?"
    r"(?:\[(?P<origin>[\w./-]+\.py:\d+)\]|(?P<old>[\w./-]+\.py:\d+)\])(?: |$)"
)
_MAX_PID = 1 << 22
_BEGINS = frozenset("[DIWEC")
_AT_START = (("deepspeed", _DEEPSPEED), ("vllm", _VLLM), ("python", _PYTHON_OLD))


@dataclass(slots=True)
class Header:
    """One header found in a line: where it stands, and who it names."""

    start: int
    end: int
    writer: Writer
    torn: bool = False


def may_have_header(text: str, position: int) -> bool:
    """A cheap look whether `find_headers` or `start_header` can find one: in most lines they cannot."""
    return (
        text[position : position + 1] in _BEGINS
        or "CCL" in text
        or "CCOM " in text
        or ".h" in text
        or ".c" in text
        or ".py:" in text
        or "INFO " in text
        or "WARN " in text
    )


def may_have_host(text: str) -> bool:
    """A cheap look whether a header of NCCL can be in it, the only kind that names hosts; JSON may hide one."""
    return "CCL " in text or "CCOM " in text or "INFO " in text or "WARN " in text or text[:1] == "{"


def find_headers(text: str, position: int, before: Writer, year: int) -> list[Header]:
    """All NCCL, c10 and glog headers from `position` on, in order."""
    headers: list[Header] = []
    if "CCL " in text or "CCOM " in text:
        headers += _nccl_headers(text, position, before)
    if ".cpp:" in text or ".cc:" in text or ".cu:" in text or ".h" in text:
        headers += [_c10_header(found, before, year) for found in _C10.finditer(text, position)]
    if "] " in text and (".py:" in text or ".cpp:" in text or ".cc:" in text):
        headers += [_glog_header(found, before, year) for found in _GLOG.finditer(text, position)]
    if not headers and ("INFO " in text or "WARN " in text):
        old = _OLD_NCCL.match(text, position)
        if old:
            writer = _nccl_writer(before, old["level"], old["place"])
            writer.host, writer.pid, writer.tid = old["host"], int(old["pid"]), int(old["tid"])
            headers.append(Header(old.start(), old.end(), writer))
    if len(headers) > 1:
        headers.sort(key=lambda header: header.start)
    return headers


def start_header(text: str, position: int, writer: Writer, year: int) -> int:
    """Takes a header of Python's kinds off the start; returns where the message begins."""
    if writer.time is not None:
        found = _PYTHON_MID.match(text, position)
        if found:
            writer.header, writer.level, writer.origin = "python", found["level"], found["origin"]
            return found.end()
    # every kind begins with the name of its level; nearly all lines end here
    if text[position : position + 1] not in _BEGINS:
        return position
    for name, pattern in _AT_START:
        found = pattern.match(text, position)
        if not found:
            continue
        parts = found.groupdict()
        writer.header, writer.level, writer.origin = name, found["level"], parts["origin"] or parts.get("old") or ""
        if parts.get("clock"):
            writer.see_time(moment(year, int(parts["month"]), int(parts["day"]), parts["clock"]))
        return found.end()
    return position


def _nccl_headers(text: str, position: int, before: Writer) -> list[Header]:
    headers: list[Header] = []
    floor = position
    for found in _MARKER.finditer(text, position):
        header = _nccl_header(text, floor, found, before)
        if header is not None:
            headers.append(header)
            floor = found.end()
    return headers


def _nccl_header(text: str, floor: int, marker: re.Match[str], before: Writer) -> Header | None:
    """The header that ends in this marker, looked for backwards from it."""
    begin = max(floor, marker.start() - _WINDOW)
    window = text[begin : marker.start()]
    for ids in reversed(list(_IDS.finditer(window))):
        rest = window[ids.end() :]
        place = _PLACE.fullmatch(rest) if rest else None
        if rest and place is None:
            continue
        host = _HOST_END.search(window, max(0, ids.start() - 129), ids.start())
        single = ids["only"] is not None
        if (single and (host is None or marker["level"] != "DIAG")) or (host is None and ids["dev"] is None):
            continue
        start = host.start("host") if host else ids.start()
        writer = _nccl_writer(before, marker["level"], place["file"] if place else None)
        writer.host = (host["host"] if host else "") or writer.host
        writer.pid = int(ids["pid"] or ids["only"])
        writer.tid = int(ids["tid"]) if ids["tid"] else None
        return Header(begin + start, marker.end(), writer)
    if begin != floor:
        return None
    if bare := _BARE_PLACE.fullmatch(window):
        return Header(floor, marker.end(), _nccl_writer(before, marker["level"], bare["file"]))
    if torn := _TORN_HEAD.fullmatch(window):
        # the line begins in the middle of a header: its writer is unknown
        return Header(floor, marker.end(), _nccl_writer(before, marker["level"], torn["file"]), torn=True)
    return None


def _nccl_writer(before: Writer, level: str, place: str | None) -> Writer:
    writer = before.copy()
    writer.header, writer.level, writer.origin = "nccl", level, place or ""
    return writer


def _c10_header(found: re.Match[str], before: Writer, year: int) -> Header:
    writer = before.copy()
    writer.header, writer.level, writer.origin = "c10", found["level"], found["origin"]
    if found["clock"]:
        # the nine digits are a monotonic clock's nanoseconds, not this second's fraction
        writer.see_time(moment(year, int(found["month"]), int(found["day"]), found["clock"]))
    if found["number"] is not None:
        writer.rank, writer.rank_source = int(found["number"]), "rank-prefix"
        if writer.local_rank is None and writer.task is None:
            writer.add_stream(f"rank{found['number']}")
    return Header(found.start(), found.end(), writer)


def _glog_header(found: re.Match[str], before: Writer, year: int) -> Header:
    writer = before.copy()
    python = ".py:" in found["origin"]
    writer.header, writer.level, writer.origin = ("python" if python else "glog"), found["level"], found["origin"]
    # Python: milliseconds are real, and the number is a thread id up to torch 2.4, the process id from 2.5
    writer.see_time(moment(year, int(found["month"]), int(found["day"]), found["clock"], found["frac"]))
    number = int(found["id"])
    if python and number <= _MAX_PID:
        writer.pid = number
    else:
        writer.tid = number
    return Header(found.start(), found.end(), writer)
