"""Makes the table of what each rank called when, of the ranks, groups and last calls that are wanted, and no more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hangscope.align.call_book import DONE, STARTED, CallBook, GroupBook, RankTransfers
from hangscope.align.call_states import STATES, Window, read_window
from hangscope.align.history import open_book
from hangscope.align.job import Job
from hangscope.model import CallState
from hangscope.model.names import natural_order
from hangscope.records import dataclass
from hangscope.tables.schema import Column

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Codes = npt.NDArray[np.int32]
    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Numbers = npt.NDArray[np.signedinteger]

COLUMNS = (
    Column("rank", "int64", "global rank"),
    Column("host", "category", "its host"),
    Column("group", "category", "name of the process group or communicator, as in the report's `collectives`"),
    Column(
        "seq", "int64", "number of the call in its group, as the source counts; of a send or receive, for each peer"
    ),
    Column("op", "category", "operation, in PyTorch's spelling"),
    Column("size", "category", "counts and types in words"),
    Column("peer", "Int64", "global rank of the other side of a send or receive"),
    Column("started", "float64", "when the rank made the call", moment=True),
    Column("state", "category", "done, started, waiting, differs, or missing (then the call is that of the others)"),
    Column(
        "agrees", "boolean", "whether the call fits to that of most ranks; unknown where there is nothing to compare"
    ),
    Column("where", "category", "line of the job's own code that made the call"),
    Column("file", "category", "input, as the report names it"),
    Column("line", "Int64", "1-based line number there, when the input has lines"),
)
"""Columns of the timeline; the texts are unknown (NaN) where nothing tells them."""

_PIECE_CELLS = 1 << 20
_UNKNOWN = -1


def build_timeline(
    job: Job,
    *,
    ranks: Collection[int] | None = None,
    groups: Collection[str] | None = None,
    last: int | None = None,
) -> pd.DataFrame:
    """One row a rank and call, by group, call and rank; sends and receives behind, by rank. Columns: `COLUMNS`.

    Calls come from NCCL's call lines or from flight recorders, whichever show where the job is stuck. A rank that is
    missing in a call has a row, too; ranks that are not known to have come so far have none.

    Args:
        job: the aligned job.
        ranks: only these.
        groups: only these, by name.
        last: of each group only so many calls up to where it is stuck and some beyond; of the sends and receives of
            each rank the last so many.
    """
    book = open_book(job)
    parts: list[_Rows] = []
    if book is not None:
        for group in book.groups:
            if groups is None or group.name in groups:
                parts.extend(_of_group(book, group, ranks, last))
        for rank in book.movers:
            if ranks is None or rank in ranks:
                # the last ones of some groups may lie far behind the last ones of all
                made = book.transfers(rank, last if groups is None else None)
                wanted = None if groups is None else {book.group_number(name) for name in groups}
                parts.append(_of_transfers(made, rank, wanted, last))
    return _frame(job, book, parts)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as columns of numbers; -1 is unknown, in `line` 0.

    Attributes:
        group, kind, file: indexes into `CallBook.group_names`, `kinds` and `files`.
        state: index into `STATES`.
    """

    rank: Ints
    group: Codes
    seq: Ints
    kind: Codes
    peer: Ints
    started: Floats
    state: Codes
    agrees: Codes
    file: Codes
    line: Codes


def _of_group(book: CallBook, group: GroupBook, ranks: Collection[int] | None, last: int | None) -> Iterator[_Rows]:
    shown = group.ranks if ranks is None else tuple(rank for rank in group.ranks if rank in ranks)
    if not shown:
        return
    numbers = group.numbers()
    if last is not None:
        first, end = group.window(last)
        numbers = numbers[(numbers >= first) & (numbers < end)]
    step = max(_PIECE_CELLS // max(len(group.ranks), 1), 1)
    at = 0
    while at < len(numbers):
        start = int(numbers[at])
        following = int(np.searchsorted(numbers, start + step))
        window = read_window(group, start, int(numbers[following - 1]) + 1, shown)
        yield _of_window(window, book.group_number(group.name))
        at = following


_SHOWN = [
    STATES.index(state)
    for state in (CallState.DONE, CallState.STARTED, CallState.WAITING, CallState.DIFFERS, CallState.MISSING)
]


def _of_window(window: Window, group: int) -> _Rows:
    called = window.kinds >= 0
    # a number that no rank recorded is no call
    row, column = np.nonzero(np.isin(window.states, _SHOWN) & (called | (window.common >= 0)[:, None]))
    here = called[row, column]
    return _Rows(
        rank=np.array(window.ranks, dtype=np.int64)[column],
        group=np.full(len(row), group, dtype=np.int32),
        seq=window.first + row.astype(np.int64),
        kind=np.where(here, window.kinds[row, column], window.common[row]).astype(np.int32),
        peer=np.full(len(row), -1, dtype=np.int64),
        started=window.times[row, column],
        state=window.states[row, column].astype(np.int32),
        agrees=np.where(here, window.agrees[row, column], _UNKNOWN).astype(np.int32),
        file=np.where(here, window.files[row, column], -1).astype(np.int32),
        line=np.where(here, window.lines[row, column], 0).astype(np.int32),
    )


def _of_transfers(made: RankTransfers, rank: int, groups: set[int] | None, last: int | None) -> _Rows:
    rows = np.arange(len(made)) if groups is None else np.flatnonzero(np.isin(made.group, sorted(groups)))
    rows = rows if last is None else rows[max(len(rows) - last, 0) :]
    states = np.full(len(made), STATES.index(CallState.WAITING), dtype=np.int32)
    states[made.reached == STARTED] = STATES.index(CallState.STARTED)
    states[made.reached == DONE] = STATES.index(CallState.DONE)
    return _Rows(
        rank=np.full(len(rows), rank, dtype=np.int64),
        group=made.group[rows],
        seq=made.seq[rows],
        kind=made.kind[rows],
        peer=made.peer[rows],
        started=made.time[rows],
        state=states[rows],
        agrees=np.full(len(rows), _UNKNOWN, dtype=np.int32),
        file=made.file[rows],
        line=made.line[rows],
    )


def _frame(job: Job, book: CallBook | None, parts: Sequence[_Rows]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - takes longer to import than an analysis

    def column(name: str) -> Any:  # noqa: ANN401 (an array)
        found = [getattr(part, name) for part in parts]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def texts(codes: Numbers, names: Sequence[str]) -> pd.Categorical:
        """Codes of names, of which some may be equal, empty or used by nobody."""
        known = sorted(
            {names[code] for code in np.unique(codes[codes >= 0]).tolist() if names[code]}, key=natural_order
        )
        places = {name: place for place, name in enumerate(known)}
        # of what is unknown the code is -1: the last entry of this array
        numbers = np.array([*(places.get(name, -1) for name in names), -1], dtype=np.int64)
        return pd.Categorical.from_codes(numbers[codes].tolist(), pd.Index(known, dtype=object))

    def number(values: Numbers, unknown: int) -> pd.arrays.IntegerArray:
        return pd.arrays.IntegerArray(values.astype(np.int64), values == unknown)

    kinds, names, files = (book.kinds, book.group_names, book.files) if book is not None else ([], [], [])
    rank, kind, agrees = column("rank"), column("kind"), column("agrees")
    all_ranks = sorted(set(rank.tolist()))
    hosts = [process.host or "" if (process := job.ranks.get(one)) is not None else "" for one in all_ranks]
    return pd.DataFrame(
        {
            "rank": rank,
            "host": texts(np.searchsorted(all_ranks, rank), hosts),
            "group": texts(column("group"), names),
            "seq": column("seq"),
            "op": texts(kind, [one.op for one in kinds]),
            "size": texts(kind, [one.size for one in kinds]),
            "peer": number(column("peer"), _UNKNOWN),
            "started": column("started").astype(np.float64),
            "state": texts(column("state"), [state.value for state in STATES]),
            "agrees": pd.arrays.BooleanArray(agrees == 1, agrees == _UNKNOWN),
            "where": texts(kind, [one.where for one in kinds]),
            "file": texts(column("file"), files),
            "line": number(column("line"), 0),
        }
    )
