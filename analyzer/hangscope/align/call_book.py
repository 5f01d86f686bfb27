"""The numbered calls of every group, rank by rank, whichever source has them: what timelines are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hangscope.align.collectives import Parting, StuckCall
from hangscope.model.names import natural_order
from hangscope.records import dataclass

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

_T = TypeVar("_T")

MADE, STARTED, DONE = 0, 1, 2
"""How far a call came, as its source tells; NCCL's lines tell of no call more than that it was made."""


@dataclass(frozen=True, slots=True)
class CallKind:
    """What calls that look the same have in common.

    Attributes:
        op: in PyTorch's spelling.
        size: counts and types in words, or "".
        where: line of the job's own code, or "".
        words: the call in words ("broadcast of 4096 float32, root 1").
    """

    op: str
    size: str
    where: str
    words: str


@dataclass(frozen=True, slots=True)
class RankCalls:
    """Calls of one rank in one group, one entry a call, by number.

    Attributes:
        seq: number of the call, each once.
        kind: index into `CallBook.kinds`.
        agreement: equal for calls that fit together, on whichever rank.
        reached: `MADE`, `STARTED` or `DONE`.
        time: when it was made, seconds as in `Line.time`, NaN where unknown.
        file: index into `CallBook.files`.
        line: 1-based line there, 0 where there is none.
    """

    seq: Ints
    kind: Codes
    agreement: Ints
    reached: Bytes
    time: Floats
    file: Codes
    line: Codes


@dataclass(frozen=True, slots=True)
class RankTransfers:
    """Sends and receives of one rank, one entry each, in the order in which it made them.

    Attributes:
        group: index into `CallBook.group_names`.
        is_send: a send; else a receive.
        peer: global rank of the other side, -1 where unknown.
        seq: number among its transfers with this peer in this group and direction, from the first that is known.
        kind, reached, time, file, line: as in `RankCalls`.
    """

    group: Codes
    is_send: npt.NDArray[np.bool_]
    peer: Ints
    seq: Ints
    kind: Codes
    reached: Bytes
    time: Floats
    file: Codes
    line: Codes

    def __len__(self) -> int:
        return len(self.seq)


ReadTransfers = Callable[[int, int | None], RankTransfers]
"""Gives the last so many transfers of a rank, all when None."""
Read = Callable[[int, int, int], RankCalls]
"""Gives the calls of a rank from one number up to, and without, another."""


@dataclass(frozen=True, slots=True)
class GroupBook:
    """One group: who is in it, how far each came, and a way to read the calls.

    Attributes:
        name, description, size: as in `GroupHistory`.
        ranks: its known global ranks, ascending.
        first: rank -> number of the first call that is still known.
        ends: rank -> number behind its last call; only ranks whose calls can be compared.
        stuck: the call of the group that cannot complete, or None.
        lags: ranks whose evidence is older than that of the others.
        tells_state: the source tells of each call how far it came.
        read: reads calls.
        numbers: gives the numbers of all calls that any rank made, ascending; a dump may hold any numbers.
    """

    name: str
    description: str
    size: int | None
    ranks: tuple[int, ...]
    first: Mapping[int, int]
    ends: Mapping[int, int]
    stuck: StuckCall | None
    lags: frozenset[int]
    tells_state: bool
    read: Read
    numbers: Callable[[], Ints]

    @property
    def frontier(self) -> int | None:
        """Number of the first call that cannot complete, None when there is none."""
        return None if self.stuck is None else self.stuck.seq

    @property
    def begin(self) -> int:
        """Number of the first call that any rank's evidence still holds."""
        return min(self.first.values(), default=0)

    @property
    def end(self) -> int:
        """Number behind the last call that any rank made."""
        return max(self.ends.values(), default=0)

    def window(self, calls: int) -> tuple[int, int]:
        """Numbers (from, up to and without) of the last calls: the stuck one is inside, and some beyond it."""
        last = self.end
        if self.frontier is not None:
            last = max(min(last, self.frontier + 1 + calls // 3), self.frontier + 1)
        return max(last - calls, self.begin), last


@dataclass(slots=True)
class CallBook:
    """The calls of one source.

    Attributes:
        source: "calls" or "recorder".
        groups: those with a call, the stuck ones first (as in `Job.stuck`), then by name.
        kinds, files, group_names: what the numbers of `RankCalls` and `RankTransfers` stand for; they grow while calls
            are read.
        movers: ranks that sent or received, ascending.
        transfers: reads what they sent and received.
    """

    source: str
    transfers: ReadTransfers
    groups: list[GroupBook] = field(default_factory=list)
    movers: tuple[int, ...] = ()
    kinds: list[CallKind] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    group_names: list[str] = field(default_factory=list)
    _kind_numbers: dict[CallKind, int] = field(default_factory=dict)
    _file_numbers: dict[str, int] = field(default_factory=dict)
    _group_numbers: dict[str, int] = field(default_factory=dict)

    def kind_number(self, kind: CallKind) -> int:
        """Index of a kind in `kinds`, made when new."""
        return _numbered(kind, self._kind_numbers, self.kinds)

    def file_number(self, file: str) -> int:
        """Index of a file in `files`, made when new."""
        return _numbered(file, self._file_numbers, self.files)

    def group_number(self, name: str) -> int:
        """Index of a group in `group_names`, made when new."""
        return _numbered(name, self._group_numbers, self.group_names)

    def sort(self, stuck: Mapping[str, StuckCall]) -> None:
        """Puts the groups into their order."""
        order = {name: place for place, name in enumerate(stuck)}
        self.groups.sort(key=lambda group: (order.get(group.name, len(order)), natural_order(group.name)))


def _numbered(value: _T, numbers: dict[_T, int], values: list[_T]) -> int:
    number = numbers.get(value)
    if number is None:
        number = numbers[value] = len(values)
        values.append(value)
    return number


def counted(keys: Ints) -> Ints:
    """How often each value stood before, value by value: 5, 6, 5 gives 0, 0, 1."""
    _, of_row, counts = np.unique(keys, return_inverse=True, return_counts=True)
    order = np.argsort(of_row, kind="stable")
    starts = np.cumsum(counts) - counts
    before = np.empty(len(keys), dtype=np.int64)
    before[order] = np.arange(len(keys)) - np.repeat(starts, counts)
    return before


def stuck_by_group(stuck: tuple[StuckCall, ...], source: str) -> dict[str, StuckCall]:
    """The first stuck collective of each group, as one source counts ("nccl" or "recorder"), in their order."""
    found: dict[str, StuckCall] = {}
    for call in stuck:
        if call.source == source and call.parting is not Parting.P2P:
            found.setdefault(call.group, call)
    return found
