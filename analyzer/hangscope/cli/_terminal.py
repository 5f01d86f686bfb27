"""How wide the output may be."""

from __future__ import annotations

import os
import sys

PAGE_WIDTH = 100
"""Columns when the output goes to no terminal."""


def terminal_width() -> int:
    """Columns of the terminal, also when a pager stands between it and us; COLUMNS overrules it, as everywhere."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                return os.get_terminal_size(stream.fileno()).columns or PAGE_WIDTH
        except (OSError, ValueError):
            continue
    return PAGE_WIDTH
