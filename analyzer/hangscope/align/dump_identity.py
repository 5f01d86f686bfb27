"""Joins the writers of stack dumps with the processes of logs, and guesses ranks where only their number fits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from hangscope.align.claims import Claim
from hangscope.align.dump_owners import LAUNCHER, RANK, Owners, only_dumps
from hangscope.expressions import expression
from hangscope.model import ProcessDump
from hangscope.parse.columns import WriterKey, writer_key
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass

Node = tuple[str, ...]

_CONTAINER_PIDS = 1000
"""Below this, equal process ids of two unnamed machines are no wonder: every container counts from 1."""

_NODE_RANK = expression(r"--(?:node|machine)[-_]rank[=\s](\d{1,6})(?=\s|$)")
_PER_NODE = expression(r"--nproc[-_]per[-_]node[=\s](\d{1,6})(?=\s|$)")


def same_process(sources: Iterable[ParsedSource], nodes: Mapping[WriterKey, Node]) -> Iterator[tuple[Node, Node]]:
    """Pairs of nodes that have the same process id and nothing that speaks against their being one process."""
    dumped = {writer_key(dump.line) for source in sources for dump in source.dumps}
    by_pid: dict[int, list[WriterKey]] = defaultdict(list)
    for key in nodes:
        if key.pid is not None:
            by_pid[key.pid].append(key)
    for pid, keys in sorted(by_pid.items()):
        found = sorted({nodes[key] for key in keys})
        if len(found) < 2 or not any(key in dumped for key in keys):
            continue
        hosts = {node[1] for node in found} - {""}
        ranks = {key.rank for key in keys if key.rank is not None}
        folders = [key.file.rpartition("/")[0] for key in keys if key in dumped and nodes[key][1] == ""]
        if len(hosts) > 1 or len(ranks) > 1:
            continue
        if pid < _CONTAINER_PIDS and not ranks and not hosts and len(set(folders)) < len(folders):
            continue
        for other in found[1:]:
            yield found[0], other


@dataclass(frozen=True, slots=True)
class Guess:
    """Ranks by the order of process ids.

    Attributes:
        claims: the writer of each dump, and its rank.
        warning: what to say about it.
    """

    claims: tuple[tuple[WriterKey, Claim], ...]
    warning: str


def guess_by_pid(
    sources: Iterable[ParsedSource],
    owners: Owners,
    unknown: frozenset[WriterKey],
    known: AbstractSet[int],
    world_size: int | None,
) -> Guess | None:
    """Ranks in the order of process ids, the order in which launchers start them.

    Only when every process of the host has its dump: on a job of one host as many as the world has ranks, else as many
    as that host's launcher says that it starts.

    Args:
        sources: what was read.
        owners: whose the dumps are.
        unknown: writers whose rank nothing tells.
        known: ranks that logs name.
        world_size: of the job, when known, on one host; None for a job of several hosts.
    """
    by_host: dict[str, dict[int, list[WriterKey]]] = defaultdict(lambda: defaultdict(list))
    launchers: dict[str, ProcessDump] = {}
    dumped: dict[str, list[ProcessDump]] = defaultdict(list)
    for source in sources:
        for dump in source.dumps:
            host = owners.hosts[id(dump)] or ""
            if owners.roles[id(dump)] == LAUNCHER:
                launchers[host] = dump
            elif owners.roles[id(dump)] == RANK and dump.pid is not None:
                by_host[host][dump.pid].append(writer_key(dump.line))
                dumped[host].append(dump)
    claims: list[tuple[WriterKey, Claim]] = []
    for host, processes in by_host.items():
        if not all(key in unknown for keys in processes.values() for key in keys):
            return None
        first = _first_rank(launchers.get(host), len(processes))
        if first is None and len(by_host) == 1 and _spawned(launchers.get(host), dumped[host]):
            first = 0
        if first is None:
            # dumps of which nothing names the host are of one host only when nothing names another
            if len(by_host) > 1 or len(processes) != world_size or not known <= set(range(len(processes))):
                continue
            first = 0
        claims += [
            (key, Claim(first + index, "pid-order"))
            for index, pid in enumerate(sorted(processes))
            for key in processes[pid]
        ]
    if not claims:
        return None
    return Guess(tuple(claims), "no dump names its rank: ranks are guessed by the order of the process ids")


def _first_rank(launcher: ProcessDump | None, processes: int) -> int | None:
    """Rank of the first process of a host, by its launcher's command line, when all its processes are there."""
    if launcher is None:
        return None
    per_node, node = _PER_NODE.search(launcher.command), _NODE_RANK.search(launcher.command)
    if per_node is None or int(per_node[1]) != processes:
        return None
    if node is not None:
        return int(node[1]) * processes
    several = re.search(r"--nnodes[=\s](\S+)", launcher.command)
    return 0 if several is None or several[1] in ("1", "1:1") else None


def _spawned(launcher: ProcessDump | None, dumps: Iterable[ProcessDump]) -> bool:
    """Whether one torch.multiprocessing.spawn started all of them: py-spy --subprocesses shows every child of it."""
    if launcher is None or launcher.pid is None or any(dump.parent_pid != launcher.pid for dump in dumps):
        return False
    frames = (frame for thread in launcher.threads for frame in thread.frames)
    return any(f.function.endswith("start_processes") and (f.file or "").endswith("spawn.py") for f in frames)


def dump_writers(sources: Sequence[ParsedSource]) -> tuple[frozenset[WriterKey], frozenset[WriterKey]]:
    """The writers of dumps, and those who wrote nothing else (what stands around the dumps of a file is theirs)."""
    dumped = frozenset(writer_key(dump.line) for source in sources for dump in source.dumps)
    alone = frozenset(info.key for source in sources if only_dumps(source) for info in source.writers)
    return dumped, alone
