"""Writes a report into a folder, a file a format; a file is there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hangscope.errors import InputError
from hangscope.model import Report
from hangscope.report.formats import Format
from hangscope.report.options import RenderOptions


def make_folder(folder: Path) -> None:
    """Makes the folder unless it is there.

    Raises:
        InputError: something else has its name, or it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{folder} is no folder", "Name a folder; it is made when needed.") from error
    except OSError as error:
        raise _cannot_write(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written to: permission denied", "Name another folder.")


def write_files(report: Report, folder: Path, formats: Iterable[Format], options: RenderOptions) -> tuple[Path, ...]:
    """Renders the report in each format into its file of the folder; what was there under that name is replaced.

    Returns:
        The files, in the order of the formats.

    Raises:
        InputError: the folder cannot be made or written to.
    """
    make_folder(folder)
    written = []
    for one in formats:
        file = folder / one.FILE
        # unfinished, a report must not pass for one; beside it, a rename is all that is left to do
        unfinished = folder / f".{one.FILE}.{os.getpid()}.tmp"
        try:
            with unfinished.open("w", encoding=options.encoding, newline="\n") as stream:
                one.render(report, stream, options)
            unfinished.replace(file)
        except OSError as error:
            raise _cannot_write(file, error) from error
        finally:
            unfinished.unlink(missing_ok=True)
        written.append(file)
    return tuple(written)


def _cannot_write(place: Path, error: OSError) -> InputError:
    return InputError(f"{place} cannot be written: {error.strerror or error}", "Name another folder.")
