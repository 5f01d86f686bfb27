"""Makes the table of all calls, which nobody needs for a verdict and everybody in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hangscope.tables.pieces import PIECE_ROWS, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from hangscope.align.calls import CallPart, CallTable
    from hangscope.align.groups import Communicator
    from hangscope.align.process import Process
    from hangscope.tables.pieces import Piece

    Column = npt.NDArray[np.generic]

_FIELDS = {
    "count": "elements",
    "dtype": "dtype",
    "redop": "redop",
    "root": "root",
    "comm": "comm",
    "nranks": "nranks",
}
"""Column -> field of a shape."""
_LANES = 1 << 40
"""More than there are pairs of a root (32 bits) and an operation (CallColumns keeps 127)."""


def build_pieces(table: CallTable, most_rows: int = PIECE_ROWS) -> Iterator[Piece]:
    """One row a call, in the order of the inputs and their lines, in pieces of about so many rows.

    Columns: those of `calls` in `hangscope.tables.SCHEMA`. seq is the number of the call on its communicator object,
    from 0; sends and receives are numbered for each peer and direction.
    """
    ops = sorted({op for part in table.parts for op in part.columns.ops})
    who = _Who(table.processes, table.members)
    names = {"op": ops, "file": [part.file for part in table.parts], "host": who.hosts, "group": who.groups}
    code = {op: number for number, op in enumerate(ops)}
    made: dict[int, int] = {}
    held: list[dict[str, Column]] = []
    rows = 0
    for number, part in enumerate(table.parts):
        for start in range(0, len(part.columns), most_rows):
            columns = _part(part, code, number, slice(start, start + most_rows))
            columns |= who.columns(columns["process"], columns["member"])
            columns["seq"] = _numbered(columns, len(ops), made)
            held.append(columns)
            rows += len(columns["line"])
            if rows >= most_rows:
                yield joined(held, names)
                held, rows = [], 0
    if held:
        yield joined(held, names)


class _Who:
    """Who made each call, in the words of the other tables."""

    def __init__(self, processes: Sequence[Process], members: Sequence[Communicator]) -> None:
        self.hosts = sorted({process.host for process in processes if process.host})
        self.groups = sorted({member.group.name for member in members if member.group is not None})
        self._rank = np.array([-1 if process.rank is None else process.rank for process in processes], dtype=np.int64)
        self._host = _codes(self.hosts, [process.host for process in processes])
        self._group = _codes(self.groups, [None if one.group is None else one.group.name for one in members])

    def columns(self, process: Column, member: Column) -> dict[str, Column]:
        """Rank, host and group of each row, by the indexes of its process and communicator object."""
        rank = self._rank[process]
        return {
            "rank": np.ma.masked_array(rank, rank < 0),
            "host": self._host[process],
            "group": self._group[member],
        }


def _codes(names: Sequence[str], values: Sequence[str | None]) -> Column:
    code = {name: number for number, name in enumerate(names)}
    return np.array([-1 if value is None else code.get(value, -1) for value in values], dtype=np.int32)


def _numbered(columns: dict[str, Column], ops: int, made: dict[int, int]) -> Column:
    """The number of each call on its communicator object; `made` has how many there were before, and is added to."""
    root, op = columns["root"].astype(np.int64), columns["op"].astype(np.int64)
    lane = np.where(columns["p2p"], root * ops + op + 1, 0)
    keys, of_row, counts = np.unique(
        columns["member"].astype(np.int64) * _LANES + lane, return_inverse=True, return_counts=True
    )
    order = np.argsort(of_row, kind="stable")
    starts = np.cumsum(counts) - counts
    within = np.empty(len(of_row), dtype=np.int64)
    within[order] = np.arange(len(of_row)) - np.repeat(starts, counts)
    before = np.array([made.get(key, 0) for key in keys.tolist()], dtype=np.int64)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        made[key] = made.get(key, 0) + count
    numbered: Column = within + before[of_row]
    return numbered


def _part(part: CallPart, code: dict[str, int], number: int, rows: slice) -> dict[str, Column]:
    columns = part.columns
    row = part.shapes()[rows]
    fields = {name: columns.shapes.column(field)[row] for name, field in _FIELDS.items()}
    ops = np.array([code[op] for op in columns.ops], dtype=np.int32)
    times = columns.times
    return {
        "line": np.frombuffer(columns.line, dtype=np.int32)[rows],
        "op": ops[columns.shapes.column("op")[row]],
        "op_count": np.array(columns.op_count[rows], dtype=np.int64),
        **fields,
        "time": np.full(len(row), np.nan) if times is None else np.frombuffer(times, dtype=np.float64)[rows],
        "process": part.owners[row],
        "file": np.full(len(row), number, dtype=np.int32),
        "member": part.members[rows].astype(np.int64),
        "p2p": part.p2p[row],
        "signature": part.signatures[row],
    }
