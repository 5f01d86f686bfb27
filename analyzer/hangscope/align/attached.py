"""Joins what `hangscope attach` collected: below the folder of its ``attach.txt`` a process id is one process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hangscope.expressions import expression
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass

# stacks/rank3-pid77.1.txt, logs/pid77.stdout.log
_PID_IN_NAME = expression(r"(?:^|[/_.-])pid(\d{1,10})(?!\d)[^/]*$")


@dataclass(frozen=True, slots=True)
class Attached:
    """A process that attach saw.

    Attributes:
        folder: of the host's part of the bundle, with a slash at its end; "" for the top.
        host, pid: where it ran.
        rank: its global rank; None for children, launchers and processes that nobody knows.
    """

    folder: str
    host: str
    pid: int
    rank: int | None


def find_attached(sources: Iterable[ParsedSource]) -> list[Attached]:
    """Every process of every bundle."""
    return [one for source in sources for one in _processes(source)]


def _processes(source: ParsedSource) -> Iterator[Attached]:
    folder = source.record.file.rpartition("/")[0]
    for event in source.by_kind.of("attach_process"):
        pid, host, rank = event.number("process"), event.fields.get("host"), event.number("rank")
        if pid is not None and isinstance(host, str):
            ranked = event.fields.get("role") == "rank"
            yield Attached(f"{folder}/" if folder else "", host, pid, rank if ranked else None)


def find_hosts(files: Iterable[str], attached: Iterable[Attached]) -> dict[str, str]:
    """File -> host, for the files of bundles."""
    folders = {one.folder: one.host for one in attached}
    found: dict[str, str] = {}
    for file in files if folders else ():
        folder, inside = file.rpartition("/")[0], True
        while inside and f"{folder}/" not in folders:
            inside = "/" in folder
            folder = folder.rpartition("/")[0]
        nearest = f"{folder}/" if inside else ""
        if nearest in folders:
            found[file] = folders[nearest]
    return found


def pid_in_name(file: str) -> int | None:
    """The process that a file of a bundle is about."""
    found = _PID_IN_NAME.search(file)
    return int(found[1]) if found else None


def what_was_refused(sources: Iterable[ParsedSource]) -> Iterator[str]:
    """Warnings: what attach wanted to see and could not, with the reason."""
    for source in sources:
        for event in source.by_kind.of("attach_incomplete"):
            yield f"not seen: {event.fields.get('what')}"
