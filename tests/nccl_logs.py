"""Writes small NCCL logs: the lines that alignment lives on, in the words of a given version."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

from hangscope.align.job import Job, align
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource

COMM = 0x7F00_0000_1000
WORLD_ID = 0xBBD7CDAF5C9B0794


def parse(text: str | bytes | Iterable[str], name: str = "job.log") -> ParsedSource:
    """A text, bytes or lines, read as the input of that name."""
    if isinstance(text, bytes):
        return read_stream(name, io.BytesIO(text))
    whole = text if isinstance(text, str) else "".join(f"{line}\n" for line in text)
    return read_stream(name, io.BytesIO(whole.encode()))


def job_of(files: Mapping[str, str | bytes | Iterable[str]]) -> Job:
    """The job of some files, given by name."""
    return align([parse(text, name) for name, text in files.items()])


class Rank:
    """The log of one rank: two ranks a host, pid 100 + rank.

    Attributes:
        lines: what it wrote so far.
    """

    def __init__(self, rank: int, world: int, *, host: str | None = None, comm: int = COMM) -> None:
        self.rank, self.world = rank, world
        self.host = host or f"node{rank // 2 + 1:02d}"
        self.pid = 100 + rank
        self.comm = comm + rank * 0x100000
        self.lines: list[str] = []

    def say(self, text: str, *, warn: str = "") -> Rank:
        """An INFO line, or a WARN line of that source file and line."""
        level = f"{warn} NCCL WARN" if warn else "NCCL INFO"
        self.lines.append(f"{self.host}:{self.pid}:{self.pid} [{self.rank % 2}] {level} {text}")
        return self

    def init(
        self,
        stages: Sequence[str] = ("Init START", "Init COMPLETE"),
        *,
        comm: int = 0,
        rank: int | None = None,
        size: int = 0,
        comm_id: int | None = WORLD_ID,
    ) -> Rank:
        """The init of the world's communicator (or another one)."""
        group_rank, nranks = self.rank if rank is None else rank, size or self.world
        devices = "cudaDev 0 nvmlDev 0 busId 19000"
        head = f"ncclCommInitRank comm 0x{comm or self.comm:x} rank {group_rank} nranks {nranks} {devices}"
        shown = f" commId 0x{comm_id:x}" if comm_id is not None else ""
        for stage in stages:
            self.say(f"{head}{shown} - {stage}")
        return self

    def split(
        self, comm: int, rank: int, size: int, color: int, *, count: int | None = None, comm_id: int | None = None
    ) -> Rank:
        """A child of the world's communicator (splitCount from 2.23 on, commId in 2.21, 2.22 and from 2.31.2 on)."""
        number = f" splitCount {count}" if count is not None else ""
        shown = f" commId 0x{comm_id:x}" if comm_id is not None else ""
        text = (
            f"ncclCommSplit comm 0x{comm:x} rank {rank} nranks {size} cudaDev 0 nvmlDev 0 busId 19000 "
            f"parent 0x{self.comm:x}{number} color {color} key {self.rank}{shown} - Init COMPLETE"
        )
        return self.say(text)

    def call(
        self, op: str = "AllReduce", count: int = 1024, *, dtype: int = 7, root: int = 0, redop: int = 0, comm: int = 0,
        nranks: int = 0, op_count: int = 0,
    ) -> Rank:  # fmt: skip
        """One collective or point-to-point call."""
        return self.say(
            f"{op}: opCount {op_count:x} sendbuff 0x7f02 recvbuff 0x7f03 count {count} datatype {dtype} op {redop} "
            f"root {root} comm 0x{comm or self.comm:x} [nranks={nranks or self.world}] stream 0x55"
        )

    def end(self, action: str = "Destroy", *, comm: int = 0) -> Rank:
        """The end of a communicator."""
        head = f"comm 0x{comm or self.comm:x} rank {self.rank} nranks {self.world} cudaDev 0 busId 19000"
        return self.say(f"{head} - {action} COMPLETE")


def ranks(world: int) -> list[Rank]:
    """Ranks that completed the init of the world's communicator."""
    return [Rank(rank, world).init() for rank in range(world)]


def job_of_ranks(logs: Iterable[Rank]) -> Job:
    """The job of these ranks' logs, each in a file whose name tells nothing."""
    return job_of({f"{chr(97 + i % 26)}{i}.log": log.lines for i, log in enumerate(logs)})
