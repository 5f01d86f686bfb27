"""Finds out what part the process of each stack dump plays, whose child it is, and which rank its dump names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from hangscope.align import commands
from hangscope.align.claims import Claim
from hangscope.expressions import expression
from hangscope.model import Frame, ProcessDump
from hangscope.parse.columns import WriterKey, writer_key
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass

RANK, LOADER, CHECKPOINT, LAUNCHER, CHILD, HELPER = "rank", "loader", "checkpoint", "launcher", "child", "helper"

_HELPER_COMMAND = expression(
    r"torch[./]_inductor[./]compile_worker|multiprocessing[. ](?:resource_tracker|forkserver)"
    r"|wandb[-_./](?:service|core|internal)|\bray::IDLE|\braylet\b|\bgcs_server\b|(?:^|/)tensorboard\b|\bnvidia-smi\b"
    r"|\bpy-spy\b|(?:^|/)nvitop\b|pt_data_pin"
)
_LAUNCHER_FILES = (
    *("torch/distributed/launcher/api.py", "torch/distributed/run.py", "torch/distributed/launch.py"),
    *("accelerate/commands/launch.py", "deepspeed/launcher/launch.py", "deepspeed/launcher/runner.py"),
    *("horovod/runner/launch.py", "elastic/agent/server/api.py"),
)
# started by a launcher or by torch.multiprocessing.spawn, maybe forked with the parent's frames below
_STARTED_FILES = ("torch/distributed/elastic/multiprocessing/api.py", "torch/multiprocessing/spawn.py")
_CHECKPOINT_FILES = (
    *("checkpoint/_async_process_executor.py", "strategies/async_utils.py", "strategies/filesystem_async.py"),
    "nvidia_resiliency_ext/checkpointing/async_ckpt/core.py",
)
_SPAWNED_BY = "torch/multiprocessing/spawn.py"

_MAX_ALIKE = 64
"""Dumps of one process id that are looked at to find a parent: as many hosts may have that id."""

_HEADS = frozenset({"stack_thread", "thread_dump"})
"""Kinds of events that the head lines of dumps make."""

_RANK = expression(r"(?:^|\s)(?:--(?:global[-_])?rank[=\s]|RANK=)(\d{1,6})(?=\s|$)")
_TITLE = expression(
    r"(?:VLLM::Worker|vllm::worker|sglang::scheduler|SGLang::Scheduler)(?P<parts>(?:_[A-Z]+\d+)*)", re.IGNORECASE
)
_ENGINE = expression(r"(?:VLLM|vllm|sglang|SGLang)::")
_PART = expression(r"([A-Z]+)(\d+)", re.IGNORECASE)
_NODES = expression(r"--nnodes[=\s](\d{1,6})(?=\s|$)")
_PER_NODE = expression(r"--(?:nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus)[=\s](\d{1,6})(?=\s|$)")


@dataclass(slots=True)
class Owners:
    """Whose the dumps are. Dumps are told apart by ``id()``.

    Attributes:
        roles: what part the process plays.
        parents: the dump of the parent process, for children that have one.
        parent_pids: process ids of parents, where known.
        hosts: where the process ran, where known.
        children: writers that only wrote dumps of processes that are no ranks.
    """

    roles: dict[int, str] = field(default_factory=dict)
    parents: dict[int, ProcessDump] = field(default_factory=dict)
    parent_pids: dict[int, int] = field(default_factory=dict)
    hosts: dict[int, str | None] = field(default_factory=dict)
    children: frozenset[WriterKey] = frozenset()


def only_dumps(source: ParsedSource) -> bool:
    """Whether a file holds stack dumps and no messages."""
    return bool(source.dumps) and _HEADS.issuperset(source.by_kind.kinds)


def find_owners(sources: Sequence[ParsedSource], hosts: Mapping[str, str | None]) -> Owners:
    """Roles and parents of all dumps; `hosts` gives the host that a file's name speaks of."""
    owners = Owners()
    dumps = [dump for source in sources for dump in source.dumps]
    for dump in dumps:
        owners.hosts[id(dump)] = dump.line.host or hosts.get(dump.line.file)
    parents = _parent_table(sources, hosts)
    by_pid: dict[int, list[ProcessDump]] = defaultdict(list)
    for dump in dumps:
        if dump.pid is not None:
            if len(by_pid[dump.pid]) < _MAX_ALIKE:
                by_pid[dump.pid].append(dump)
            parent = dump.parent_pid
            if parent is None:
                host = owners.hosts[id(dump)]
                parent = parents.get((host, dump.pid), parents.get((None, dump.pid)))
            if parent is not None:
                owners.parent_pids[id(dump)] = parent
        owners.roles[id(dump)] = _own_role(dump)
    told = _told_roles(sources)
    for dump in dumps:
        _join_parent(dump, owners, by_pid)
    for dump in dumps:
        role = told.get((owners.hosts[id(dump)], dump.pid))
        if role in (RANK, LOADER, CHECKPOINT, LAUNCHER, CHILD, HELPER):
            owners.roles[id(dump)] = str(role)
    for source in sources:
        _join_by_order(source.dumps, owners)
    _demote_engines(dumps, owners)
    owners.children = frozenset(_children(sources, owners))
    return owners


def _children(sources: Iterable[ParsedSource], owners: Owners) -> Iterator[WriterKey]:
    """Writers whose lines say nothing of a rank, whatever the name of their file."""
    ranks = {writer_key(d.line) for source in sources for d in source.dumps if owners.roles[id(d)] == RANK}
    for source in sources:
        keys = [writer_key(dump.line) for dump in source.dumps]
        yield from (key for key in keys if key not in ranks and key.pid is not None)
        if only_dumps(source) and not any(key in ranks for key in keys):
            # what stands around the dumps is of the same process
            yield from (info.key for info in source.writers)


def _demote_engines(dumps: Iterable[ProcessDump], owners: Owners) -> None:
    """The process that hands out an inference server's work is no rank where workers have processes of their own."""
    if any(_title_parts(dump.command) for dump in dumps):
        for dump in dumps:
            if _ENGINE.match(dump.command) and not _title_parts(dump.command):
                owners.roles[id(dump)] = LAUNCHER


def _parent_table(
    sources: Iterable[ParsedSource], hosts: Mapping[str, str | None]
) -> dict[tuple[str | None, int], int]:
    """(host, process id) -> its parent's, by tables of processes."""
    found: dict[tuple[str | None, int], int] = {}
    for source in sources:
        for event in source.by_kind.of("process_state"):
            pid, parent = event.number("process"), event.number("parent")
            if pid is not None and parent is not None:
                found[event.line.host or hosts.get(event.line.file), pid] = parent
    return found


def _told_roles(sources: Iterable[ParsedSource]) -> dict[tuple[str | None, int | None], str]:
    """(host, process id) -> role, as attach saw it."""
    found: dict[tuple[str | None, int | None], str] = {}
    for source in sources:
        for event in source.by_kind.of("attach_process"):
            host, role = event.fields.get("host"), event.fields.get("role")
            if isinstance(host, str) and isinstance(role, str):
                found[host, event.number("process")] = role
    return found


def _own_role(dump: ProcessDump) -> str:
    """The role as the dump itself shows it."""
    if _HELPER_COMMAND.search(dump.command):
        return HELPER
    frames = [frame for thread in dump.threads for frame in thread.frames]
    if any(_is(frame, "_worker_loop", "data/_utils/worker.py") for frame in frames) or dump.command == "pt_data_worker":
        return LOADER
    forked = any(_is(frame, "_bootstrap", "multiprocessing/process.py") for frame in frames)
    if forked and any((frame.file or "").endswith(_CHECKPOINT_FILES) for frame in frames):
        return CHECKPOINT
    started = any(frame.function.endswith("_wrap") and (frame.file or "").endswith(_STARTED_FILES) for frame in frames)
    if started:
        return RANK
    if commands.LAUNCHER.search(dump.command) or any((frame.file or "").endswith(_LAUNCHER_FILES) for frame in frames):
        return LAUNCHER
    if any(_is(frame, "join", _SPAWNED_BY) for frame in frames):
        return LAUNCHER
    return RANK


def _is(frame: Frame, function: str, file: str) -> bool:
    return frame.function.rpartition(".")[2] == function and (frame.file or "").endswith(file)


def _join_parent(dump: ProcessDump, owners: Owners, by_pid: Mapping[int, Sequence[ProcessDump]]) -> None:
    """Finds the parent's dump; a child of a rank is no rank itself, unless it takes part where its parent does not."""
    pid, host = owners.parent_pids.get(id(dump)), owners.hosts[id(dump)]
    candidates = (
        [
            other
            for other in by_pid.get(pid, ())
            if other is not dump and owners.hosts[id(other)] in (host, None) and other.pid != dump.pid
        ]
        if pid is not None
        else []
    )
    if not candidates:
        return
    parent = next((other for other in candidates if other.line.file == dump.line.file), candidates[0])
    role, parent_role = owners.roles[id(dump)], owners.roles[id(parent)]
    if role == RANK and parent_role == RANK:
        if _takes_part(dump) and not _takes_part(parent):
            owners.roles[id(parent)] = LAUNCHER
            return
        owners.roles[id(dump)] = CHILD
    if owners.roles[id(dump)] in (LOADER, CHECKPOINT, CHILD, HELPER) and parent_role != LAUNCHER:
        owners.parents[id(dump)] = parent


def _takes_part(dump: ProcessDump) -> bool:
    """Whether the process is in a call of torch.distributed."""
    return any((f.file or "").endswith("distributed_c10d.py") for thread in dump.threads for f in thread.frames)


def _join_by_order(dumps: Iterable[ProcessDump], owners: Owners) -> None:
    """py-spy dump --subprocesses prints the children behind their parent, some versions without naming it."""
    before: ProcessDump | None = None
    for dump in dumps:
        role = owners.roles[id(dump)]
        if role == RANK:
            before = dump
        elif role in (LOADER, CHECKPOINT) and before is not None and id(dump) not in owners.parent_pids:
            # a parent that is known, but has no dump here, would be somebody else
            owners.parents.setdefault(id(dump), before)


# --- ranks that dumps name -----------------------------------------------------------------------------------


def claims_of(sources: Iterable[ParsedSource], owners: Owners) -> Iterator[tuple[WriterKey, Claim]]:
    """Writers of dumps, and the ranks that command lines, process titles and local variables name for them."""
    dumps = [d for source in sources for d in source.dumps if owners.roles[id(d)] == RANK]
    titles = {id(dump): parts for dump in dumps if (parts := _title_parts(dump.command))}
    sizes: dict[str, int] = defaultdict(int)
    for parts in titles.values():
        for name, number in parts.items():
            sizes[name] = max(sizes[name], number + 1)
    for dump in dumps:
        key = writer_key(dump.line)
        stated = _RANK.search(dump.command)
        if stated:
            yield key, Claim(int(stated[1]), "command-line")
        if id(dump) in titles:
            yield key, Claim(_rank_of_title(titles[id(dump)], sizes), "process-title")
        rank = dump.values.get("rank", "")
        if rank.isdecimal() and len(rank) < 8:
            yield key, Claim(int(rank), "local-variable")


def local_ranks(sources: Iterable[ParsedSource], owners: Owners) -> dict[WriterKey, int]:
    """Writer -> local rank, as command lines and local variables of dumps name it."""
    found: dict[WriterKey, int] = {}
    for source in sources:
        for dump in source.dumps:
            if owners.roles[id(dump)] != RANK:
                continue
            stated = commands.LOCAL_RANK.search(dump.command)
            value = stated[1] if stated else dump.values.get("local_rank", "")
            if value.isdecimal() and len(value) < 7:
                found[writer_key(dump.line)] = int(value)
    return found


def size_by_launchers(sources: Iterable[ParsedSource], owners: Owners) -> int:
    """World size by the command line of a launcher whose dump is there (``--nnodes=2 --nproc-per-node=8``), else 0."""
    for source in sources:
        for dump in source.dumps:
            per_node = _PER_NODE.search(dump.command) if owners.roles[id(dump)] == LAUNCHER else None
            if per_node:
                nodes = _NODES.search(dump.command)
                return int(per_node[1]) * (int(nodes[1]) if nodes else 1)
    return 0


def _title_parts(command: str) -> dict[str, int]:
    found = _TITLE.match(command)
    return {name.upper(): int(number) for name, number in _PART.findall(found["parts"])} if found else {}


def _rank_of_title(parts: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """``Worker_PP1_TP3``: tensor-parallel ranks are neighbours, then pipeline stages, then replicas."""
    rank = 0
    for name in ("DP", "PP", "TP"):
        if name in parts:
            rank = rank * max(sizes[name], 1) + parts[name]
    return rank
