"""The manifest of a saved job: what says that a folder is one, of which format, and whether it is complete."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TypeGuard

import hangscope
from hangscope.errors import InputError
from hangscope.records import dataclass
from hangscope.sources.saved import MANIFEST, is_saved_job

FORMAT = 1
"""Raised when what this version writes is nothing that the one before can read."""
PARSED = "parsed.parquet"
"""The file with what the analysis needs; the others are tables for people."""
_NAME = "hangscope tables"
_AGAIN = "Save it again from the logs: hangscope analyze LOGS --tables DIR"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says.

    Attributes:
        inputs: names of the inputs that were read, in their order.
        files: size of each file of the folder, in bytes.
        rows: rows of each table for people.
    """

    inputs: tuple[str, ...]
    files: dict[str, int]
    rows: dict[str, int]


def claim(folder: Path) -> None:
    """Makes the folder, or sees that it may be written over: before the logs are read, which can take long.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not is_saved_job(folder) and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty", "Name a new folder, or one with saved tables to write over.")
    except OSError as error:
        raise cannot_write(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise cannot_write(folder, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def begin(folder: Path) -> None:
    """Makes the folder that of a job that is not complete yet."""
    _write(folder, {"complete": False})


def finish(folder: Path, manifest: Manifest) -> None:
    """Says that the folder is complete."""
    said = {"complete": True, "inputs": list(manifest.inputs), "files": manifest.files, "rows": manifest.rows}
    _write(folder, said)


def _write(folder: Path, said: dict[str, object]) -> None:
    head = {"format": _NAME, "version": FORMAT, "hangscope": hangscope.__version__}
    new = folder / (MANIFEST + ".new")
    new.write_text(json.dumps(head | said, indent=1) + "\n", encoding="utf-8")
    new.replace(folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """What the manifest of a saved job says.

    Raises:
        InputError: it is of a newer format, not complete, or not what hangscope writes.
    """
    try:
        said = json.loads((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise InputError(f"{folder / MANIFEST} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise damaged(folder, f"{MANIFEST} is no JSON") from error
    if not isinstance(said, dict) or said.get("format") != _NAME or type(said.get("version")) is not int:
        raise damaged(folder, f"{MANIFEST} is none of hangscope's")
    if said["version"] > FORMAT:
        by = f"hangscope {said.get('hangscope')}"
        raise InputError(
            f"{folder} was saved by {by} in format {said['version']}; this is {hangscope.__version__}, which reads "
            f"{FORMAT}",
            "Update hangscope, or save the tables again with this version.",
        )
    if said.get("complete") is not True:
        raise InputError(f"{folder} is not complete: saving it was interrupted", _AGAIN)
    inputs, files, rows = (said.get(key) for key in ("inputs", "files", "rows"))
    if not isinstance(inputs, list) or set(map(type, inputs)) - {str} or not _is_counts(files) or not _is_counts(rows):
        raise damaged(folder, f"{MANIFEST} lacks what it should say")
    return Manifest(tuple(inputs), files, rows)


def _is_counts(value: object) -> TypeGuard[dict[str, int]]:
    return isinstance(value, dict) and not set(map(type, value.values())) - {int}


def damaged(folder: Path, why: str) -> InputError:
    """The one error of a saved job that is not what was written."""
    return InputError(f"{folder} is damaged: {why}", _AGAIN)


def cannot_write(folder: Path, error: OSError) -> InputError:
    """The error of a folder that cannot be written."""
    return InputError(f"{folder} cannot be written: {error.strerror or error}", "Name another folder.")
