"""Facts about NCCL versions that differ between ranks.

From 2.22 on every process prints its version at level INFO. Older ones print it on rank 0 only; for the others the
shape of their lines tells a range of releases, and two ranges that do not meet are two versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.majority import hosts_of, ranks_of
from hangscope.model import Event, Fact

KINDS = {
    "nccl_version_differs": FactKind(
        ("version", "expected"),
        "Some processes run another NCCL version than the rest, by their version lines or by the shape of their lines.",
    ),
}
Release = tuple[int, ...]
_OLDEST: Release = (2, 0)
_NEWEST: Release = (99,)
_LAST_SILENT: Release = (2, 21, 99)
_EVERYBODY_SAYS: Release = (2, 22)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Range:
    """The releases a process can be of, and the line that says so."""

    low: Release
    high: Release
    shown_by: Event

    def text(self) -> str:
        low, high = (".".join(map(str, release)) for release in (self.low, self.high))
        if self.low == self.high:
            return low
        if self.high == _NEWEST:
            return f"{low} or newer"
        return f"{high} or older" if self.low == _OLDEST else f"{low} to {high}"


def find(job: Job) -> Iterator[Fact]:
    """One fact for each set of processes whose version cannot be that of the rest."""
    ranges = {number: found for number, p in enumerate(job.processes) if (found := _range_of(p)) is not None}
    if len(ranges) < 2:
        return
    groups = _compatible(ranges)
    if len(groups) < 2:
        return
    processes = dict(enumerate(job.processes))

    def standing(group: list[int]) -> tuple[int, int]:
        ranks = [rank for n in group if (rank := processes[n].rank) is not None]
        return (-len(group), min(ranks, default=1 << 30))

    expected, *odd = sorted(groups, key=standing)
    narrow = min(
        (ranges[n] for n in expected), key=lambda r: (r.low != r.high, r.shown_by.line.file, r.shown_by.line.number)
    )
    for group in odd:
        own = min(
            (ranges[n] for n in group), key=lambda r: (r.low != r.high, r.shown_by.line.file, r.shown_by.line.number)
        )
        lines = [evidence_of(narrow.shown_by, f"NCCL {narrow.text()}"), evidence_of(own.shown_by, f"NCCL {own.text()}")]
        lines += [
            evidence_of(ranges[n].shown_by, f"NCCL {ranges[n].text()}") for n in group[:3] if ranges[n] is not own
        ]
        members = [processes[n] for n in group]
        rest = [processes[n] for n in expected]
        fields = {"version": own.text(), "expected": narrow.text()}
        time = own.shown_by.time
        yield Fact(
            "nccl_version_differs", fields, ranks_of(members), hosts_of(members), "", ranks_of(rest), time, tuple(lines)
        )


def _compatible(ranges: dict[int, _Range]) -> list[list[int]]:
    """Processes put together as long as all of a set can be of one release; exact versions first."""
    groups: list[list[int]] = []
    common: list[tuple[Release, Release]] = []
    for number in sorted(ranges, key=lambda n: (ranges[n].low != ranges[n].high, n)):
        found = ranges[number]
        # what all of a group share is enough to compare with: ranges that meet in pairs have a release in common
        home = next((i for i, (low, high) in enumerate(common) if found.low <= high and low <= found.high), None)
        if home is None:
            groups.append([number])
            common.append((found.low, found.high))
        else:
            groups[home].append(number)
            low, high = common[home]
            common[home] = (max(low, found.low), min(high, found.high))
    return groups


def _range_of(process: Process) -> _Range | None:
    """What a process's lines say of its release, or None when nothing does."""
    low, high = _OLDEST, _NEWEST
    shown: Event | None = None
    for event in process.events:
        least, most = _shape(event)
        if least > high or most < low:
            # Lines of several jobs in one stream: the first one counts.
            continue
        if least > low or most < high:
            low, high, shown = max(low, least), min(high, most), event
        if low == high:
            break
    silent = _says_no_version(process)
    if silent is not None and low < _EVERYBODY_SAYS < high:
        high, shown = _LAST_SILENT, silent
    return None if shown is None else _Range(low, high, shown)


def _says_no_version(process: Process) -> Event | None:
    """The network line of a process that prints INFO lines and never its version: 2.22 and later always do."""
    if any(event.kind == "nccl_version" for event in process.events):
        return None
    has_start = any(event.kind in ("bootstrap_interface", "cuda_driver_version") for event in process.events)
    return next((event for event in process.events if event.kind == "network_chosen"), None) if has_start else None


def _shape(event: Event) -> tuple[Release, Release]:
    """The releases whose lines look like this event's."""
    text = event.line.text
    match event.kind:
        case "nccl_version":
            exact = _release(str(event.fields.get("version", "")))
            return (exact, exact) if exact else (_OLDEST, _NEWEST)
        case "bootstrap_interface":
            return (_OLDEST, (2, 23, 99)) if "Bootstrap :" in text else ((2, 24), _NEWEST)
        case "bootstrap_timings":
            return (2, 23), _NEWEST
        case "comm_init_start" | "comm_init_complete":
            if event.line.header != "nccl" or event.line.damaged:
                # the name of the call may have been torn off
                return _OLDEST, _NEWEST
            if "api" in event.fields:
                return (2, 29) if "[Rank " in text else (2, 21), _NEWEST
            return _OLDEST, (2, 20, 99)
        case "error_arrow" if "function" in event.fields:
            return (2, 30), _NEWEST
        case "connect_retry" if "attempt" in event.fields:
            return (2, 24), _NEWEST
    return _OLDEST, _NEWEST


def _release(text: str) -> Release:
    numbers = tuple(int(n) for n in _NUMBER.findall(text)[:3])
    # PyTorch builds of 2021 print 20.9.9 and 21.1.4 for 2.9.9 and 2.11.4.
    return numbers if numbers and numbers[0] == 2 and len(numbers) == 3 else ()
