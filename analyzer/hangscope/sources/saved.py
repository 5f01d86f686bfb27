"""Knows the folders in which `analyze --tables` keeps a job, by the manifest that stands in them."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from hangscope.errors import InputError
from hangscope.sources.inputs import STDIN_PATH

MANIFEST = "hangscope-tables.json"
"""It is written first, as of a job not saved yet, and once more when everything else is there."""


def is_saved_job(path: str | Path) -> bool:
    """Whether this is the folder of a saved job."""
    return (Path(path) / MANIFEST).is_file()


def split_saved(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The saved jobs among the paths that a user gave, and the other paths; a glob may match both."""
    saved: list[str] = []
    others: list[str] = []
    for path in paths:
        found = [path]
        if glob.has_magic(path) and not os.path.lexists(path):
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (keeps the path as typed)
            found = matches if any(map(is_saved_job, matches)) else found
        for one in found:
            (saved if is_saved_job(one) else others).append(one)
    return saved, others


def check_folder(tables: str | Path, paths: Sequence[str]) -> None:
    """Refuses to save a job in a folder that is read for it.

    Raises:
        InputError: the folder is one of the paths.
    """
    place = Path(tables).resolve()
    if any(Path(path).resolve() == place for path in paths if path != STDIN_PATH):
        raise InputError(f"{tables} is to be read and written at once", "Name another folder for the tables.")
