"""Lays the ranks out as people think of a cluster: a row a host, a cell a GPU; rows that look alike come together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hangscope.expressions import expression
from hangscope.model.names import natural_order
from hangscope.model.report import RankState
from hangscope.model.states import state_style
from hangscope.records import dataclass

WIDEST = 32
"""A row has no more cells than this; a host with more ranks has several rows."""

_GPU = expression(r"\d{1,3}(?!\d)")


@dataclass(frozen=True, slots=True)
class GridCell:
    """One rank, and whether the verdict blames it."""

    state: RankState
    at_fault: bool


@dataclass(frozen=True, slots=True)
class GridRow:
    """The ranks of one host, or a part of them.

    Attributes:
        host: its name; None for ranks whose host nobody knows.
        cells: a cell a column, None where there is no rank; never ends with None.
    """

    host: str | None
    cells: tuple[GridCell | None, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks of the row, ascending."""
        return tuple(sorted(cell.state.rank for cell in self.cells if cell is not None))

    @property
    def at_fault(self) -> tuple[int, ...]:
        """Ranks that the verdict blames, ascending."""
        return tuple(sorted(cell.state.rank for cell in self.cells if cell is not None and cell.at_fault))

    @property
    def look(self) -> tuple[tuple[str, bool] | None, ...]:
        """State and fault of each cell: what rows that look alike have in common."""
        return tuple(None if cell is None else (cell.state.state, cell.at_fault) for cell in self.cells)

    @property
    def severity(self) -> tuple[bool, int]:
        """Rows with ranks at fault come first, then those whose worst state is the worst."""
        states = (cell.state.state for cell in self.cells if cell is not None)
        return (not self.at_fault, min((state_style(state).severity for state in states), default=len(self.cells)))


@dataclass(frozen=True, slots=True)
class RankGrid:
    """All ranks of a job.

    Attributes:
        columns: how many cells the widest row has.
        by_gpu: column n is GPU n on every host; else the ranks of a host stand in their order.
        rows: hosts in natural order (node2 before node10), ranks of unknown host last.
    """

    columns: int
    by_gpu: bool
    rows: tuple[GridRow, ...]


@dataclass(frozen=True, slots=True)
class AlikeRows:
    """Rows that look the same, cell by cell."""

    rows: tuple[GridRow, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Their hosts, in natural order, each once; without those that nobody knows."""
        return tuple(dict.fromkeys(row.host for row in self.rows if row.host is not None))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Their ranks, ascending."""
        return tuple(sorted(rank for row in self.rows for rank in row.ranks))


def lay_out(states: Iterable[RankState], at_fault: Collection[int] = (), *, widest: int = WIDEST) -> RankGrid:
    """The grid of these ranks.

    Args:
        states: a state a rank, in any order.
        at_fault: ranks that the verdict blames.
        widest: the most cells that a row may have.
    """
    blamed = frozenset(at_fault)
    of_host: dict[str | None, list[GridCell]] = {}
    for state in sorted(states, key=lambda one: one.rank):
        of_host.setdefault(state.host or None, []).append(GridCell(state, state.rank in blamed))
    hosts = sorted((host for host in of_host if host is not None), key=natural_order)
    slots = {host: _gpus(of_host[host], widest) for host in hosts}
    rows: list[GridRow] = []
    for host in hosts:
        gpus = slots[host]
        rows += _rows(host, of_host[host], widest) if gpus is None else [_row_by_gpu(host, of_host[host], gpus)]
    lost = of_host.get(None, [])
    # ranks without a host get rows as wide as those of the others
    usual = max((len(row.cells) for row in rows), default=_width_of(len(lost), widest))
    rows += _rows(None, lost, min(usual, widest))
    return RankGrid(
        columns=max((len(row.cells) for row in rows), default=0),
        by_gpu=bool(hosts) and all(gpus is not None for gpus in slots.values()),
        rows=tuple(rows),
    )


def put_alike_together(grid: RankGrid) -> tuple[AlikeRows, ...]:
    """The rows, those that look alike together; what deserves the first look comes first."""
    alike: dict[tuple[object, ...], list[GridRow]] = {}
    for row in grid.rows:
        alike.setdefault((row.host is None, *row.look), []).append(row)
    return tuple(AlikeRows(tuple(rows)) for rows in sorted(alike.values(), key=lambda rows: rows[0].severity))


def _gpus(cells: Sequence[GridCell], widest: int) -> list[int] | None:
    """The GPU of each cell, when all are known, different, and few enough for a column each."""
    found = [_GPU.match(cell.state.gpu or "") for cell in cells]
    gpus = [int(one[0]) for one in found if one is not None]
    if len(gpus) < len(cells) or len(set(gpus)) < len(gpus) or max(gpus) >= widest:
        return None
    return gpus


def _row_by_gpu(host: str, cells: Sequence[GridCell], gpus: Sequence[int]) -> GridRow:
    placed: list[GridCell | None] = [None] * (max(gpus) + 1)
    for gpu, cell in zip(gpus, cells, strict=True):
        placed[gpu] = cell
    return GridRow(host, tuple(placed))


def _rows(host: str | None, cells: Sequence[GridCell], width: int) -> list[GridRow]:
    return [GridRow(host, tuple(cells[start : start + width])) for start in range(0, len(cells), width)]


def _width_of(count: int, widest: int) -> int:
    """Cells a row where no host says how many belong together: whole hosts of the most usual size."""
    wanted = 8 if count <= 128 else 16 if count <= 1024 else WIDEST
    return max(min(wanted, widest) // 8, 1) * 8
