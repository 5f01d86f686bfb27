"""The tables for people as Arrow tables, in pieces: of a job with a hundred million calls no table is ever whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from hangscope.tables.build import LARGE, Tables
from hangscope.tables.pieces import Coded
from hangscope.tables.saved.arrow import import_arrow
from hangscope.tables.schema import SCHEMA

_ROWS = 1 << 16
_TYPES = {
    "str": "string",
    "object": "string",
    "Int64": "int64",
    "boolean": "bool",
    "float64": "double",
}
_LARGEST = 2**63 - 1


def table_schema(name: str) -> Any:  # noqa: ANN401 (pyarrow has no types)
    """The Arrow schema of a table; each field's metadata says what the column means."""
    pa, _ = import_arrow()
    columns = SCHEMA[name]
    return pa.schema([pa.field(c.name, _type(c.dtype), metadata={"about": c.about}) for c in columns])


def table_batches(name: str, tables: Tables) -> Iterator[Any]:
    """A table as Arrow tables one after the other; ``fields`` of events as JSON, unknown times as null."""
    pa, _ = import_arrow()
    schema = table_schema(name)
    if name in LARGE:
        for piece in tables.pieces(name):
            yield pa.Table.from_arrays([_array(piece[field.name], field.type) for field in schema], schema=schema)
        return
    rows = iter(tables.rows(name))
    while batch := list(islice(rows, _ROWS)):
        columns = [_column([row.get(field.name) for row in batch], field.type) for field in schema]
        yield pa.Table.from_arrays(columns, schema=schema)


def _type(dtype: str) -> Any:  # noqa: ANN401
    pa, _ = import_arrow()
    if dtype == "category":
        return pa.dictionary(pa.int32(), pa.string())
    return pa.type_for_alias(_TYPES.get(dtype, dtype))


def _array(column: Any, of: Any) -> Any:  # noqa: ANN401
    """A column of a piece."""
    pa, _ = import_arrow()
    if isinstance(column, Coded):
        codes = pa.array(column.codes, mask=column.codes < 0)
        found = pa.DictionaryArray.from_arrays(codes, _column(column.names, pa.string()))
        return found if pa.types.is_dictionary(of) else found.dictionary_decode()
    mask = getattr(column, "mask", None)
    return pa.array(getattr(column, "data", column) if mask is not None else column, of, mask=mask, from_pandas=True)


def _column(values: Sequence[object], of: Any) -> Any:  # noqa: ANN401
    pa, _ = import_arrow()
    if pa.types.is_string(of):
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    try:
        return pa.array(values, of, from_pandas=True)
    except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid, pa.ArrowTypeError):
        # a torn line can glue numbers together, and JSON can name half a character
        return pa.array([_fitting(value, of) for value in values], of, from_pandas=True)


def _fitting(value: object, of: Any) -> object:  # noqa: ANN401
    pa, _ = import_arrow()
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8") if pa.types.is_string(of) else None
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        return None
    return value
