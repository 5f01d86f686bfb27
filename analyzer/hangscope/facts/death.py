"""The end of one process as a supervisor tells it, and what signals, exit codes and lists of hosts mean."""

from __future__ import annotations

import re
import signal as signals
from dataclasses import field

from hangscope.model import Event
from hangscope.records import dataclass

_WORDS = {
    "killed": "SIGKILL",
    "terminated": "SIGTERM",
    "segmentation fault": "SIGSEGV",
    "segfault": "SIGSEGV",
    "aborted": "SIGABRT",
    "bus error": "SIGBUS",
    "floating point exception": "SIGFPE",
    "floating-point exception": "SIGFPE",
    "illegal instruction": "SIGILL",
    "trace/breakpoint trap": "SIGTRAP",
    "user defined signal 1": "SIGUSR1",
    "user defined signal 2": "SIGUSR2",
    "hangup": "SIGHUP",
    "interrupt": "SIGINT",
    "cpu time limit exceeded": "SIGXCPU",
}
_SHELL_CODE = 128
_MAX_DIGITS = 9
"""Numbers of tasks and hosts are shorter."""


@dataclass(slots=True)
class Death:
    """The end of one process.

    Attributes:
        rank, host, pid: of the process, as far as said.
        local_rank: index on its host, if said.
        signal: name of the signal ("SIGKILL"), or "".
        exitcode: exit code as said (negative: minus the signal's number), or None.
        first: a supervisor calls it the first failure.
        victim: ended by its launcher.
        said_by: who says so.
        evidence: the events that say so, most telling first.
    """

    rank: int | None = None
    host: str | None = None
    pid: int | None = None
    local_rank: int | None = None
    signal: str = ""
    exitcode: int | None = None
    first: bool = False
    victim: bool = False
    said_by: str = ""
    evidence: list[Event] = field(default_factory=list)


def how(death: Death) -> str:
    """In words: "killed by SIGKILL", "exited with code 1"."""
    if death.signal:
        verb = "was ended by" if death.signal in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") else "died of"
        return f"{verb} {death.signal}"
    return "ended" if death.exitcode is None else f"exited with code {death.exitcode}"


def signal_name(text: object) -> str:
    """SIGKILL for "9", 9, "KILL", "SIGKILL" or "Killed"; "" for what is no signal."""
    word = str(text or "").strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        return signals.Signals(abs(int(word))).name
    except ValueError:
        name = word.upper().removeprefix("SIGNALS.")
        name = name if name.startswith("SIG") else f"SIG{name}"
        return name if name in signals.Signals.__members__ else ""


def signal_of_code(code: int | None) -> str:
    """The signal behind an exit code: minus its number (Python, torchrun), 128 plus it (shells, Slurm, Kubernetes)."""
    if code is None:
        return ""
    if code < 0:
        return signal_name(-code)
    return signal_name(code - _SHELL_CODE) if _SHELL_CODE < code < _SHELL_CODE + 32 else ""


def expand_numbers(text: str) -> list[int]:
    """Task lists of Slurm: "0-3,5" -> 0 1 2 3 5."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if _is_number(first) and (not last or _is_number(last)):
            found.extend(range(int(first), min(int(last or first), int(first) + 100_000) + 1))
    return found


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MAX_DIGITS


def expand_hosts(text: str) -> list[str]:
    """Node lists of Slurm: "node[01-03,07],login1" -> node01 node02 node03 node07 login1."""
    hosts = []
    for match in re.finditer(r"([^,\[\]]+)(?:\[([\d,\-]+)\])?([^,\[\]]*)", text):
        head, numbers, tail = match.groups()
        if numbers is None:
            hosts.append(head)
            continue
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            if not (_is_number(first) and (not last or _is_number(last))):
                continue
            count = min(int(last or first) - int(first) + 1, 10_000)
            hosts.extend(f"{head}{int(first) + step:0{len(first)}d}{tail}" for step in range(count))
    return hosts
