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
from hangscope.parse.columns import CallColumns, WriterKey
from hangscope.parse.source import ParsedSource

Ints = npt.NDArray[np.int64]
_Call = tuple[int, int, int, int, int]
"""Op, elements, dtype, redop and root of a `CallShape`."""

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
    signatures = _Signatures(mixed_versions=mixed_versions)
    parts = []
    for source in sources:
        columns = source.calls
        if not len(columns):
            continue
        # a writer of an earlier attempt has no process, and no row either
        owned = [by_writer.get(key) for key in columns.writers]
        of_writer = [-1 if process is None else index[id(process)] for process in owned]
        parts.append(
            CallPart(
                source.record.file,
                columns,
                np.array(of_writer, dtype=np.int64)[columns.shapes.column("writer")],
                np.array(signatures.of(columns), dtype=np.int64),
                np.array([op in _P2P for op in columns.ops], dtype=np.bool_)[columns.shapes.column("op")],
                members.of(columns, of_writer),
            )
        )
    starts = itertools.accumulate((len(part.columns) for part in parts), initial=0)
    return CallTable(processes, members.found, tuple(parts), tuple(starts))


class _Signatures:
    """Numbers what has to be equal in calls that belong together: operation, count, data type, reduction and root."""

    def __init__(self, *, mixed_versions: bool) -> None:
        self._mixed_versions = mixed_versions
        self._ops: dict[str, int] = {}
        self._known: dict[_Call, int] = {}

    def of(self, columns: CallColumns) -> list[int]:
        """The number of each shape."""
        ops = [self._ops.setdefault(op, len(self._ops)) for op in columns.ops]
        shapes = columns.shapes
        calls: list[_Call] = list(zip(shapes.op, shapes.elements, shapes.dtype, shapes.redop, shapes.root, strict=True))
        if self._mixed_versions or ops != list(range(len(ops))):
            calls = [self._agreeing(columns.ops[call[0]], (ops[call[0]], *call[1:])) for call in calls]
        for call in dict.fromkeys(calls):
            self._known.setdefault(call, len(self._known))
        return list(map(self._known.__getitem__, calls))

    def _agreeing(self, name: str, call: _Call) -> _Call:
        op, count, dtype, redop, root = call
        if self._mixed_versions and name in _IN_BYTES:
            # 2.19 and 2.21 print AllGather and Broadcast in bytes with datatype 0, later versions in elements
            count, dtype = count * _DTYPE_BYTES[min(max(dtype, 0), len(_DTYPE_BYTES) - 1)], 0
        return op, count, dtype, redop, root


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

    def of(self, columns: CallColumns, of_writer: list[int]) -> npt.NDArray[np.int32]:
        """Index into `found` of each row of one input; `of_writer` are the numbers of its writers' processes."""
        rows = np.frombuffer(columns.shape, dtype=np.int32)
        numbers: dict[tuple[int, int], int] = {}
        called, own = columns.objects()
        of_object = [numbers.setdefault((of_writer[writer], comm), len(numbers)) for writer, comm in called]
        of_shape = np.array(of_object, dtype=np.int32)[np.frombuffer(own, dtype=np.int32)]
        pairs = list(numbers)
        places = np.zeros(len(pairs), dtype=np.int32)
        # in the order of their first call: groups that only calls tell of are told apart by it
        earliest = _first_rows(rows, of_shape, len(pairs))
        for number in sorted(range(len(pairs)), key=earliest.__getitem__):
            if earliest[number] < len(rows):
                places[number] = self._place(pairs[number], columns.shapes.nranks[rows[earliest[number]]])
        first = places[of_shape]
        members = np.empty(len(rows), dtype=np.int32)
        again = {
            self._first[pair]: _uses(known)
            for pair in pairs
            if pair in self._first and len(known := self._known[pair]) > 1
        }
        lines = np.frombuffer(columns.line, dtype=np.int32)
        for low in range(0, len(rows), _AT_ONCE):
            piece = members[low : low + _AT_ONCE]
            piece[:] = first[rows[low : low + _AT_ONCE]]
            for member, mine in rows_by_member(piece, np.arange(len(piece))) if again else ():
                if member in again:
                    starts, most = again[member]
                    use = np.searchsorted(starts, lines[low : low + _AT_ONCE][mine], side="right")
                    piece[mine] = member + np.minimum(use, most)
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


def _first_rows(rows: npt.NDArray[np.int32], of_shape: npt.NDArray[np.int32], pairs: int) -> list[int]:
    """The first row of each process and pointer, by those of each shape; the number of rows where there is none."""
    first = np.full(pairs, len(rows), dtype=np.int64)
    # of several values for one place the last one stays; in pieces, as indexing makes copies of twice the size
    for low in reversed(range(0, len(rows), _AT_ONCE)):
        piece = of_shape[rows[low : low + _AT_ONCE]]
        first[piece[::-1]] = np.arange(low + len(piece) - 1, low - 1, -1)
    found: list[int] = first.tolist()
    return found
