"""Reads the stack dumps of one input: its streams are kept apart, and every dump gets a writer of its own process."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from hangscope.expressions import expression
from hangscope.model import Line, ProcessDump
from hangscope.parse.stacks.assembler import StackAssembler, Taken
from hangscope.parse.stacks.builder import Shelf
from hangscope.parse.stacks.unknown_prefixes import UnknownPrefixes
from hangscope.sources.stamps import moment

# torch's debug server names its files so (2.9 on), and so do people
_TIME_IN_NAME = expression(r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)[_T-](\d\d)[:-]?(\d\d)[:-]?(\d\d)(?!\d)")

_FIRST_FRAMES = frozenset(
    {"<module>", "_bootstrap", "_run_module_as_main", "_shutdown", "_start", "start_thread", "clone", "clone3"}
)


def placed(line: Line, dump: ProcessDump) -> Line:
    """A line of a dump, with what is known about the process that it is of."""
    head = dump.line
    return dataclasses.replace(
        line,
        stream=head.stream,
        host=head.host,
        pid=head.pid,
        rank=head.rank,
        rank_source=head.rank_source,
        local_rank=head.local_rank,
    )


class StackReader:
    """The dumps of one input."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._assemblers: dict[tuple[str, int | None], StackAssembler] = {}
        self._shelf = Shelf()
        self._prefixes = UnknownPrefixes()

    def feed(self, line: Line) -> Taken | None:
        """Takes one line; None when it belongs to no dump."""
        line = self._prefixes.strip(line)
        stream = (line.stream, line.rank)
        assembler = self._assemblers.get(stream)
        if assembler is None:
            assembler = self._assemblers[stream] = StackAssembler(self._shelf)
        return assembler.feed(line)

    def finish(self, *, complete: bool = True) -> list[ProcessDump]:
        """Ends the input; gives its dumps, in file order.

        Args:
            complete: the input's last line has its newline; a dump at the end of one without may be cut.
        """
        for assembler in self._assemblers.values():
            if not complete and (dump := assembler.open_dump) is not None:
                dump.cut = not _reaches_the_start(dump)
            assembler.flush()
        dumps = [dump for dump in self._shelf.dumps if dump.threads or dump.error]
        dumps.sort(key=lambda dump: dump.line.number)
        _share_folded(dumps)
        when = time_in(self._name)
        for dump in dumps:
            if dump.time is None:
                dump.time = when
        _part_processes(dumps)
        return dumps


def _reaches_the_start(dump: ProcessDump) -> bool:
    """Whether the last thread has the frame that threads and programs begin with."""
    frames = dump.threads[-1].frames if dump.threads else ()
    return bool(frames) and frames[-1].function.rpartition(".")[2].strip("()") in _FIRST_FRAMES


def _share_folded(dumps: list[ProcessDump]) -> None:
    """People fold equal stacks: heads of several main threads, one under the other, and one stack below them."""
    for dump, after in zip(reversed(dumps[:-1]), reversed(dumps[1:]), strict=True):
        bare = dump.tool == "py-spy" and not dump.python and len(dump.threads) == 1 and not dump.threads[0].frames
        if (
            bare
            and dump.threads[0].name == "MainThread"
            and after.line.number == dump.line.number + 1
            and after.threads
        ):
            dump.threads[0].frames = after.threads[0].frames


def _part_processes(dumps: list[ProcessDump]) -> None:
    """Gives processes of unknown pid that share a stream a stream each: their main threads have different ids."""
    groups: dict[tuple[str, str | None], dict[str, list[ProcessDump]]] = defaultdict(lambda: defaultdict(list))
    for dump in dumps:
        line = dump.line
        if dump.pid is None and line.rank is None and line.local_rank is None and dump.threads:
            main = dump.threads[-1].thread
            if main.startswith("0x"):
                groups[line.stream, line.host][main].append(dump)
    for (stream, _), mains in groups.items():
        if len(mains) < 2:
            continue
        for main, mine in mains.items():
            for dump in mine:
                dump.line = dataclasses.replace(dump.line, stream=f"{stream}/thread {main}".lstrip("/"))


def time_in(name: str) -> float | None:
    """The time that a file is named after."""
    found = _TIME_IN_NAME.search(name.rpartition("/")[2])
    if found is None:
        return None
    year, month, day, hours, minutes, seconds = found.groups()
    return moment(int(year), int(month), int(day), f"{hours}:{minutes}:{seconds}") if int(hours) < 24 else None
