"""``nvidia-smi -q``: the nested report of each GPU, and ``nvidia-smi nvlink -s``."""

from __future__ import annotations

import re

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value

BEGINS = r"GPU (?:[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s*$|\d{1,3}: [^:]*\(UUID:)|Fabric\s*$"

_GPU = expression(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_NAMED = expression(r"GPU (\d{1,3}): ([^:]{0,80}?)\s*\(UUID:")
_PAIR = expression(r"(\s+)(\S[^:]{0,60}?)\s*(?::\s*(.*?)\s*)?$")
_LINK = expression(r"\s+Link (\d{1,3}): (.*?)\s*$")
_NUMBER = expression(r"(\d{1,12}(?:\.\d{1,3})?)\b")
_UNREADABLE = expression(r"Unknown Error|ERR!|GPU (?:requires reset|is lost)|GPU access blocked", re.IGNORECASE)
_MOST_LEVELS = 12
_MOST_PROCESSES = 64


def open_block(line: Line, text: str) -> GpuReport | LinkStates | None:
    """The report of the GPU that this line names, or its part on the fabric, cut out without the name."""
    if found := _GPU.match(text):
        return GpuReport(line, found[1])
    if found := _NAMED.match(text):
        return LinkStates(line, int(found[1]), found[2])
    if text.strip() == "Fabric":
        return FabricPart(line, None, text)
    return None


class GpuReport:
    """The report of one GPU; indentation tells what belongs to what."""

    def __init__(self, line: Line, bus: str | None) -> None:
        self._line = line
        self._fields: dict[str, Value] = {"bus": bus.lower() if bus else None}
        self._path: list[tuple[int, str]] = []
        self._pids: list[int] = []
        self._unreadable = False

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """One line of the report; troubles are told at once."""
        if not text.strip():
            return []
        found = _PAIR.match(text)
        if found is None:
            return None
        depth, name, value = len(found[1].expandtabs()), found[2], found[3]
        while self._path and self._path[-1][0] >= depth:
            self._path.pop()
        path = "/".join(part for _, part in self._path)
        if value is None:
            if len(self._path) < _MOST_LEVELS:
                self._path.append((depth, name))
            return []
        self._note(path, name, value)
        problem = self._problem(path, name, value)
        if problem is None:
            return []
        fields: dict[str, Value] = {
            "bus": self._fields["bus"],
            "gpu_index": self._fields.get("gpu_index"),
            "problem": problem,
            "what": f"{path}/{name}".strip("/"),
            "value": value[:80],
        }
        return [Event("nvidia-smi", "smi_problem", fields, line)]

    def end(self) -> list[Event]:
        """What is known of the GPU."""
        fields = dict(self._fields)
        fields["processes"] = tuple(self._pids)
        return [Event("nvidia-smi", "smi_gpu", fields, self._line)]

    def _note(self, path: str, name: str, value: str) -> None:
        number = _NUMBER.match(value)
        if name == "Minor Number" and value.isdecimal() and len(value) < 5:
            self._fields["gpu_index"] = int(value)
        elif path.endswith("Utilization") and name == "GPU" and number:
            self._fields["used_percent"] = float(number[1])
        elif "Power Draw" in name and number and "power_w" not in self._fields:
            self._fields["power_w"] = float(number[1])
        elif name in ("Current Power Limit", "Power Limit") and number and "limit_w" not in self._fields:
            self._fields["limit_w"] = float(number[1])
        elif name == "Product Name" and not path:
            self._fields["model"] = value[:80]
        elif name == "Process ID" and value.isdecimal() and len(value) <= 10 and len(self._pids) < _MOST_PROCESSES:
            self._pids.append(int(value))

    def _problem(self, path: str, name: str, value: str) -> str | None:
        """What is wrong with the GPU if it says this; None for what is well."""
        if _UNREADABLE.search(value) and name != "Process Name":
            first, self._unreadable = not self._unreadable, True
            return "unreadable" if first else None
        number = _NUMBER.match(value)
        count = float(number[1]) if number else 0.0
        yes = value.lower() in ("yes", "true")
        if "ECC Errors" in path and "Volatile" in path and ("Uncorrectable" in name or "Double Bit" in path) and count:
            return "ecc-uncorrectable"
        if "Remapped Rows" in path or "Row Remapper" in path:
            if name == "Remapping Failure Occurred" and yes:
                return "remap-failed"
            return "remap-pending" if name == "Pending" and yes else None
        if "Retired Pages" in path and name.startswith("Pending") and yes:
            return "remap-pending"
        if name == "SRAM Threshold Exceeded" and yes:
            return "ecc-uncorrectable"
        if name == "Reset Required" and yes:
            return "reset-required"
        if name == "GPU Recovery Action" and value not in ("None", "N/A"):
            return "reset-required"
        if path.endswith("Fabric"):
            return _fabric(name, value)
        slows = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown")
        return "slowed" if name in slows and value == "Active" else None


def _fabric(name: str, value: str) -> str | None:
    if name == "State" and value in ("In Progress", "Not Started"):
        return "fabric-not-ready"
    return "fabric-not-ready" if name == "Status" and value not in ("Success", "N/A") else None


class FabricPart(GpuReport):
    """What a GPU's report says of the fabric, where only that was kept."""

    def __init__(self, line: Line, bus: str | None, text: str) -> None:
        super().__init__(line, bus)
        self._depth = _depth(text)
        self._path.append((self._depth, "Fabric"))

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """Lines further in than the heading belong to it."""
        return super().feed(line, text) if _depth(text) > self._depth else None

    def end(self) -> list[Event]:
        """Of the GPU itself nothing is known."""
        return []


def _depth(text: str) -> int:
    shown = text.expandtabs()
    return len(shown) - len(shown.lstrip())


class LinkStates:
    """The states of the NVLinks of one GPU, one line a link."""

    def __init__(self, line: Line, index: int, model: str) -> None:
        self._line = line
        self._index = index
        self._model = model
        self._down: list[tuple[int, Line]] = []
        self._up = 0

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """One link."""
        found = _LINK.match(text)
        if found is None:
            return None
        if "inactive" in found[2].lower():
            self._down.append((int(found[1]), line))
        else:
            self._up += 1
        return []

    def end(self) -> list[Event]:
        """The GPU's model, and links that are down while others are up: a GPU without any has no NVLink in use."""
        named: dict[str, Value] = {"gpu_index": self._index, "model": self._model}
        model = [Event("nvidia-smi", "gpu_model", named, self._line)] if self._model else []
        if not self._up:
            return model
        what: dict[str, Value] = {"gpu_index": self._index, "problem": "link-down"}
        return model + [
            Event("nvidia-smi", "smi_problem", {**what, "what": f"Link {link}", "value": "inactive"}, line)
            for link, line in self._down
        ]
