"""Writes the page that describes every table and column.

``python -m hangscope.tables.reference`` writes analyzer/hangscope/tables/README.md; a test fails when it is stale.
"""

from __future__ import annotations

from pathlib import Path

from hangscope.tables.schema import SCHEMA, TABLES

PAGE = Path(__file__).with_name("README.md")

_HEAD = """\
# Tables

`hangscope analyze LOGS --tables DIR` writes each table as `DIR/TABLE.parquet`, compressed with zstd; as DataFrames they
are the attributes of `hangscope.load(LOGS)`, where moments are timestamps and no seconds. Each column's meaning also
stands in the Parquet schema, as the field's metadata `about`. In Parquet, values that are not known are null, and
`fields` of the events is JSON.

`DIR/parsed.parquet` is what hangscope itself reads when `DIR` is given as a path; its form is hangscope's own and may
change. `DIR/hangscope-tables.json` says of which format the folder is.

This page is made by `python -m hangscope.tables.reference`; a test fails when it is stale.
"""


def render_reference() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for name, columns in SCHEMA.items():
        parts += [f"## {name}", "", TABLES[name], "", "| column | type | meaning |", "|---|---|---|"]
        parts += [f"| `{column.name}` | {_word(column.dtype)} | {column.about} |" for column in columns]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _word(dtype: str) -> str:
    return {"str": "text", "category": "text", "object": "JSON", "boolean": "bool"}.get(dtype, dtype.lower())


if __name__ == "__main__":
    PAGE.write_text(render_reference(), encoding="utf-8")
