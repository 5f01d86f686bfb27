"""Reads the lines that people and scripts put in front of a dump: whose it is, on which host, and when."""

from __future__ import annotations

import re
from collections import deque

from hangscope.expressions import expression
from hangscope.model import Line
from hangscope.records import dataclass
from hangscope.sources.origin import hints
from hangscope.sources.stamps import moment, month_number

MAX_LENGTH = 300
_LOOK_BACK = 4

_RANK = expression(
    r"(?<![A-Za-z_])(?<!local[ -])(?<!node[ -])(?<!group[ -])(?:global[ _-]?)?rank\s{0,3}[=:#_-]?\s{0,3}(\d{1,7})\b",
    re.IGNORECASE,
)
_PID = expression(r"(?<![A-Za-z_])(?:pid|process(?: id)?)\s{0,3}[=:#]?\s{0,3}\(?(\d{1,10})\b", re.IGNORECASE)
_COMMAND = expression(r"(?:^|[\s/;(\[])(?:py-spy|pystack|gdb|cuda-gdb|pstack|gstack|eu-stack)\s(?P<arguments>.*)")
_COMMAND_PID = expression(
    r"(?:^|\s)(?:-p|--pid|attach|remote|-p=|--pid=)[\s=]{0,2}(\d{1,10})\b|\s(\d{2,10})\s*(?:$|[>|;&\]])"
)
_HOST = expression(
    r"https?://(?P<url>[A-Za-z][\w.-]*)(?=[:/\s])|(?<![A-Za-z_-])host(?:name)?\s{0,3}[=:]?\s{0,3}(?P<host>[A-Za-z][\w.-]*)"
    r"|(?<![A-Za-z_-])(?:node|machine|pod)\s{0,3}[=:]?\s{0,3}(?P<named>[A-Za-z][\w.-]*\d[\w.-]*|(?<=[=:])[A-Za-z][\w.-]*)"
    r"|@(?P<at>[A-Za-z][\w.-]*)"
    r"|\bon (?P<on>[A-Za-z][\w.-]*[\d-][\w.-]*)|\((?P<inside>[A-Za-z][\w.-]*\d)\)",
    re.IGNORECASE,
)
_WORD = expression(r"[A-Za-z][\w.-]*")
# ps aux: user, pid, %cpu, %mem, vsz, rss, tty, stat, start, time, command
_RAY = expression(
    r"Stack dump for (?:\S+\s+(?P<pid>\d+)\s+[\d.]+\s+[\d.]+\s+\d+\s+\d+\s+(?:\S+\s+){4}(?P<command>.*))?"
)
_DECORATED = expression(
    r"\s*(?:={2,}|-{2,}|#+|\*{2,}|>{2,}|<{2,}|:{2,}|%{2,}|\+{1,3} |\$ |\|\s)"
    r"|.*(?:={2,}|-{2,}|#{2,}|\*{2,}|<{2,}|>{2,})\s*$"
)
_FILE = expression(r"==> (?P<file>.+) <==|:{4,}|(?P<bare>^[\w./-]+\.(?:txt|log|out|err)):?$")
# what log lines have and headers do not
_NO_HEADER = expression(r"[\[\]{}'\"%]|\d\.\d")
_RULE = expression(r"[\s=#*~+_:<>|-]*$")
_ISO = expression(r"(20\d\d)-(\d\d)-(\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?")
# date(1), in the two orders of its locales
_DATE = expression(
    r"(?:\b[A-Z][a-z]{2},? {1,2})?(?:\b(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2})"
    r"|\b(?P<day2>\d{1,2}) (?P<month2>[A-Z][a-z]{2}) (?P<year2>20\d\d)),? (?P<clock>\d\d:\d\d:\d\d)"
    r"(?P<half> [AP]M)?(?: [A-Z]{3,5})?(?: (?P<year>20\d\d)\b)?"
)
# words of which a header may consist besides the names and numbers
_FILLER = frozenset(
    [
        "a",
        "all",
        "at",
        "backtrace",
        "current",
        "date",
        "debug",
        "dump",
        "dumping",
        "dumps",
        "for",
        "from",
        "global",
        "gpu",
        "host",
        "hostname",
        "local_rank",
        "localhost",
        "id",
        "local",
        "main",
        "node",
        "node_rank",
        "of",
        "on",
        "pid",
        "process",
        "processes",
        "proc",
        "ps",
        "py",
        "pyspy",
        "spy",
        "pystack",
        "gdb",
        "lldb",
        "python",
        "rank",
        "round",
        "server",
        "snapshot",
        "stack",
        "stacks",
        "stacktrace",
        "the",
        "thread",
        "threads",
        "time",
        "trace",
        "traceback",
        "worker",
        "world",
        "collecting",
        "attaching",
    ]
)


@dataclass(frozen=True, slots=True)
class Header:
    """What a line in front of a dump says; None and "" for what it does not say."""

    rank: int | None = None
    pid: int | None = None
    host: str | None = None
    time: float | None = None
    command: str = ""

    def over(self, other: Header) -> Header:
        """This header, completed by another one further away."""
        return Header(
            self.rank if self.rank is not None else other.rank,
            self.pid if self.pid is not None else other.pid,
            self.host or other.host,
            self.time if self.time is not None else other.time,
            self.command or other.command,
        )


NOTHING = Header()


class Headers:
    """The last lines of a stream, and what they say when a dump follows.

    A header that names neither rank nor process (``==== node02 ====``, the output of date) is a section's: it holds
    for all dumps up to the next such line.
    """

    def __init__(self) -> None:
        self._recent: deque[Line] = deque(maxlen=_LOOK_BACK)
        self._given: tuple[int, Header] | None = None
        self._section = NOTHING

    def see(self, line: Line) -> None:
        """A line that belongs to no dump."""
        self._recent.append(line)

    def give(self, header: Header, line: Line) -> None:
        """What the header of the dump behind this line says, for readers that know their headers themselves."""
        self._given = (line.number, header)

    def take(self, line: Line) -> Header:
        """What the header of the dump that begins with this line says; it is used up."""
        found = NOTHING
        if self._given is not None and line.number - self._given[0] <= 2 * _LOOK_BACK:
            found = self._given[1]
        while self._recent:
            before = self._recent.pop()
            if before.number < line.number - 2 * _LOOK_BACK:
                break
            header = read_header(before.text)
            if header is None:
                break
            if header.time is None and before.time is not None and line.time is None:
                header = header.over(Header(time=before.time))
            if header.rank is None and header.pid is None and header != NOTHING:
                self._section = header.over(Header(time=self._section.time, host=self._section.host))
            found = found.over(header)
        self._recent.clear()
        self._given = None
        return found.over(Header(host=self._section.host, time=self._section.time))


def read_header(text: str) -> Header | None:
    """What a line says about the dump behind it; None when it is no such line."""
    if text.startswith("Stack dump for ") and (ray := _RAY.match(text)):
        return Header(pid=_number(ray["pid"]), command=ray["command"] or "")
    if len(text) > MAX_LENGTH:
        return None
    if _RULE.match(text):
        return NOTHING
    command = _COMMAND.search(text)
    pid = _command_pid(command["arguments"]) if command else None
    named = _FILE.match(text)
    if named and (named["file"] or named["bare"]):
        told = hints(named["file"] or named["bare"])
        return Header(told.rank, told.pid, told.host)
    found_pid, found_rank = _PID.search(text), _RANK.search(text)
    rank = _number(found_rank[1]) if found_rank else None
    pid = pid if pid is not None else _number(found_pid[1]) if found_pid else None
    decorated = _DECORATED.match(text) is not None
    time = _time(text)
    if not (decorated or (command and pid is not None) or _is_bare(text)):
        return None
    return Header(rank, pid, _host(text), time)


def _command_pid(arguments: str) -> int | None:
    found = _COMMAND_PID.search(arguments)
    return _number(found[1] or found[2]) if found else None


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _host(text: str) -> str | None:
    for found in _HOST.finditer(text):
        name = next(part for part in found.groups() if part is not None)
        if name.lower() not in _FILLER and not _RANK.match(name):
            return name.rstrip(".-")
    words = (word for word in _WORD.findall(text) if word.lower() not in _FILLER)
    return next((host for word in words if (host := hints(word).host) is not None), None)


def _is_bare(text: str) -> bool:
    """Whether a line says nothing but who and when: ``rank 3:``, ``Pyspy dump for PID 88693:``, ``node02``."""
    if _NO_HEADER.search(text):
        return False
    rest = _DATE.sub(" ", _ISO.sub(" ", text))
    known = rest != text
    rest = _PID.sub(" ", _RANK.sub(" ", rest))
    known = known or rest != text
    for word in _WORD.findall(rest):
        if hints(word).host is not None:
            known = True
        elif word.lower().strip(".-_") not in _FILLER and not (word == word.upper() and len(word) < 5):
            # a header may name its host in ways that no list knows: "host: alpha"
            if not re.search(rf"(?:host(?:name)?|node|on|@)[ =:(]+{re.escape(word)}", rest):
                return False
            known = True
    return known


def _time(text: str) -> float | None:
    iso = _ISO.search(text)
    if iso:
        return moment(int(iso[1]), int(iso[2]), int(iso[3]), iso[4], iso[5] or "")
    date = _DATE.search(text)
    year = date and (date["year"] or date["year2"])
    if not date or not year:
        return None
    time = moment(
        int(year), month_number(date["month"] or date["month2"]), int(date["day"] or date["day2"]), date["clock"]
    )
    if time is None or not date["half"]:
        return time
    # twelve o'clock is the first hour of its half
    hour = int(date["clock"][:2])
    return time + (12 * 3600 if date["half"] == " PM" else 0) - (12 * 3600 if hour == 12 else 0)
