"""Imports pyarrow where tables are written or read, and says what to install where it is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from hangscope.errors import InputError


def import_arrow() -> tuple[ModuleType, ModuleType]:
    """The modules `pyarrow` and `pyarrow.parquet`.

    Raises:
        InputError: pyarrow is not installed.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError("saved tables need pyarrow", "Install it: pip install 'hangscope[tables]'") from error
