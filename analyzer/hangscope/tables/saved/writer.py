"""Writes a saved job: first what was read, input by input, then the tables for people, in pieces of bounded size."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hangscope.model import SourceRecord
from hangscope.parse.source import ParsedSource
from hangscope.sources.around import Around
from hangscope.sources.quote import Quoted
from hangscope.tables.build import Tables
from hangscope.tables.saved.arrow import import_arrow
from hangscope.tables.saved.columns import to_columns
from hangscope.tables.saved.encode import Part, parts_of
from hangscope.tables.saved.manifest import PARSED, Manifest, begin, cannot_write, claim, finish
from hangscope.tables.saved.people import table_batches, table_schema
from hangscope.tables.schema import SCHEMA

_FLUSH_BYTES = 16 << 20
"""A row group; so much is held beside the job."""
JOB = -1
"""Number of the input in rows that are of the whole job."""
OPTIONS: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}


class JobWriter:
    """Saves one job into a folder. Used as a context; `finish` makes it complete.

    Raises:
        InputError: pyarrow is missing, or the folder holds something else or cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._pa, self._pq = import_arrow()
        claim(self._folder)
        pa = self._pa
        self._schema = pa.schema(
            [
                ("source", pa.int32()),
                ("part", pa.string()),
                ("value", pa.string()),
                ("ints", pa.list_(pa.int64())),
                ("floats", pa.list_(pa.float64())),
            ]
        )
        self._parsed: Any = None
        self._rows: list[tuple[int, Part, str]] = []
        self._held = 0
        self._inputs: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._parsed is not None:
            self._parsed.close()
        if isinstance(error, OSError):
            raise cannot_write(self._folder, error) from error

    def add(self, sources: Iterable[ParsedSource]) -> None:
        """Saves what was read, before alignment fills it in. What the folder held before is void from here on."""
        if self._parsed is None:
            begin(self._folder)
            self._parsed = self._pq.ParquetWriter(
                self._folder / PARSED,
                self._schema,
                use_dictionary=["part"],
                column_encoding={"ints.list.element": "DELTA_BINARY_PACKED"},
                **OPTIONS,
            )
        for source in sources:
            for part in parts_of(source):
                self._add(len(self._inputs), part)
            self._inputs.append(source.record.file)

    def finish(
        self,
        tables: Tables,
        unreadable: Sequence[SourceRecord],
        lines: Mapping[tuple[str, int], Quoted],
        around: Mapping[tuple[str, int], Around],
    ) -> None:
        """Saves the rest.

        Args:
            tables: of the aligned job.
            unreadable: records of inputs that could not be opened at all.
            lines: the log lines that the report quotes, by file and number.
            around: what stands around lines of evidence, by their file and number.
        """
        self._add(JOB, Part("unreadable", to_columns(SourceRecord, unreadable)))
        surrounded = sorted(around.items())
        self._add(JOB, Part("around", [[file, line, *map(list, found)] for (file, line), found in surrounded]))
        self._add(JOB, Part("quotes", [[file, line, found.text] for (file, line), found in sorted(lines.items())]))
        self._flush()
        self._parsed.close()
        rows = {name: self._write_table(name, tables) for name in SCHEMA}
        names = [PARSED, *(f"{table}.parquet" for table in SCHEMA)]
        sizes = {name: (self._folder / name).stat().st_size for name in names}
        finish(self._folder, Manifest(tuple(self._inputs), sizes, rows))

    def _add(self, number: int, part: Part) -> None:
        value = json.dumps(part.value, separators=(",", ":"))
        self._rows.append((number, part, value))
        self._held += len(value) + 8 * (len(part.ints or ()) + len(part.floats or ()))
        if self._held > _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        pa = self._pa
        rows, self._rows, self._held = self._rows, [], 0
        if rows:
            columns = [
                pa.array([number for number, _, _ in rows], pa.int32()),
                pa.array([part.name for _, part, _ in rows], pa.string()),
                pa.array([value for _, _, value in rows], pa.string()),
                self._lists([part.ints for _, part, _ in rows], "q", pa.int64()),
                self._lists([part.floats for _, part, _ in rows], "d", pa.float64()),
            ]
            self._parsed.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def _lists(self, cells: Sequence[array[Any] | None], typecode: str, of: Any) -> Any:  # noqa: ANN401 (pyarrow has no types)
        """Arrays as one column of lists, without an object a number."""
        pa = self._pa
        values, offsets, known = array(typecode), array("i", [0]), bytearray()
        for cell in cells:
            if cell is not None:
                values.extend(cell if cell.typecode == typecode else array(typecode, cell))
            offsets.append(len(values))
            known.append(cell is not None)
        numbers = pa.Array.from_buffers(of, len(values), [None, pa.py_buffer(values)])
        starts = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])
        missing = pa.array([not one for one in known], pa.bool_())
        return pa.ListArray.from_arrays(starts, numbers, mask=missing)

    def _write_table(self, name: str, tables: Tables) -> int:
        rows = 0
        with self._pq.ParquetWriter(self._folder / f"{name}.parquet", table_schema(name), **OPTIONS) as writer:
            for batch in table_batches(name, tables):
                writer.write_table(batch)
                rows += batch.num_rows
        return rows
