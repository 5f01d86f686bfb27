"""Tables of figures in Markdown, ratios first, and what keeps README's equal to what was measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Cost

README = Path(__file__).resolve().parent.parent.parent / "README.md"
_BLOCK = re.compile(r"(<!-- begin: python tests/benchmark\.py --readme -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured run.

    Attributes:
        cost: what it used.
        lines: log lines it read.
        found: what it found, in words.
    """

    cost: Cost
    lines: int = 0
    found: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of every row.

    Attributes:
        heading: what stands above it.
        read: takes it from a row.
        decimals: digits behind the point.
        ratio_of: heading of the figure whose ratio to that of another row it is; "" for a plain figure.
    """

    heading: str
    read: Callable[[Row], float]
    decimals: int = 2
    ratio_of: str = ""


WALL = Column("s", lambda row: row.cost.wall_s)
CPU = Column("CPU s", lambda row: row.cost.cpu_s)
PEAK = Column("peak MB", lambda row: row.cost.peak_bytes / 1e6, 0)
PER_MILLION = Column("CPU s a million lines", lambda row: row.cost.cpu_s / row.lines * 1e6 if row.lines else 0.0)


def ratio(column: Column, heading: str) -> Column:
    """The same figure as a ratio."""
    return Column(heading, column.read, 2, column.heading)


@dataclass(frozen=True, slots=True)
class Table:
    """What a table shows.

    Attributes:
        title: the line above it.
        first: heading of the labels.
        labels: of its rows, each with the number of the row that its ratios compare it with.
        columns: its figures.
        tells: heading of a last column that says what was found; "" for none.
    """

    title: str
    first: str
    labels: tuple[tuple[str, int], ...]
    columns: tuple[Column, ...]
    tells: str = ""

    def render(self, rows: Sequence[Row]) -> str:
        """The table in Markdown."""
        head = [self.first, *(column.heading for column in self.columns), *([self.tells] if self.tells else [])]
        lines = [_line(head), "|" + "---|" + "---:|" * len(self.columns) + "---|" * bool(self.tells)]
        for (label, base), row in zip(self.labels, rows, strict=True):
            cells = [_shown(column, row, rows[base]) for column in self.columns]
            lines.append(_line([label, *cells, *([row.found] if self.tells else [])]))
        return "\n".join([f"{self.title}:", "", *lines])

    def faults(self, text: str) -> list[str]:
        """What is wrong about a text that should be this table: its form, or ratios that its figures do not give."""
        if f"{self.title}:\n" not in text:
            return [f"the table is missing: {self.title}"]
        lines = text.partition(f"{self.title}:\n")[2].lstrip("\n").split("\n\n")[0].splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        if lines[:2] != self.render([Row(Cost(1, 1, 1, ""), 1)] * len(self.labels)).splitlines()[2:4]:
            return [f"other headings: {self.title}"]
        if [row[0] for row in cells[2:]] != [label for label, _ in self.labels]:
            return [f"other rows: {self.title}"]
        figures = [[_number(cell) for cell in row[1 : len(self.columns) + 1]] for row in cells[2:]]
        if any(figure is None for row in figures for figure in row):
            return [f"a figure is missing: {self.title}"]
        known = [[figure or 0.0 for figure in row] for row in figures]
        return [fault for at in range(len(self.columns)) for fault in self._wrong_ratios(at, known)]

    def _wrong_ratios(self, at: int, figures: list[list[float]]) -> list[str]:
        """Ratios that differ from those of the figures beside them by more than these are rounded."""
        column = self.columns[at]
        plain = next((n for n, other in enumerate(self.columns) if other.heading == column.ratio_of), None)
        if plain is None:
            return []
        half = 0.5 * 10 ** -self.columns[plain].decimals
        wrong = []
        for (label, base), row in zip(self.labels, figures, strict=True):
            low = (row[plain] - half) / (figures[base][plain] + half)
            high = (row[plain] + half) / max(figures[base][plain] - half, half / 10)
            if not low - 0.01 <= row[at] <= high + 0.01:
                wrong.append(f"{label}: {column.heading} is {row[at]}, the figures give {low:.2f} to {high:.2f}")
        return wrong


def in_readme(text: str, block: str | None = None) -> str:
    """README's block of tables; with `block`, the whole README with that in its place.

    Raises:
        ValueError: when it has no such block.
    """
    found = _BLOCK.search(text)
    if found is None:
        raise ValueError("README.md has no block of benchmarks")
    if block is None:
        return found[0]
    return text[: found.start()] + f"{found[1]}\n{block}\n\n{found[2]}" + text[found.end() :]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _shown(column: Column, row: Row, base: Row) -> str:
    value = column.read(row) / column.read(base) if column.ratio_of else column.read(row)
    return f"{value:,.{column.decimals}f}"


def _number(cell: str) -> float | None:
    return float(cell.replace(",", "")) if re.fullmatch(r"[\d,]+(\.\d+)?", cell) else None
