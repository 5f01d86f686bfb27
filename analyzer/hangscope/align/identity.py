"""Finds out which writer is which process, and which process is which global rank.

No single line says it all: NCCL prints host, pid and the rank inside a communicator, torch prefixes the
global rank without a pid, launchers prefix task numbers, files are named after ranks or hosts. Writers that
must be one process are united first; then each process takes the rank that its most trustworthy source
claims. Sources that contradict each other become warnings, never silence.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable

from hangscope.align.attached import find_attached, find_hosts, pid_in_name
from hangscope.align.claims import (
    MAX_RANKS,
    TRUST,
    Claim,
    agent_ranks,
    best_claim,
    edge_ranks,
    event_claims,
    failure_table,
    test_table,
)
from hangscope.align.dump_identity import dump_writers, guess_by_pid, same_process
from hangscope.align.dump_owners import Owners, claims_of, find_owners, local_ranks, size_by_launchers
from hangscope.align.process import Process, gpu_of
from hangscope.align.ras_reports import told_ranks
from hangscope.align.unite import Union
from hangscope.align.world import world_size
from hangscope.parse.columns import WriterKey, writer_key
from hangscope.parse.source import ParsedSource, WriterInfo
from hangscope.records import dataclass
from hangscope.sources.origin import FileHints, hints

Node = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """The processes, and who is who.

    Attributes:
        processes: all of them, those with a rank first.
        by_writer: the process of each writer.
        by_event: ``id`` of an event -> the process that printed it.
        ranks: global rank -> process.
        world_size: as the job itself says, or None.
        duplicates: ranks that two living processes claim, with these processes.
        warnings: sources that contradict each other.
        owners: whose the stack dumps are.
    """

    processes: tuple[Process, ...]
    by_writer: dict[WriterKey, Process]
    by_event: dict[int, Process]
    ranks: dict[int, Process]
    world_size: int | None
    duplicates: dict[int, tuple[Process, ...]]
    warnings: tuple[str, ...]
    owners: Owners


def identify(sources: Iterable[ParsedSource]) -> Identity:
    """Unites writers to processes and gives them their global ranks."""
    return _Identifier(list(sources)).identify()


class _Identifier:
    def __init__(self, sources: list[ParsedSource]) -> None:
        self._sources = sources
        self._hints: dict[str, FileHints] = {s.record.file: hints(s.record.file) for s in sources}
        self._attached = find_attached(sources)
        self._attached_hosts = find_hosts(self._hints, self._attached)
        for file, host in self._attached_hosts.items():
            self._hints[file] = dataclasses.replace(self._hints[file], host=host)
        self._union: Union[Node] = Union()
        self._writers: dict[WriterKey, WriterInfo] = {w.key: w for s in sources for w in s.writers}
        self._nodes: dict[WriterKey, Node] = {}
        self._claims: dict[Node, list[Claim]] = defaultdict(list)
        self._warnings: list[str] = []
        self._owners = find_owners(sources, {file: hint.host for file, hint in self._hints.items()})
        self._dumps, self._only_dumps = dump_writers(sources)
        self._world_size = world_size(sources) or size_by_launchers(sources, self._owners) or None

    def identify(self) -> Identity:
        for source in self._sources:
            self._place(source)
        self._unite_folders()
        self._unite_attached()
        for one, other in same_process(self._sources, self._nodes):
            self._union.unite(one, other)
        self._unite_names()
        self._claim_all()
        self._unite_dumps()
        by_writer, by_event, processes = self._processes()
        ranks, duplicates = self._ranks(processes)
        processes.sort(key=lambda p: (p.rank is None, p.rank or 0, p.host or "", p.pid or 0, p.files))
        return Identity(
            processes=tuple(processes),
            by_writer=by_writer,
            by_event=by_event,
            ranks=ranks,
            world_size=self._world_size,
            duplicates=duplicates,
            warnings=tuple(self._warnings),
            owners=self._owners,
        )

    # --- writers to nodes -------------------------------------------------------------------------------

    def _place(self, source: ParsedSource) -> None:
        """Gives every writer of a file its node, and unites the nodes that must be one process."""
        file = source.record.file
        keys = [w.key for w in source.writers]
        stream_ranks, stream_pids = _per_stream(keys)
        host = self._hints[file].host
        for key in keys:
            node = _node(key, stream_ranks, host)
            self._nodes[key] = node
            self._union.add(node)
            if key.rank is not None and key.rank_source == "rank-prefix" and len(stream_ranks[key.stream]) == 1:
                self._union.unite(node, ("rank", str(key.rank)))
            if key.pid is not None and key.stream and len(stream_pids[key.stream]) == 1:
                self._union.unite(node, ("stream", file, key.stream))
        pids = {self._nodes[key] for key in keys if key.pid is not None}
        if len(pids) == 1 and not any(key.stream for key in keys):
            self._union.unite(next(iter(pids)), ("file", file))

    def _unite_folders(self) -> None:
        """torchrun's LOG_DIR/attempt_K/LOCAL_RANK/{stdout,stderr}.log: two files, one process."""
        folders: dict[str, Node] = {}
        for file, hint in self._hints.items():
            folder, _, _ = file.rpartition("/")
            if hint.local_rank is not None and folder:
                self._union.unite(folders.setdefault(folder, ("file", file)), ("file", file))

    def _unite_attached(self) -> None:
        """Files of an attach bundle are named after the process that they are about."""
        known = {("pid", one.host, str(one.pid)) for one in self._attached}
        for key, node in self._nodes.items():
            host, pid = self._attached_hosts.get(key.file), pid_in_name(key.file)
            if host is not None and pid is not None and key.pid is None and not key.stream:
                process = ("pid", host, str(pid))
                if process in known:
                    self._union.unite(process, node)

    def _unite_names(self) -> None:
        """rank3.out and rank3.err: the lines with a pid and those without one that a rank left under its name."""
        named: dict[int, set[Node]] = defaultdict(set)
        pids: dict[int, set[Node]] = defaultdict(set)
        for key, node in self._nodes.items():
            rank = self._hints[key.file].rank
            if rank is not None and not key.stream and key not in self._owners.children:
                (named if key.pid is None else pids)[rank].add(node)
        for rank, nodes in named.items():
            roots = {self._union.find(node) for node in pids[rank]}
            if len(roots) <= 1:
                # no pid: the lines of a process that states the rank itself, as far as there is one
                anchor = next(iter(roots), ("rank", str(rank)))
                for node in nodes:
                    self._union.unite(anchor, node)

    # --- claims -----------------------------------------------------------------------------------------

    def _claim_all(self) -> None:
        for key in self._writers:
            if key.rank is not None:
                self._claim(key, key.rank, key.rank_source)
        for source in self._sources:
            for event, rank, origin in event_claims(source, self._world_size):
                self._claim(writer_key(event.line), rank, origin)
            self._claim_by_file(source)
        self._claim_by_process_ids()
        for one in self._attached:
            process = ("pid", one.host, str(one.pid))
            if one.rank is not None and one.rank < MAX_RANKS:
                self._claims[self._union.find(process)].append(Claim(one.rank, "environment"))
        self._claim_by_rendezvous()
        for key, claim in claims_of(self._sources, self._owners):
            self._claim(key, claim.rank, claim.source)
        self._claim_by_local_rank()
        self._claim_by_device()
        self._claim_by_channel()
        self._guess()

    def _claim(self, key: WriterKey, rank: int, source: str) -> None:
        node = self._nodes.get(key)
        if node is not None and 0 <= rank < MAX_RANKS and key not in self._owners.children:
            self._claims[self._union.find(node)].append(Claim(rank, source))

    def _claim_by_file(self, source: ParsedSource) -> None:
        rank = self._hints[source.record.file].rank
        writers = {self._union.find(self._nodes[w.key]) for w in source.writers if w.key not in self._owners.children}
        if rank is not None and len(writers) == 1:
            self._claims[next(iter(writers))].append(Claim(rank, "file-name"))

    def _claim_by_process_ids(self) -> None:
        """Ranks with pids: torchrun's ChildFailedError table of what it lost, RAS, the head of nccl-tests' output."""
        by_pid: dict[int, list[Node]] = defaultdict(list)
        for key, node in self._nodes.items():
            if key.pid is not None:
                by_pid[key.pid].append(node)
        tables = (
            ("failure-table", failure_table(self._sources)),
            ("ras", told_ranks(self._sources)),
            ("test-table", test_table(self._sources)),
        )
        for source, table in tables:
            for pid, rank in table.items():
                roots = {self._union.find(node) for node in by_pid.get(pid, [])}
                if len(roots) == 1 and rank < MAX_RANKS:
                    self._claims[next(iter(roots))].append(Claim(rank, source))

    def _claim_by_rendezvous(self) -> None:
        """torchrun's agent prints the global ranks of its workers (``global_ranks=[4, 5]``), by local rank."""
        for source in self._sources:
            ranks = agent_ranks(source)
            for writer in source.writers:
                local_rank = writer.key.local_rank
                if local_rank is not None and local_rank < len(ranks):
                    self._claim(writer.key, ranks[local_rank], "rendezvous")

    def _claim_by_local_rank(self) -> None:
        """On a job of one host the local rank is the global rank."""
        hosts = {h for h in (key.host or self._hints[key.file].host for key in self._writers) if h}
        # torchrun's log folders (LOG_DIR/RUN/attempt_K/LOCAL_RANK) are one agent's, whatever the number of their files
        agents = {key.file.partition("/attempt_")[0] for key in self._writers if key.local_rank is not None}
        if len(hosts) > 1 or len(agents) > 1:
            return
        told = local_ranks(self._sources, self._owners)
        for key in self._writers:
            local_rank = key.local_rank if key.local_rank is not None else self._hints[key.file].local_rank
            local_rank = told.get(key) if local_rank is None else local_rank
            if local_rank is not None:
                self._claim(key, local_rank, "local-rank")

    def _claim_by_device(self) -> None:
        """Where nothing else tells any rank, calls of one host are of the rank that their device's number is."""
        devices = {key: device for source in self._sources for key, device in source.calls.devices.items()}
        hosts = {key.host for key in self._writers if key.host}
        fits = len(set(devices.values())) == len(devices) and max(devices.values(), default=0) < (self._world_size or 0)
        if any(self._claims.values()) or len(hosts) != 1 or not fits:
            return
        for key, device in devices.items():
            self._claim(key, device, "device")

    def _claim_by_channel(self) -> None:
        """Where nothing else tells any rank, the channels that NCCL connects do."""
        if any(self._claims.values()):
            return
        for key, rank in edge_ranks(self._sources).items():
            self._claim(key, rank, "channel")

    def _guess(self) -> None:
        """Where nothing tells the ranks of dumps, the order of their process ids does, if their number fits."""
        unknown = frozenset(key for key in self._dumps if not self._claims.get(self._union.find(self._nodes[key])))
        known = {claim.rank for claims in self._claims.values() for claim in claims}
        one_host = len({host for key in self._writers if (host := key.host or self._hints[key.file].host)}) <= 1
        size = self._world_size or (len(known) if known == set(range(len(known))) else None)
        guess = guess_by_pid(self._sources, self._owners, unknown, known, size if one_host else None)
        for key, claim in guess.claims if guess is not None else ():
            self._claim(key, claim.rank, claim.source)
        if guess is not None:
            self._warnings.append(guess.warning)

    def _unite_dumps(self) -> None:
        """A dump of rank 3 is of the process whose log is rank 3's, as long as there is one only and no pid differs."""
        members: dict[Node, list[WriterKey]] = defaultdict(list)
        for key, node in self._nodes.items():
            members[self._union.find(node)].append(key)
        logs: dict[int, list[Node]] = defaultdict(list)
        dumps: dict[int, list[Node]] = defaultdict(list)
        for root, keys in members.items():
            if claims := self._claims.get(root):
                (dumps if self._only_dumps.issuperset(keys) else logs)[best_claim(claims).rank].append(root)
        for rank, roots in dumps.items():
            if len(logs[rank]) == 1:
                for root in roots:
                    pids = {key.pid for key in (*members[logs[rank][0]], *members[root])} - {None}
                    if len(pids) <= 1:
                        claims = [*self._claims.pop(logs[rank][0]), *self._claims.pop(root)]
                        self._union.unite(logs[rank][0], root)
                        logs[rank] = [self._union.find(root)]
                        members[logs[rank][0]] = [*members[logs[rank][0]], *members[root]]
                        self._claims[logs[rank][0]] = claims

    # --- processes --------------------------------------------------------------------------------------

    def _processes(self) -> tuple[dict[WriterKey, Process], dict[int, Process], list[Process]]:
        ranked: dict[Node, Process] = {}
        by_writer: dict[WriterKey, Process] = {}
        # a dump that lies beside a rank's log is neither its first nor its last word
        dump_files = {key.file for key in self._only_dumps}
        for key, node in sorted(self._nodes.items(), key=lambda item: item[0] in self._only_dumps):
            root = self._union.find(node)
            process = ranked.get(root)
            if process is None:
                process = ranked[root] = Process()
                self._decide_rank(process, self._claims.get(root, []))
            by_writer[key] = process
            process.describe(key, self._hints[key.file])
            last = process.last_line
            if key not in self._only_dumps or last is None or last.file in dump_files:
                process.add_lines(self._writers[key])
        by_event: dict[int, Process] = {}
        for source in self._sources:
            # a key costs as much as a dozen looks at a tuple, and a file has few writers
            known: dict[tuple[object, ...], Process] = {}
            for event in source.events:
                line = event.line
                who = (line.file, line.stream, line.host, line.pid, line.rank, line.rank_source, line.local_rank)
                process = known.get(who)
                if process is None:
                    process = known[who] = by_writer[writer_key(line)]
                by_event[id(event)] = process
                process.events.append(event)
        for process in ranked.values():
            inits = map(gpu_of, process.by_kind.of("comm_init_start", "comm_init_complete"))
            process.gpu = next((gpu for gpu in inits if gpu is not None), None)
            if process.host is None:
                prints = (event.fields.get("host") for event in process.by_kind.of("environment_print"))
                process.host = next((host for host in prints if isinstance(host, str)), None)
        return by_writer, by_event, list(ranked.values())

    def _decide_rank(self, process: Process, claims: list[Claim]) -> None:
        if not claims:
            return
        votes = Counter(claims)
        best = best_claim(claims)
        process.rank, process.rank_source = best.rank, best.source
        others = sorted({(c.rank, c.source) for c in votes if c.rank != best.rank and c.source != "local-rank"})
        if others:
            said = ", ".join(f"{source} says {rank}" for rank, source in others[:3])
            self._warnings.append(f"rank {best.rank} (by {best.source}) has other numbers elsewhere: {said}")

    def _ranks(self, processes: list[Process]) -> tuple[dict[int, Process], dict[int, tuple[Process, ...]]]:
        """Unites what claims the same rank, unless these are two processes that both took part."""
        found: dict[int, list[Process]] = defaultdict(list)
        for process in processes:
            if process.rank is not None:
                found[process.rank].append(process)
        ranks: dict[int, Process] = {}
        duplicates: dict[int, tuple[Process, ...]] = {}
        for rank, claimants in sorted(found.items()):
            claimants.sort(key=lambda p: (-TRUST.get(p.rank_source, 0), p.pid is None, p.files))
            ranks[rank] = claimants[0]
            rivals = [p for p in claimants if _is_rival(claimants[0], p)]
            if rivals:
                duplicates[rank] = (claimants[0], *rivals)
        return ranks, duplicates


def _is_rival(first: Process, other: Process) -> bool:
    """Two processes that state the same rank of the world themselves and cannot be one."""
    stated = TRUST["environment"]
    if other is first or min(TRUST.get(first.rank_source, 0), TRUST.get(other.rank_source, 0)) < stated:
        return False
    return (first.host, first.pid, first.files) != (other.host, other.pid, other.files)


def _per_stream(keys: Iterable[WriterKey]) -> tuple[dict[str, set[int]], dict[str, set[tuple[str | None, int]]]]:
    ranks: dict[str, set[int]] = defaultdict(set)
    pids: dict[str, set[tuple[str | None, int]]] = defaultdict(set)
    for key in keys:
        if key.rank is not None:
            ranks[key.stream].add(key.rank)
        if key.pid is not None:
            pids[key.stream].add((key.host, key.pid))
    return ranks, pids


def _node(key: WriterKey, stream_ranks: dict[str, set[int]], file_host: str | None) -> Node:
    """The node of a writer: its pid if it has one, else its stream, else the rank it states, else its file."""
    if key.pid is not None:
        host = key.host or file_host
        return ("pid", host, str(key.pid)) if host else ("pid", "", str(key.pid), key.file)
    shared = len(stream_ranks.get(key.stream, ())) > 1
    if key.rank is not None and key.rank_source != "file-name" and (shared or not key.stream):
        return ("rank", str(key.rank))
    return ("stream", key.file, key.stream) if key.stream else ("file", key.file)
