"""Who claims which global rank: what lines, launchers and failure tables say, and how far each is trusted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from hangscope.model import Event
from hangscope.parse.columns import WriterKey, writer_key
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass

MAX_RANKS = 1 << 20
"""Ten times the largest jobs there are; a larger number is torn from two, or made to exhaust memory."""

TRUST = {
    "nccl-init": 10,
    "rank-prefix": 9,
    "environment": 8,
    "rendezvous": 7,
    "group-prefix": 6,
    "mpirun": 5,
    "srun": 5,
    "test-table": 6,
    "command-line": 4,
    "process-title": 4,
    "dump-header": 4,
    "failure-table": 4,
    "ras": 4,
    "inspector": 4,
    "file-name": 3,
    "recorder": 2,
    "local-variable": 2,
    "local-rank": 1,
    "channel": 1,
    "device": 0,
    "pid-order": 0,
}
"""How much a source of rank numbers is trusted; what the process itself says of the world comes first."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody says that a process is this rank; `source` is a key of `TRUST`."""

    rank: int
    source: str


def best_claim(claims: Sequence[Claim]) -> Claim:
    """The claim of the most trustworthy source, among equals the most frequent one."""
    votes = Counter(claims)
    return max(votes.items(), key=lambda vote: (TRUST.get(vote[0].source, 0), vote[1], -vote[0].rank))[0]


_CLAIMING = ("comm_init_start", "comm_init_complete", "inspector_last", "environment_print")


def event_claims(source: ParsedSource, world: int | None) -> Iterator[tuple[Event, int, str]]:
    """The events of an input that state their rank of the world, with it and with who says so."""
    for event in source.by_kind.of(*_CLAIMING):
        for rank, origin in _claimed(event, world):
            yield event, rank, origin


def _claimed(event: Event, world: int | None) -> Iterator[tuple[int, str]]:
    fields = event.fields
    if event.kind in ("comm_init_start", "comm_init_complete"):
        rank, nranks = fields.get("group_rank"), fields.get("nranks")
        if isinstance(rank, int) and nranks == world and fields.get("parent") is None:
            yield rank, "nccl-init"
    elif event.kind == "inspector_last":
        rank = fields.get("group_rank")
        if isinstance(rank, int) and fields.get("nranks") == world:
            yield rank, "inspector"
    elif event.kind == "environment_print":
        rank = fields.get("rank")
        if isinstance(rank, int):
            yield rank, "environment"


def agent_ranks(source: ParsedSource) -> list[int]:
    """The last ``global_ranks=[...]`` that the agent of this file printed."""
    said = [e for e in source.by_kind.of("rendezvous_value") if e.fields.get("result_name") == "global_ranks"]
    return [int(number) for number in re.findall(r"\d+", str(said[-1].fields.get("value")))] if said else []


def failure_table(sources: Iterable[ParsedSource]) -> dict[int, int]:
    """pid -> global rank, by torchrun's ChildFailedError tables (``rank : 2 ...``, ``exitcode : -9 (pid: 8)``)."""
    ranks: dict[int, int] = {}
    for source in sources:
        current: int | None = None
        for event in source.by_kind.of("failure_rank", "failure_exitcode"):
            if event.kind == "failure_rank":
                value = event.fields.get("failed_rank")
                current = value if isinstance(value, int) else None
            elif current is not None:
                pid = event.fields.get("worker_pid")
                if isinstance(pid, int):
                    ranks[pid] = current
                current = None
    return ranks


def test_table(sources: Iterable[ParsedSource]) -> dict[int, int]:
    """pid -> global rank, by the list of devices at the head of nccl-tests' output, where each process is one rank."""
    listed: dict[int, set[int]] = {}
    for source in sources:
        for event in source.by_kind.of("bench_rank"):
            pid, rank = event.fields.get("worker_pid"), event.fields.get("listed_rank")
            if isinstance(pid, int) and isinstance(rank, int):
                listed.setdefault(pid, set()).add(rank)
    return {pid: next(iter(ranks)) for pid, ranks in listed.items() if len(ranks) == 1}


def edge_ranks(sources: Iterable[ParsedSource]) -> dict[WriterKey, int]:
    """Writer -> rank, by the channels that it opens, where one communicator of one rank a process is all there is.

    The side that is set up prints the line: the receiver of a ``[receive]``, else the sender.
    """
    numbers: dict[WriterKey, set[int]] = {}
    for source in sources:
        for event in source.by_kind.of("channel_edge"):
            side = "target" if str(event.fields.get("direction")).startswith("rec") else "source"
            number = event.fields.get(side)
            if isinstance(number, int):
                numbers.setdefault(writer_key(event.line), set()).add(number)
    processes = {(key.host, key.pid): ranks for key, ranks in numbers.items() if key.pid is not None}
    told = [next(iter(ranks)) for ranks in processes.values() if len(ranks) == 1]
    if len(told) != len(numbers) or len(set(told)) != len(told):
        return {}
    return {key: next(iter(ranks)) for key, ranks in numbers.items()}
