"""The tables of nvidia-smi: its summary, its list of processes, and ``--query-gpu=... --format=csv``."""

from __future__ import annotations

import re

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value

BEGINS = (
    r"\|\s+\d{1,3}\s|(?:index|name|uuid|pci\.bus_id|gpu_bus_id|gpu_uuid|timestamp|utilization\.|power\.|temperature\.|"
    r"memory\.|ecc\.)[\w.]*[ ,\[]"
)

_SUMMARY = expression(
    r"\|\s+(\d{1,3})\s.*\|\s+([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s+\S+\s+\|\s+(\S+)\s+\|\s*$"
)
# names are cut with dots where they do not fit; "On", "Off" or "N/A" is the persistence mode behind them
_MODEL = expression(r"\|\s+\d{1,3}\s+(\S.*?)\s+(?:On|Off|N/A)\s+\|")
_LOAD = expression(r"\|.*?(?:(\d{1,4})W\s*/\s*(\d{1,4})W)?\s*\|[^|]*\|\s+(\d{1,3})%\s.*\|\s*$")
_PROCESS = expression(r"\|\s+(\d{1,3})\s+(?:\S+\s+\S+\s+)?(\d{1,10})\s+([CGM+]+)\s+(\S.*?)\s+\d+\s*MiB\s*\|\s*$")
_NUMBER = expression(r"\s*(\d{1,9}(?:\.\d{1,4})?)\s*(?:%|W|MiB|C)?\s*$")
_COLUMNS = {
    "index": "gpu_index",
    "utilization.gpu": "used_percent",
    "power.draw": "power_w",
    "power.draw.instant": "power_w",
    "power.limit": "limit_w",
}
_UNCORRECTED = expression(r"ecc\.errors\.uncorrected\.volatile\.(?:total|dram|sram)")
_BUS = ("pci.bus_id", "gpu_bus_id")
_PID = "pid"
_MOST_COLUMNS = 100


def open_block(line: Line, text: str) -> SummaryRow | ProcessRow | CsvTable | None:
    """The row or table that this line opens."""
    if text.lstrip().startswith("|"):
        if found := _PROCESS.match(text):
            fields: dict[str, Value] = {"gpu_index": int(found[1]), "process": int(found[2]), "command": found[4]}
            return ProcessRow(Event("nvidia-smi", "smi_process", fields, line))
        found = _SUMMARY.match(text)
        return SummaryRow(line, found) if found and "ERR!" not in text else None
    names = [name.partition("[")[0].strip() for name in text.split(",")]
    known = any(name in _COLUMNS or name in _BUS for name in names)
    return CsvTable(names) if known and 2 <= len(names) <= _MOST_COLUMNS else None


class ProcessRow:
    """One process of the list."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def feed(self, _line: Line, _text: str) -> list[Event] | None:
        """The row is all there is."""
        return None

    def end(self) -> list[Event]:
        """The process."""
        return [self._event]


class SummaryRow:
    """The two lines of one GPU in the summary."""

    def __init__(self, line: Line, found: re.Match[str]) -> None:
        self._line = line
        self._fields: dict[str, Value] = {"gpu_index": int(found[1]), "bus": found[2].lower()}
        if model := _MODEL.match(found[0]):
            self._fields["model"] = model[1]
        self._wrong = found[3] if found[3].isdecimal() and int(found[3][:9]) else ""
        self._more = False

    def feed(self, _line: Line, text: str) -> list[Event] | None:
        """The line with load and power."""
        found = None if self._more else _LOAD.match(text)
        self._more = True
        if found is None:
            return None
        self._fields["used_percent"] = float(found[3])
        if found[1]:
            self._fields["power_w"], self._fields["limit_w"] = float(found[1]), float(found[2])
        return []

    def end(self) -> list[Event]:
        """The GPU, and uncorrected errors of its memory."""
        events = [Event("nvidia-smi", "smi_gpu", self._fields, self._line)]
        if self._wrong:
            events.append(_memory_errors(self._fields, self._wrong, self._line))
        return events


class CsvTable:
    """Rows below a header of comma separated names."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._rows = 0

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """The GPU of one row; rows are in the order of the GPUs."""
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) != len(self._names) or not any(cells):
            return None
        row = dict(zip(self._names, cells, strict=True))
        fields: dict[str, Value] = {"bus": next((row[name].lower() for name in _BUS if name in row), None)}
        for name, field in _COLUMNS.items():
            number = _NUMBER.match(row.get(name, ""))
            if number:
                fields[field] = int(float(number[1])) if field == "gpu_index" else float(number[1])
        pid = row.get(_PID, "")
        if pid.isdecimal() and len(pid) <= 10:
            fields["processes"] = (int(pid),)
        elif "gpu_index" not in fields and "used_percent" in fields:
            fields["gpu_index"] = self._rows
        self._rows += 1
        # with a pid, the name is that of the process
        if model := row.get("gpu_name", "" if _PID in row else row.get("name", "")):
            fields["model"] = model[:80]
        wrong = next(
            (row[name] for name in self._names if _UNCORRECTED.match(name) and row[name].strip("0").isdecimal()), ""
        )
        events = [Event("nvidia-smi", "smi_gpu", fields, line)]
        return [*events, _memory_errors(fields, wrong, line)] if wrong else events

    def end(self) -> list[Event]:
        """Nothing: every row was told."""
        return []


def _memory_errors(gpu: dict[str, Value], value: str, line: Line) -> Event:
    fields: dict[str, Value] = {"bus": gpu.get("bus"), "gpu_index": gpu.get("gpu_index")}
    said: dict[str, Value] = {"problem": "ecc-uncorrectable", "what": "uncorrected memory errors", "value": value[:20]}
    return Event("nvidia-smi", "smi_problem", fields | said, line)
