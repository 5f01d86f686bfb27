"""Puts the ranks of a group into the rows of a picture; where they are many, those that look alike share a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from hangscope.model import CallState, GroupHistory
from hangscope.model.history import PARTED
from hangscope.ranges import rank_numbers
from hangscope.records import dataclass

MOST_SINGLE = 16
"""So many ranks have a row each."""
_MOST_ROWS = 20
_MOST_NUMBERS = 26


@dataclass(frozen=True, slots=True)
class Row:
    """Ranks in one row.

    Attributes:
        label: what stands beside it.
        ranks: ascending.
        states: of each call.
        is_odd: the ranks are missing in a call, or called something else.
    """

    label: str
    ranks: tuple[int, ...]
    states: tuple[CallState, ...]
    is_odd: bool


def rows_of(group: GroupHistory, hosts: Mapping[int, str]) -> list[Row]:
    """The rows of a group.

    Args:
        group: with its calls.
        hosts: rank -> host, as far as known.
    """
    columns = {rank: tuple(call.states[at] for call in group.calls) for at, rank in enumerate(group.ranks)}
    if len(group.ranks) <= MOST_SINGLE:
        return [_row(rank_label(rank, hosts), (rank,), states) for rank, states in columns.items()]
    folded = _folded(columns, columns)
    if len(folded) > _MOST_ROWS and group.stuck is not None:
        # how many calls a rank queued behind the stuck one tells little
        until = sum(call.seq <= group.stuck for call in group.calls)
        folded = _folded(columns, {rank: states[:until] for rank, states in columns.items()})
    if len(folded) > _MOST_ROWS:
        folded = _folded(columns, {rank: states[-1:] for rank, states in columns.items()})
    rows = [_row(ranks_label(ranks), tuple(ranks), _common([columns[rank] for rank in ranks])) for ranks in folded]
    return sorted(rows, key=lambda row: (not row.is_odd, -len(row.ranks), row.ranks))


def _folded(columns: Mapping[int, object], keys: Mapping[int, Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for rank in columns:
        found.setdefault(keys[rank], []).append(rank)
    return list(found.values())


def _common(columns: Sequence[tuple[CallState, ...]]) -> tuple[CallState, ...]:
    """What most of these ranks show, call by call."""
    return tuple(Counter(states).most_common(1)[0][0] for states in zip(*columns, strict=True))


def rank_label(rank: int, hosts: Mapping[int, str]) -> str:
    """``rank 5 · node02``: what stands beside a row of one rank.

    Args:
        rank: the rank.
        hosts: rank -> host, as far as known.
    """
    return f"rank {rank} · {hosts[rank]}" if rank in hosts else f"rank {rank}"


def ranks_label(ranks: Sequence[int]) -> str:
    """``rank 5``, ``8 ranks: 0-7``: what stands beside a row of some."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"{len(ranks):,} ranks: {rank_numbers(ranks, most=_MOST_NUMBERS)}"


def _row(label: str, ranks: tuple[int, ...], states: tuple[CallState, ...]) -> Row:
    return Row(label, ranks, states, any(state in PARTED for state in states))
