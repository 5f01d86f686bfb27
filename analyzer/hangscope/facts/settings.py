"""Collects the settings that processes print, and tells who must have read one and did not have it.

NCCL prints ``X set by environment to V`` when a parameter is first read, so a rank that has not come that far
says nothing about it: a rank counts as one without the setting only when it passed the milestone that followed
the line on the ranks that have it. PyTorch prints a list of its own settings with every process group (2.3 and
later), and ``env`` prints all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.expressions import expression
from hangscope.facts.agreed_settings import effect_of, effective, is_of_host
from hangscope.model import Event
from hangscope.records import dataclass

NOT_SET = "not set"
# What every rank prints on its way; not what rank 0 alone prints (version, ring order).
MILESTONES = frozenset(
    {
        "network_chosen",
        "bootstrap_timings",
        "comm_init_start",
        "comm_layout",
        "trees",
        "channel_counts",
        "comm_init_complete",
        "connected",
    }
)
_HEAD = frozenset({"bootstrap_interface", "nccl_version"})
_LISTED = expression(r"\b((?:TORCH|NCCL)_[A-Z0-9_]+): ([^\s,]+)")
_TORCH_DEBUG = "TORCH_DISTRIBUTED_DEBUG"
_A_DUMP = 3
"""Of so many variables that a process prints as ``X=V``, one that is not among them is not set."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a job.

    Attributes:
        name: as printed.
        values: index of the process -> its value, or `NOT_SET`.
        said: index of the process -> the line that says so.
    """

    name: str
    values: dict[int, str]
    said: dict[int, Event]

    def agrees(self, job: Job) -> bool:
        """Whether all ranks that have to do the same do it, on a host or everywhere; True for what may differ."""
        if not effect_of(self.name):
            return True
        seen: dict[str | None, set[str]] = defaultdict(set)
        for number, value in self.values.items():
            place = job.processes[number].host if is_of_host(self.name) else None
            seen[place].add(effective(self.name, None if value == NOT_SET else value))
        return all(len(values) == 1 for values in seen.values())


def settings_of(job: Job) -> list[Setting]:
    """Every setting that processes print, by name."""
    processes = dict(enumerate(job.processes))
    passed = {number: _passed(process) for number, process in processes.items()}
    speaking = {number: process for number, process in processes.items() if passed[number] & MILESTONES}
    printed: dict[str, dict[int, tuple[str, Event]]] = defaultdict(dict)
    dumped: dict[int, dict[str, None]] = defaultdict(dict)
    for number, process in processes.items():
        for name, value, event in _said(process):
            printed[name].setdefault(number, (value, event))
            if event.kind == "environment_setting":
                dumped[number][name] = None
    found = []
    for name, by_number in sorted(printed.items()):
        said = {number: event for number, (_, event) in by_number.items()}
        values = {number: value for number, (value, _) in by_number.items()}
        read = {number: event for number, event in said.items() if event.kind == "nccl_setting" and number in speaking}
        for number in _without(speaking, passed, read):
            values.setdefault(number, NOT_SET)
        if name == _TORCH_DEBUG:
            values |= {number: NOT_SET for number in _talkative(processes) if number not in values}
        if len(read) < len(said):
            for number in _not_dumped(name, dumped):
                values.setdefault(number, NOT_SET)
        found.append(Setting(name, values, said))
    return found


_SAYING = ("nccl_setting", "environment_setting", "process_group_environment", "debug_level")


def _said(process: Process) -> Iterator[tuple[str, str, Event]]:
    """Name, value and line of each setting that a process prints."""
    for event in process.by_kind.of(*_SAYING):
        if event.kind in ("nccl_setting", "environment_setting"):
            yield str(event.fields.get("name", "")), str(event.fields.get("value", "")), event
        elif event.kind == "process_group_environment":
            for name, value in _LISTED.findall(event.line.text):
                yield name, value, event
        else:
            yield _TORCH_DEBUG, str(event.fields.get("level", "")), event


def _not_dumped(name: str, dumped: dict[int, dict[str, None]]) -> Iterator[int]:
    """Processes whose list of variables went on behind the place where others have this one; it may be cut before."""
    having = list(next((names for names in dumped.values() if name in names), ()))
    behind = set(having[having.index(name) + 1 :]) if having else set()
    for number, names in dumped.items():
        if name not in names and len(names) >= _A_DUMP and not behind.isdisjoint(names):
            yield number


def _talkative(processes: dict[int, Process]) -> Iterator[int]:
    """Processes that print torch's INFO lines, in which it says its debug level if that is set (debug.cpp, 1.10 on)."""
    for number, process in processes.items():
        if any(event.line.header == "c10" and event.line.level == "I" for event in process.events):
            yield number


def _without(speaking: dict[int, Process], passed: dict[int, frozenset[str]], read: dict[int, Event]) -> Iterator[int]:
    """Processes that must have read a NCCL setting which others print, and do not have it."""
    wanted = _milestones_before(speaking, read) if read else set()
    if not wanted:
        return
    have_head = any(passed[number] & _HEAD for number in read)
    for number in speaking:
        if have_head and not passed[number] & _HEAD:
            # the beginning of its log is lost, and the setting may be with it
            continue
        if number not in read and wanted <= passed[number]:
            yield number


def _passed(process: Process) -> frozenset[str]:
    """The milestones that a process printed, and the first lines that NCCL prints."""
    return (MILESTONES | _HEAD).intersection(process.by_kind.kinds)


def _milestones_before(speaking: dict[int, Process], said: dict[int, Event]) -> set[str]:
    """Kinds of which a rank must have printed all to count as past the setting: those before it, and the next."""
    after: set[str] = set()
    before: set[str] | None = None
    for number, event in said.items():
        seen: set[str] = set()
        following = ""
        is_past = False
        for other in speaking[number].by_kind.of(event.kind, *(MILESTONES - {event.kind})):
            is_past = is_past or other is event
            if other.kind in MILESTONES:
                if is_past:
                    following = other.kind
                    break
                seen.add(other.kind)
        before = seen if before is None else before & seen
        if following and following not in seen:
            after.add(following)
    return (before or set()) | after if len(after) == 1 else set()
