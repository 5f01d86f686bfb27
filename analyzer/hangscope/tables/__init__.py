"""The evidence as a handful of DataFrames with fixed columns, for notebooks and for alignment."""

from hangscope.tables.build import Tables
from hangscope.tables.schema import SCHEMA, Column

__all__ = ["SCHEMA", "Column", "Tables"]
