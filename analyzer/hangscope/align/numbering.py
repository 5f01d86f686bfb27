"""Says of every collective call whose it is, and on which communicator object it was made.

The n-th call of one process on one communicator object is call n of that group: NCCL's opCount does not
align ranks (constant on one node, different between ranks from 2.27.3 on; shared by all calls of one plan
before). Point-to-point calls are counted apart, for each pair and direction.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hangscope.align.calls import CallPart, CallTable
from hangscope.align.groups import Communicator, Group
from hangscope.align.member_rows import rows_by_member
from hangscope.align.process import Process
from hangscope.parse.columns import CallColumns, CallShape, WriterKey
from hangscope.parse.source import ParsedSource

Ints = npt.NDArray[np.int64]

_AT_ONCE = 1 << 20
_DTYPE_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
_IN_BYTES = frozenset({"AllGather", "Broadcast"})
_P2P = frozenset({"Send", "Recv"})


def number_calls(
    sources: Iterable[ParsedSource],
    by_writer: dict[WriterKey, Process],
    processes: tuple[Process, ...],
    communicators: list[Communicator],
    groups: list[Group],
    *,
    mixed_versions: bool,
) -> CallTable:
    """Builds the table of calls; communicators that no init line told of are added to `groups`.

    Args:
        sources: the inputs.
        by_writer: who wrote which lines.
        processes: all processes.
        communicators: those of which init lines tell.
        groups: what they are members of.
        mixed_versions: the ranks run several releases of NCCL, which print sizes in different units.
    """
    index = {id(process): number for number, process in enumerate(processes)}
    members = _Members(processes, communicators, groups)
    signatures: dict[tuple[object, ...], int] = {}
    parts = []
    for source in sources:
        columns = source.calls
        if not len(columns):
            continue
        # a writer of an earlier attempt has no process, and no row either
        owned = [by_writer.get(key) for key in columns.writers]
        owners = [-1 if (process := owned[shape.writer]) is None else index[id(process)] for shape in columns.shapes]
        agreeing = [_agreement(shape, columns.ops[shape.op], mixed_versions=mixed_versions) for shape in columns.shapes]
        parts.append(
            CallPart(
                source.record.file,
                columns,
                np.array(owners, dtype=np.int64),
                np.array([signatures.setdefault(one, len(signatures)) for one in agreeing], dtype=np.int64),
                np.array([columns.ops[shape.op] in _P2P for shape in columns.shapes], dtype=np.bool_),
                members.of(columns, owners),
            )
        )
    starts = itertools.accumulate((len(part.columns) for part in parts), initial=0)
    return CallTable(processes, members.found, tuple(parts), tuple(starts))


def _agreement(shape: CallShape, op: str, *, mixed_versions: bool) -> tuple[object, ...]:
    """What has to be equal in calls that belong together: operation, count, data type, reduction and root."""
    count, dtype = shape.elements, shape.dtype
    if mixed_versions and op in _IN_BYTES:
        # 2.19 and 2.21 print AllGather and Broadcast in bytes with datatype 0, later versions in elements
        count, dtype = count * _DTYPE_BYTES[min(max(dtype, 0), len(_DTYPE_BYTES) - 1)], 0
    return op, count, dtype, shape.redop, shape.root


class _Members:
    """The communicator object of each call: by process and pointer, and by line where a pointer was used again."""

    def __init__(self, processes: tuple[Process, ...], communicators: list[Communicator], groups: list[Group]) -> None:
        self.found: list[Communicator] = []
        self._processes = processes
        self._groups = groups
        self._of_size: dict[int, list[Group]] = defaultdict(list)
        self._inside: dict[int, set[int]] = defaultdict(set)
        """``id`` of a group -> ``id`` of its members' processes."""
        for group in groups:
            self._of_size[group.size].append(group)
            self._inside[id(group)].update(id(member.process) for member in group.members)
        self._known: dict[tuple[int, int], list[Communicator]] = defaultdict(list)
        self._first: dict[tuple[int, int], int] = {}
        index = {id(process): number for number, process in enumerate(processes)}
        for comm in communicators:
            self._known[index[id(comm.process)], comm.comm].append(comm)

    def of(self, columns: CallColumns, owners: list[int]) -> npt.NDArray[np.int32]:
        """Index into `found` of each row of one input."""
        rows = np.frombuffer(columns.shape, dtype=np.int32)
        first = np.zeros(len(columns.shapes), dtype=np.int32)
        pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
        # in the order of their first call: groups that only calls tell of are told apart by it
        earliest = _first_rows(rows, len(columns.shapes))
        for code in sorted((code for code, row in enumerate(earliest) if row < len(rows)), key=earliest.__getitem__):
            shape = columns.shapes[code]
            pair = owners[code], shape.comm
            pairs[pair].append(code)
            first[code] = self._place(pair, shape.nranks)
        members = np.empty(len(rows), dtype=np.int32)
        again = {self._first[pair]: _uses(known) for pair in pairs if len(known := self._known[pair]) > 1}
        lines = np.frombuffer(columns.line, dtype=np.int32)
        for low in range(0, len(rows), _AT_ONCE):
            piece = members[low : low + _AT_ONCE]
            piece[:] = first[rows[low : low + _AT_ONCE]]
            for member, own in rows_by_member(piece, np.arange(len(piece))) if again else ():
                if member in again:
                    starts, most = again[member]
                    use = np.searchsorted(starts, lines[low : low + _AT_ONCE][own], side="right")
                    piece[own] = member + np.minimum(use, most)
        return members

    def _place(self, pair: tuple[int, int], size: int) -> int:
        """Index into `found` of the first communicator object of a process and pointer."""
        place = self._first.get(pair)
        if place is None:
            known = self._known[pair]
            if not known:
                known.append(self._unknown(self._processes[pair[0]], pair[1], size))
            place = self._first[pair] = len(self.found)
            self.found.extend(known)
        return place

    def _unknown(self, process: Process, pointer: int, size: int) -> Communicator:
        """A communicator known by its calls only: joined with the others of its size that were made as early."""
        comm = Communicator(process, pointer, None, size)
        same = self._of_size[size]
        group = next((g for g in same if id(process) not in self._inside[id(g)]), None)
        if group is None:
            group = Group(f"communicator {len(same) + 1} of size {size}", ("size", size, len(same) + 1), size)
            self._groups.append(group)
            same.append(group)
        comm.group = group
        group.members.append(comm)
        self._inside[id(group)].add(id(process))
        return comm


def _uses(known: list[Communicator]) -> tuple[Ints, int]:
    """The lines at which a pointer is used again, and how often it is at most."""
    starts = [line.number for comm in known if (line := comm.start or comm.complete) is not None]
    return np.array(starts[1:], dtype=np.int64), len(known) - 1


def _first_rows(rows: npt.NDArray[np.int32], shapes: int) -> list[int]:
    """The first row of each shape, the number of rows where it has none."""
    first = np.full(shapes, len(rows), dtype=np.int64)
    # of several values for one place the last one stays; in pieces, as indexing makes copies of twice the size
    for low in reversed(range(0, len(rows), _AT_ONCE)):
        piece = rows[low : low + _AT_ONCE]
        first[piece[::-1]] = np.arange(low + len(piece) - 1, low - 1, -1)
    found: list[int] = first.tolist()
    return found
