"""Makes the DataFrame of all calls, which nobody needs for a verdict and everybody in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from hangscope.align.calls import CallPart, CallTable

_FIELDS = {
    "count": ("elements", "int64"),
    "dtype": ("dtype", "int16"),
    "redop": ("redop", "int64"),
    "root": ("root", "int32"),
    "comm": ("comm", "uint64"),
    "nranks": ("nranks", "int32"),
}
"""Column -> field of a shape, and the column's type."""


def build_frame(table: CallTable) -> pd.DataFrame:
    """One row a call, in the order of the inputs and their lines.

    Columns: file, line, op, op_count, count, dtype, redop, root, comm, nranks, time, process, member, p2p, signature,
    seq (`hangscope.tables.SCHEMA`). seq is the number of the call on its communicator object, from 0; sends and
    receives are numbered for each peer and direction.
    """
    pieces = list(build_frames(table))
    return pd.concat(pieces, ignore_index=True) if pieces else pd.DataFrame()


def build_frames(table: CallTable, most_rows: int = 1 << 20) -> Iterator[pd.DataFrame]:
    """The same in pieces of at most so many rows, each with the rows' numbers as index."""
    names = sorted({op for part in table.parts for op in part.columns.ops})
    ops, files = pd.Index(names), pd.Index([part.file for part in table.parts])
    made: dict[tuple[int, int], int] = {}
    for number, part in enumerate(table.parts):
        for start in range(0, len(part.columns), most_rows):
            frame = _part(part, ops, pd.Categorical.from_codes([number], files), slice(start, start + most_rows))
            frame.index += table.starts[number] + start
            frame["seq"] = _numbered(frame, len(names), made)
            yield frame


def _numbered(frame: pd.DataFrame, names: int, made: dict[tuple[int, int], int]) -> npt.NDArray[np.int64]:
    """The number of each call on its communicator object; `made` has how many there were before, and is added to."""
    p2p = frame["p2p"].to_numpy()
    lane = np.where(p2p, frame["root"].to_numpy().astype(np.int64) * names + frame["op"].cat.codes + 1, 0)
    groups = frame.groupby([frame["member"], lane], sort=False)
    number, within = groups.ngroup().to_numpy(), groups.cumcount().to_numpy()
    keys: list[tuple[int, int]] = [(int(member), int(way)) for member, way in groups.size().index]
    before = np.array([made.get(key, 0) for key in keys], dtype=np.int64)
    for key, calls in zip(keys, groups.size().tolist(), strict=True):
        made[key] = made.get(key, 0) + int(calls)
    return within + before[number]


def _part(part: CallPart, names: pd.Index[str], file: pd.Categorical[str], rows: slice) -> pd.DataFrame:
    columns = part.columns
    row = part.shapes()[rows]
    # the shapes' fields as columns, then one value a row
    fields = {
        name: np.array([getattr(shape, field) for shape in columns.shapes], dtype=kind)[row]
        for name, (field, kind) in _FIELDS.items()
    }
    ops = names.get_indexer(pd.Index(columns.ops)).astype(np.int16)
    op = ops[np.array([shape.op for shape in columns.shapes], dtype=np.int16)][row]
    times = columns.times
    return pd.DataFrame(
        {
            "line": np.frombuffer(columns.line, dtype=np.int32)[rows],
            "op": pd.Categorical.from_codes(op.tolist(), names),
            "op_count": np.array(columns.op_count[rows], dtype=np.int64),
            **fields,
            "time": np.full(len(row), np.nan) if times is None else np.frombuffer(times, dtype=np.float64)[rows],
            "process": part.owners[row],
            "file": file.repeat(len(row)),
            "member": part.members[rows].astype(np.int64),
            "p2p": part.p2p[row],
            "signature": part.signatures[row],
        }
    )
