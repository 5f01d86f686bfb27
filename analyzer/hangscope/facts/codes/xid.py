"""Reads the table of Xid and SXid numbers, and the words of NVLink 5 units: what an Xid 144 to 150 is about."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hangscope.expressions import expression
from hangscope.records import dataclass

_TABLE = Path(__file__).with_name("xid.toml")
_LINKS = "nvlink-error"

# `RLW_REMAP  Nonfatal  XC0 i0 Link 01 (0x021425c6 0x00000004 ...)`: the second word is the error status.
_UNIT = expression(
    r"\b(?P<unit>[A-Z][A-Z0-9_]+)\s+(?P<severity>Fatal|Nonfatal|Non-fatal)\b.*?"
    r"Link (?P<link>-?\d+)\s*\(\s*0x[0-9a-fA-F]+[\s,]+0x(?P<status>[0-9a-fA-F]+)"
)
_NONFATAL = expression(r"\b[Nn]on-?fatal\b")
_NOTE_OF_SOFTWARE = 0x80000000
# Units whose non-fatal errors end programs with Xid 45, by the bits of the status that do.
_HARMFUL = {
    "RLW_REMAP": (0x3F, "a remote access over NVLink failed"),
    "RLW_SRC_TRACK": (0xC, "a request over NVLink got no answer"),
    "RLW_RXPIPE": (0x7, "packets were lost on an NVLink"),
}
_UNITS = {
    "NETIR_LINK_EVT": "an NVLink went down",
    "NETIR_BER_EVENT": "the bit error rate of an NVLink is too high",
    "MSE_WATCHDOG": "the firmware of the NVLink controller stopped",
}
_RECOVERY = expression(r"recovery action changed from .* to (0x\w+)")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a number stands for.

    Attributes:
        cause: id of the cause; "" = a consequence, or only information.
        text: what happened, to follow "the driver reports".
        origin: where the fault usually is, to follow "it lies in".
        first: what to do at once.
        then: what to do next.
        weak: often software or harmless.
        corrected: put right by the hardware itself.
    """

    cause: str
    text: str
    origin: str = ""
    first: str = ""
    then: str = ""
    weak: bool = False
    corrected: bool = False


def xid_meaning(number: int, message: str = "") -> Meaning | None:
    """What an Xid stands for, None when the catalog leaves it out or means display, video or tests.

    Args:
        number: as printed.
        message: what follows it on the line; decides for NVLink errors.
    """
    found = _tables().xids.get(number)
    if found is None or found.cause != _LINKS:
        return found
    told = _UNIT.search(message)
    if told:
        return _of_unit(found, told["unit"], told["severity"] == "Fatal", int(told["link"]), int(told["status"], 16))
    return replace(found, weak=True) if _NONFATAL.search(message) else found


def sxid_meaning(number: int, severity: str = "") -> Meaning | None:
    """What an SXid of an NVSwitch stands for, None for what is harmless; an unknown one without a severity is weak.

    Args:
        number: as printed.
        severity: the word on the line, "" when there is none. It is more reliable than any table.
    """
    row = _tables().sxids.get(number, {})
    if row.get("harmless"):
        return None
    is_fatal = bool(row.get("fatal")) or severity.lower() == "fatal"
    return Meaning(
        _LINKS,
        row.get("meaning", "an error of an NVSwitch"),
        origin="the switch, the link or the GPU at its other end",
        first="look for an Xid of the GPU at the other end in the seconds before" if not row.get("corrected") else "",
        then=row.get("then", "reset all GPUs and switches of the machine if the line says Fatal"),
        weak=not is_fatal,
        corrected=bool(row.get("corrected")),
    )


def recovery_step(message: str) -> str:
    """What to do by the text of an Xid 154, "" when it does not say or nothing is needed."""
    found = _RECOVERY.search(message)
    name = _tables().recovery.get(found[1].lower(), "") if found else ""
    return _tables().steps[name] if name and name != "ignore" else ""


def _of_unit(found: Meaning, unit: str, is_fatal: bool, link: int, status: int) -> Meaning:  # noqa: FBT001 (private)
    bits, harm = _HARMFUL.get(unit, (0, ""))
    text = harm or _UNITS.get(unit, found.text)
    named = replace(found, text=f"{text} ({unit}{f', link {link}' if link >= 0 else ''})")
    if status == _NOTE_OF_SOFTWARE:
        return replace(named, weak=True, corrected=True)
    if is_fatal:
        # a fatal event of no link at all follows a link event
        return replace(named, weak=unit == "NETIR" and link < 0)
    return replace(named, weak=True, corrected=not status & bits)


@dataclass(frozen=True, slots=True)
class _Tables:
    """Xids, rows of SXids, steps by name, and the names of steps by Xid 154's numbers (``0x1``)."""

    xids: Mapping[int, Meaning]
    sxids: Mapping[int, Mapping[str, Any]]
    steps: Mapping[str, str]
    recovery: Mapping[str, str]


@functools.cache
def _tables() -> _Tables:
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    steps = table["steps"]
    xids = {
        number: Meaning(
            row["cause"],
            row["meaning"],
            row.get("origin", ""),
            steps[row["first"]] if "first" in row else "",
            row.get("then", ""),
            row.get("weak", False),
            row.get("corrected", False),
        )
        for row in table["xid"]
        for number in row["numbers"]
    }
    sxids = {number: row for row in table["sxid"] for number in row["numbers"]}
    return _Tables(xids, sxids, steps, table["recovery"])
