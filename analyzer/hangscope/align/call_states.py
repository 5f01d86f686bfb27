"""Says of each call of a group how far each rank came with it, and whose call differs from the others'."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hangscope.align.call_book import DONE, MADE, STARTED, Bytes, Codes, Floats, GroupBook, Ints
from hangscope.align.collectives import Parting
from hangscope.model import CallState
from hangscope.records import dataclass

STATES = tuple(CallState)
"""What the codes of `Window.states` stand for."""
_CODE = {state: code for code, state in enumerate(STATES)}
_OTHER_CALLS = frozenset({Parting.OPERATION, Parting.SIZE, Parting.SKIPPED, Parting.EXTRA})


@dataclass(frozen=True, slots=True)
class Window:
    """Some successive calls of a group: one row a call, one column a rank.

    Attributes:
        first: number of the first call.
        ranks: of the columns, ascending.
        states: index into `STATES`.
        kinds: index into `CallBook.kinds`, -1 where no call is known.
        times: when it was made, NaN where unknown.
        files, lines: as in `RankCalls`, of the calls that are known.
        common: kind of the call that most ranks made, -1 where nobody's is known.
        agrees: whether the rank's call fits to that.
    """

    first: int
    ranks: tuple[int, ...]
    states: Bytes
    kinds: Codes
    times: Floats
    files: Codes
    lines: Codes
    common: Codes
    agrees: npt.NDArray[np.bool_]


def read_window(group: GroupBook, first: int, last: int, ranks: tuple[int, ...] | None = None) -> Window:
    """The calls of a group from one number up to, and without, another.

    Args:
        group: the group.
        first: the number of the first.
        last: the number behind the last.
        ranks: those to give; all are compared all the same.
    """
    everyone = group.ranks
    size = max(last - first, 0), len(everyone)
    kinds, agreement = np.full(size, -1, dtype=np.int32), np.full(size, -1, dtype=np.int64)
    reached, times = np.full(size, MADE, dtype=np.uint8), np.full(size, np.nan)
    files, lines = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    for column, rank in enumerate(everyone):
        if rank not in group.ends:
            continue
        calls = group.read(rank, first, last)
        rows = calls.seq - first
        kinds[rows, column], agreement[rows, column] = calls.kind, calls.agreement
        reached[rows, column], times[rows, column] = calls.reached, calls.time
        files[rows, column], lines[rows, column] = calls.file, calls.line
    common = _common(group, agreement)
    agrees = (agreement == common[:, None]) & (agreement >= 0)
    states = _states(group, first, agreement >= 0, reached, agrees)
    shown = np.flatnonzero(np.isin(everyone, ranks)) if ranks is not None else np.arange(len(everyone))
    where = np.argmax(agrees, axis=1) if len(everyone) else np.zeros(size[0], dtype=np.int64)
    return Window(
        first,
        tuple(everyone[column] for column in shown.tolist()),
        states[:, shown],
        kinds[:, shown],
        times[:, shown],
        files[:, shown],
        lines[:, shown],
        kinds[np.arange(size[0]), where] if len(everyone) else np.full(size[0], -1, dtype=np.int32),
        agrees[:, shown],
    )


def _common(group: GroupBook, agreement: Ints) -> Ints:
    """What most ranks called, call by call; those that the verdict is against have no vote where others have one."""
    columns = np.arange(len(group.ranks))
    if group.stuck is not None and group.stuck.parting in _OTHER_CALLS:
        columns = np.flatnonzero(~np.isin(group.ranks, group.stuck.odd))
    votes = agreement[:, columns] if len(columns) else agreement
    highest = votes.max(axis=1, initial=-1)
    lowest = np.where(votes >= 0, votes, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    common: Ints = highest.copy()
    for row in np.flatnonzero((highest >= 0) & (lowest != highest)).tolist():
        values, first, counts = np.unique(votes[row], return_index=True, return_counts=True)
        known = values >= 0
        # of equal numbers of votes that of the lowest rank counts
        best = np.lexsort((first[known], -counts[known]))[0]
        common[row] = values[known][best]
    for row in np.flatnonzero(highest < 0).tolist():
        common[row] = agreement[row].max(initial=-1)
    return common


def _states(
    group: GroupBook, first: int, made: npt.NDArray[np.bool_], reached: Bytes, agrees: npt.NDArray[np.bool_]
) -> Bytes:
    numbers = first + np.arange(made.shape[0])[:, None]
    frontier = group.frontier
    if group.tells_state:
        done = reached == DONE
    else:
        done = np.broadcast_to(numbers < frontier if frontier is not None else np.True_, made.shape)
    states = np.full(made.shape, _CODE[CallState.UNKNOWN], dtype=np.uint8)
    states[made] = _CODE[CallState.WAITING]
    states[made & (reached == STARTED)] = _CODE[CallState.STARTED]
    states[made & done] = _CODE[CallState.DONE]
    states[made & ~agrees] = _CODE[CallState.DIFFERS]
    for column, rank in enumerate(group.ranks):
        end = group.ends.get(rank)
        if end is None or rank in group.lags:
            continue
        begin = max(end - first, 0)
        states[begin:, column] = _CODE[CallState.NOT_REACHED]
        if begin < len(states) and not _waits_before(group, rank, end):
            states[begin, column] = _CODE[CallState.MISSING]
    return states


def _waits_before(group: GroupBook, rank: int, end: int) -> bool:
    """Whether the rank's last call of the group has not completed, so that nobody can expect the next one."""
    if not group.tells_state:
        return group.frontier is not None and end > group.frontier
    last = group.read(rank, end - 1, end)
    return bool(len(last.seq)) and int(last.reached[0]) != DONE
