"""Tables of processes as ps and top print them, in any choice and order of columns.

The header line names the columns (procps 3.3 to 4.0, busybox, docker top); only a column that holds a command can hold
blanks, and ``lstart`` a whole date.
"""

from __future__ import annotations

import re

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value

BEGINS = r"(?:F|S|UID|USER|PID|PPID|TID|SPID|LWP|RUSER|EUSER|STAT|COMMAND|CMD|COMM|%CPU|%MEM|PGID|NLWP|NI|PRI)\s"
KIND = "process_state"

_PIDS = ("PID", "TGID")
_COMMANDS = frozenset({"COMMAND", "CMD", "COMM", "ARGS", "UCMD", "UCOMM"})
_TELLING = frozenset({"STAT", "S", "WCHAN", "PPID", "TIME", "TIME+", "%CPU", "ELAPSED", "C", "ETIME", "ETIMES"})
_MOST_COLUMNS = 40
_MOST_COMMAND = 300
_LSTART = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"
_WORD = r"\S+"
_CELLS = {
    "PID": r"\d{1,10}",
    "TGID": r"\d{1,10}",
    "PPID": r"\d{1,10}",
    "TID": r"\d{1,10}|-",
    "SPID": r"\d{1,10}|-",
    "LWP": r"\d{1,10}|-",
    "STAT": r"[RSDTtZXIWPK][<NLslE+]*|-",
    "S": r"[RSDTtZXIWPK]|-",
    "STARTED": rf"{_LSTART}|[A-Z][a-z]{{2}} [ \d]\d|\S+",
    "START": r"[A-Z][a-z]{2} [ \d]\d|\S+",
    "%CPU": r"[\d.]+",
    "TIME": r"[\d:.\-]+[hms]?",
    "TIME+": r"[\d:.,h\-]+",
    "ELAPSED": r"[\d:\-]+",
}
_HEAD = expression(r"[A-Z%][A-Z%+_/]*")


def open_block(_line: Line, text: str) -> ProcessTable | None:
    """The table below a header line, if that names a process id, a command and something telling."""
    names = text.split()
    if not 3 <= len(names) <= _MOST_COLUMNS or not all(_HEAD.fullmatch(name) for name in names):
        return None
    seen = set(names)
    if not seen & set(_PIDS) or not seen & _COMMANDS or not seen & _TELLING:
        return None
    return ProcessTable(names)


class ProcessTable:
    """The rows below one header."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        cells = [self._cell(at, name) for at, name in enumerate(names)]
        self._row = re.compile(r"\s*" + r"\s+".join(cells) + r"\s*$")
        self._rows = 0

    def _cell(self, at: int, name: str) -> str:
        """What a cell can hold; the first column of a name counts."""
        group = f"?P<c{at}>"
        if name in _COMMANDS:
            last = at == len(self._names) - 1
            # a name in front of other columns may hold blanks, but is short
            return f"({group}.*)" if last else rf"({group}\S.{{0,63}}?)"
        return f"({group}{_CELLS.get(name, _WORD)})"

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """The process of one row."""
        found = self._row.match(text)
        if found is None:
            # a blank line between header and rows, or between two tables of top
            return [] if not text.strip() and not self._rows else None
        self._rows += 1
        cells: dict[str, str] = {}
        for at, name in enumerate(self._names):
            cells.setdefault(name, found[f"c{at}"])
        return [Event("ps", KIND, _fields(cells), line)]

    def end(self) -> list[Event]:
        """Nothing: every row was told."""
        return []


def _fields(cells: dict[str, str]) -> dict[str, Value]:
    command = next((cells[name] for name in ("ARGS", "COMMAND", "CMD", "COMM", "UCMD", "UCOMM") if name in cells), "")
    thread = next((cells[name] for name in ("TID", "SPID", "LWP") if name in cells), "")
    wchan = cells.get("WCHAN", "")
    return {
        "process": int(next(cells[name] for name in _PIDS if name in cells)),
        "parent": _number(cells.get("PPID", "")),
        "thread": _number(thread),
        "process_state": _known(cells.get("STAT") or cells.get("S", "")),
        "wchan": None if wchan in ("", "-", "0", "*", "?") else wchan,
        "cpu_time": _known(cells.get("TIME") or cells.get("TIME+", "")),
        "cpu_percent": _share(cells.get("%CPU", "")),
        "elapsed": _known(cells.get("ELAPSED", "")),
        "command": command.strip()[:_MOST_COMMAND],
    }


def _known(text: str) -> str | None:
    return None if text in ("", "-") else text


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= 10 else None


def _share(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
