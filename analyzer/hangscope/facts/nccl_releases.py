"""Tells which NCCL release a process can be of, by its version line or by the shape of its lines.

From 2.22 on every process prints its version at level INFO. Older ones print it on rank 0 only; for the others the
shape of their lines tells a range of releases, and two ranges that do not meet are two versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hangscope.align.process import Process
from hangscope.expressions import expression
from hangscope.model import Event
from hangscope.records import dataclass

Release = tuple[int, ...]
_OLDEST: Release = (2, 0)
_ANY = 99
_NEWEST: Release = (_ANY,)
_LAST_SILENT: Release = (2, 21, _ANY)
_EVERYBODY_SAYS: Release = (2, 22)
_NUMBER = expression(r"\d+")


@dataclass(frozen=True, slots=True)
class Releases:
    """The releases a process can be of, and the line that says so."""

    low: Release
    high: Release
    shown_by: Event

    def text(self) -> str:
        """``2.27.7``, ``2.24 or newer``, ``2.21 or older``, ``2.21 to 2.23``."""
        low, high = (".".join(str(n) for n in release if n != _ANY) for release in (self.low, self.high))
        if self.low == self.high:
            return low
        if self.high == _NEWEST:
            return f"{low} or newer"
        return f"{high} or older" if self.low == _OLDEST else f"{low} to {high}"


@dataclass(frozen=True, slots=True)
class ReleaseGroup:
    """Processes that can be of one release.

    Attributes:
        members: their indexes in the job's processes, ascending.
        releases: the narrowest range that the lines of any of them tell.
        shown_by: the line of each that tells its range, in the order of `members`.
    """

    members: tuple[int, ...]
    releases: Releases
    shown_by: tuple[Releases, ...]


def release_groups(processes: Sequence[Process]) -> list[ReleaseGroup]:
    """Processes of which something tells the release, put together by it; most processes first, then lowest rank."""
    ranges = {number: found for number, p in enumerate(processes) if (found := releases_of(p)) is not None}

    def standing(group: list[int]) -> tuple[int, int]:
        ranks = [rank for n in group if (rank := processes[n].rank) is not None]
        return (-len(group), min(ranks, default=1 << 30))

    groups = []
    for group in sorted(_compatible(ranges), key=standing):
        own = [ranges[number] for number in sorted(group)]
        narrow = min(own, key=lambda r: (r.low != r.high, r.shown_by.line.file, r.shown_by.line.number))
        groups.append(ReleaseGroup(tuple(sorted(group)), narrow, tuple(own)))
    return groups


def _compatible(ranges: Mapping[int, Releases]) -> list[list[int]]:
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


_TELLING = (
    "nccl_version",
    "process_group_environment",
    "torch_nccl_error",
    "bootstrap_interface",
    "bootstrap_timings",
    "comm_init_start",
    "comm_init_complete",
    "error_arrow",
    "connect_retry",
)
"""The kinds of lines that `_shape` knows."""


def releases_of(process: Process) -> Releases | None:
    """What a process's lines say of its release, or None when nothing does."""
    low, high = _OLDEST, _NEWEST
    shown: Event | None = None
    for event in process.by_kind.of(*_TELLING):
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
    return None if shown is None else Releases(low, high, shown)


def _says_no_version(process: Process) -> Event | None:
    """The network line of a process that prints INFO lines and never its version: 2.22 and later always do."""
    said = process.by_kind
    if said.has("nccl_version") or not said.has("bootstrap_interface", "cuda_driver_version"):
        return None
    return said.first("network_chosen")


def _shape(event: Event) -> tuple[Release, Release]:
    """The releases whose lines look like this event's."""
    text = event.line.text
    match event.kind:
        case "nccl_version":
            exact = _release(str(event.fields.get("version", "")))
            return (exact, exact) if exact else (_OLDEST, _NEWEST)
        case "process_group_environment" | "torch_nccl_error":
            # torch asks the library that is loaded (ncclGetVersion)
            exact = _release(str(event.fields.get("nccl_version", "")))
            return (exact, exact) if exact else (_OLDEST, _NEWEST)
        case "bootstrap_interface":
            return (_OLDEST, (2, 23, _ANY)) if "Bootstrap :" in text else ((2, 24), _NEWEST)
        case "bootstrap_timings":
            return (2, 23), _NEWEST
        case "comm_init_start" | "comm_init_complete":
            if event.line.header != "nccl" or event.line.damaged:
                # the name of the call may have been torn off
                return _OLDEST, _NEWEST
            if "api" in event.fields:
                return (2, 29) if "[Rank " in text else (2, 21), _NEWEST
            return _OLDEST, (2, 20, _ANY)
        case "error_arrow" if "function" in event.fields:
            return (2, 30), _NEWEST
        case "connect_retry" if "attempt" in event.fields:
            return (2, 24), _NEWEST
    return _OLDEST, _NEWEST


def _release(text: str) -> Release:
    numbers = tuple(int(n) for n in _NUMBER.findall(text)[:3])
    # PyTorch builds of 2021 print 20.9.9 and 21.1.4 for 2.9.9 and 2.11.4.
    return numbers if numbers and numbers[0] == 2 and len(numbers) == 3 else ()
