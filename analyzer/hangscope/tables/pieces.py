"""Large tables as columns of arrays, in pieces: neither an object a row nor a whole table at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hangscope.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

PIECE_ROWS = 1 << 18
"""Rows of a piece; a row group in Parquet."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of few distinct texts: a number for each row, and what the numbers stand for; -1 is unknown."""

    codes: npt.NDArray[np.int32]
    names: Sequence[str]


Piece = Mapping[str, Any]
"""Column name -> an array, a masked array where values can be unknown, or `Coded`."""


class LargeTable(Protocol):
    """Rows by the million, which become DataFrames only when somebody asks for them."""

    def __len__(self) -> int: ...

    @property
    def frame(self) -> pd.DataFrame: ...

    def pieces(self) -> Iterator[Piece]: ...


def joined(parts: Sequence[Piece], names: Mapping[str, Sequence[str]]) -> Piece:
    """Several pieces as one.

    Args:
        parts: their texts as codes.
        names: what the codes of a column stand for, in all parts.
    """
    import numpy as np

    concatenate: Callable[[list[Any]], Any] = np.ma.concatenate
    columns = {name: concatenate([part[name] for part in parts]) for name in parts[0]}
    plain = {name: column if np.ma.is_masked(column) else np.asarray(column) for name, column in columns.items()}
    return {name: Coded(column, names[name]) if name in names else column for name, column in plain.items()}


def to_frame(piece: Piece, kinds: Mapping[str, str]) -> pd.DataFrame:
    """A piece as a DataFrame whose columns have these dtypes, in their order."""
    import pandas as pd

    return pd.DataFrame({name: _series(piece[name], kind) for name, kind in kinds.items()})


def _series(column: Any, kind: str) -> Any:  # noqa: ANN401 (see Piece)
    import numpy as np
    import pandas as pd

    if isinstance(column, Coded):
        # as in `schema.frame`; pandas' own text, besides, refuses names of files that are none
        names = np.array(column.names, dtype=object)
        if kind == "category":
            return pd.Categorical.from_codes(column.codes.tolist(), pd.Index(names, dtype="object"))
        return pd.Series(names[column.codes], dtype="object")
    if kind == "Int64":
        return pd.Series(pd.arrays.IntegerArray(np.asarray(column, dtype=np.int64), np.ma.getmaskarray(column).copy()))
    return np.asarray(column).astype(kind, copy=False)
