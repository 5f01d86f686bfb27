"""Reads a saved job back: what its logs were parsed into, and the lines that its report quotes."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
from array import array
from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from hangscope.errors import InputError
from hangscope.model import SourceRecord
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass
from hangscope.sources.around import Around
from hangscope.sources.quote import Quoted
from hangscope.tables.saved.arrow import import_arrow
from hangscope.tables.saved.columns import DamagedError, from_columns
from hangscope.tables.saved.decode import SourceDecoder
from hangscope.tables.saved.encode import Part
from hangscope.tables.saved.manifest import PARSED, Manifest, damaged, read_manifest
from hangscope.tables.saved.writer import JOB

_BATCH = 64
_RATIO, _FLOOR = 1000, 256 << 20
"""What decompresses to more than so many times its size, and to more than this, is no saved log."""


@dataclass(slots=True)
class SavedJob:
    """A job as it was saved.

    Attributes:
        sources: what each input became, before alignment.
        unreadable: records of inputs that could not be opened.
        lines: log lines that the report quotes, by file and number.
        around: what stands around lines of evidence, by their file and number.
    """

    sources: list[ParsedSource] = field(default_factory=list)
    unreadable: list[SourceRecord] = field(default_factory=list)
    lines: dict[tuple[str, int], Quoted] = field(default_factory=dict)
    around: dict[tuple[str, int], Around] = field(default_factory=dict)


def read_saved(
    folder: str | Path, taken: Collection[str] = (), progress: Callable[[int, int], None] | None = None
) -> SavedJob:
    """Reads a saved job.

    Args:
        folder: where it lies.
        taken: names of other inputs; when one of them is also here, all names get the folder's in front.
        progress: called with (bytes done, bytes in all).

    Raises:
        InputError: pyarrow is missing; or the folder is of a newer format, not complete, or damaged.
    """
    place = Path(folder)
    _, pq = import_arrow()
    manifest = read_manifest(place)
    file = place / PARSED
    try:
        size = file.stat().st_size
        if size != manifest.files.get(PARSED):
            raise damaged(place, f"{PARSED} has {size:,} bytes and had {manifest.files.get(PARSED, 0):,}")
        with pq.ParquetFile(file, page_checksum_verification=True) as stored, _collector_paused():
            job = _Job(manifest, _name_in(place, manifest, taken))
            for done, row in _parts(stored, size):
                job.take(*row)
                if progress is not None:
                    progress(done, size)
            return job.finish()
    except InputError:
        raise
    except FileNotFoundError as error:
        raise damaged(place, f"{PARSED} is missing") from error
    except PermissionError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    except (DamagedError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise damaged(place, f"{PARSED} holds something else ({error})") from error
    except (OSError, ValueError, RecursionError, OverflowError) as error:
        raise damaged(place, f"{PARSED} cannot be read ({str(error).partition(chr(10))[0]})") from error


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No rounds of the garbage collector: all that is made stays, and looking through it takes as long as making it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name_in(folder: Path, manifest: Manifest, taken: Collection[str]) -> Callable[[str], str]:
    """How an input of the folder is called here."""
    known = set(taken)
    for prefix in ("", f"{folder.absolute().name}/", f"{folder}/"):
        if known.isdisjoint(prefix + name for name in manifest.inputs):
            break
    return lambda name: prefix + name


def _parts(stored: Any, size: int) -> Iterator[tuple[int, tuple[int, Part]]]:  # noqa: ANN401 (pyarrow has no types)
    """The rows of the file: bytes read so far, number of the input, part."""
    metadata = stored.metadata
    groups = range(metadata.num_row_groups)
    if sum(metadata.row_group(number).total_byte_size for number in groups) > max(_FLOOR, size * _RATIO):
        raise DamagedError("it decompresses to far more than a log")
    for number in groups:
        for batch in stored.iter_batches(_BATCH, [number], ["source", "part", "value", "ints", "floats"]):
            sources, names, values = (column.to_pylist() for column in batch.columns[:3])
            ints, floats = batch.columns[3:]
            for row, source in enumerate(sources):
                part = Part(names[row], json.loads(values[row]), _numbers(ints[row], "q"), _numbers(floats[row], "d"))
                yield size * (number + 1) // len(groups), (source, part)


def _numbers(cell: Any, typecode: str) -> array[Any] | None:  # noqa: ANN401
    if not cell.is_valid:
        return None
    values = cell.values
    if values.null_count or str(values.type) != {"q": "int64", "d": "double"}[typecode]:
        raise DamagedError("a column of numbers has gaps")
    numbers = array(typecode)
    if len(values):
        start = values.offset * numbers.itemsize
        numbers.frombytes(memoryview(values.buffers()[1])[start : start + len(values) * numbers.itemsize])
    return numbers


class _Job:
    """The state of reading one saved job."""

    def __init__(self, manifest: Manifest, name_of: Callable[[str], str]) -> None:
        self._inputs = manifest.inputs
        self._name_of = name_of
        self._job = SavedJob()
        self._open: SourceDecoder | None = None
        self._seen: set[str] = set()

    def take(self, number: int, part: Part) -> None:
        if number == JOB:
            self._take_of_job(part)
        elif part.name == "source":
            if self._open is not None or number != len(self._job.sources) or number >= len(self._inputs):
                raise DamagedError("an input is not in its place")
            self._open = SourceDecoder(part.value, self._name_of(self._inputs[number]))
        elif self._open is None or number != len(self._job.sources):
            raise DamagedError("a part is not in its place")
        elif self._open.take(part):
            self._job.sources.append(self._open.source)
            self._open = None

    def _take_of_job(self, part: Part) -> None:
        self._seen.add(part.name)
        if part.name == "unreadable":
            found = from_columns(SourceRecord, part.value)
            self._job.unreadable = [dataclasses.replace(one, file=self._name_of(one.file)) for one in found]
        elif part.name == "quotes":
            for file, number, text in part.value:
                if (type(file), type(number), type(text)) != (str, int, str):
                    raise DamagedError("a quoted line is none")
                self._job.lines[self._name_of(file), number] = Quoted(text, 0)
        elif part.name == "around":
            for file, number, *sides in part.value:
                kinds = (type(file), type(number), *map(type, sides))
                if kinds != (str, int, list, list) or any(type(text) is not str for side in sides for text in side):
                    raise DamagedError("the lines around a line are none")
                self._job.around[self._name_of(file), number] = Around(tuple(sides[0]), tuple(sides[1]))

    def finish(self) -> SavedJob:
        if self._open is not None or len(self._job.sources) != len(self._inputs):
            raise DamagedError("inputs are missing")
        if self._seen != {"unreadable", "around", "quotes"}:
            raise DamagedError("its end is missing")
        return self._job
