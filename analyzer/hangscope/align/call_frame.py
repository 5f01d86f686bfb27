"""Makes the DataFrame of all calls, which nobody needs for a verdict and everybody in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
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
    if not table.parts:
        return pd.DataFrame()
    names = sorted({op for part in table.parts for op in part.columns.ops})
    files = [part.file for part in table.parts]
    frame = pd.concat([_part(part, names, files) for part in table.parts], ignore_index=True)
    p2p = frame["p2p"].to_numpy()
    lane = np.where(p2p, frame["root"].to_numpy().astype(np.int64) * len(names) + frame["op"].cat.codes + 1, 0)
    frame["seq"] = frame.groupby([frame["member"], lane], sort=False).cumcount()
    return frame


def _part(part: CallPart, names: list[str], files: list[str]) -> pd.DataFrame:
    columns = part.columns
    row = part.shapes()
    # the shapes' fields as columns, then one value a row
    fields = {
        name: np.array([getattr(shape, field) for shape in columns.shapes], dtype=kind)[row]
        for name, (field, kind) in _FIELDS.items()
    }
    ops = np.array([names.index(op) for op in columns.ops], dtype=np.int16)
    op = ops[np.array([shape.op for shape in columns.shapes], dtype=np.int16)][row]
    times = columns.times
    return pd.DataFrame(
        {
            "line": np.frombuffer(columns.line, dtype=np.int32),
            "op": pd.Categorical.from_codes(op.tolist(), pd.Index(names)),
            "op_count": np.array(columns.op_count, dtype=np.int64),
            **fields,
            "time": np.full(len(row), np.nan) if times is None else np.frombuffer(times, dtype=np.float64),
            "process": part.owners[row],
            "file": pd.Categorical.from_codes([files.index(part.file)] * len(row), pd.Index(files)),
            "member": part.members.astype(np.int64),
            "p2p": part.p2p[row],
            "signature": part.signatures[row],
        }
    )
