"""Finds the inputs behind the paths a user gives: files, folders, globs, archives and standard input."""

from __future__ import annotations

import glob
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from hangscope.errors import InputError
from hangscope.model import SourceRecord
from hangscope.model.names import natural_order
from hangscope.records import dataclass
from hangscope.sources.container import ContainerError, Limits
from hangscope.sources.inputs import STDIN_PATH, Input
from hangscope.sources.own_reports import OWN_REPORT, is_own_report
from hangscope.sources.saved import is_saved_job
from hangscope.sources.sniff import SNIFF_BYTES, describe_error, is_archive, sniff_bytes
from hangscope.sources.storage import SMALL_CHUNK
from hangscope.sources.urls import is_url, local_path, shown

if TYPE_CHECKING:
    from hangscope.sources.archive import Member
    from hangscope.sources.remote import RemoteFile

__all__ = ["STDIN_NAME", "Input", "Limits", "ListMembers", "discover"]

ListMembers = Callable[[str, Limits], "list[Member]"]
"""Lists the files of an archive, as `list_members` does."""

STDIN_NAME = "<stdin>"
# a shell's <(command): the other end is already writing, so opening it cannot block
_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


@dataclass(frozen=True, slots=True)
class _Place:
    """A file to look at: its path, and how the report names it below the PATH (`root`) that led to it."""

    root: str
    path: str
    name: str


def discover(
    paths: Sequence[str], limits: Limits | None = None, members: ListMembers | None = None
) -> tuple[list[Input], list[SourceRecord]]:
    """The inputs behind `paths`, in order, and a record of everything that cannot be analyzed.

    Args:
        paths: files, folders, globs, archives or URLs of these; ``-`` is standard input.
        limits: how far to follow compressed data.
        members: lists an archive where it is nearer than from here.

    Raises:
        InputError: nothing at all is readable, or a URL cannot be had.
    """
    finder = _Finder(limits or Limits(), members or list_here)
    for path in paths:
        finder.add(path)
    if not finder.inputs and not finder.has_content_records:
        raise _nothing(paths, finder.records, finder.saved)
    return finder.inputs, finder.records


def list_here(path: str, limits: Limits) -> list[Member]:
    """What an archive holds, read on this machine."""
    from hangscope.sources.archive import list_members  # noqa: PLC0415 (few logs lie in one)

    return list_members(path, limits)


def _nothing(paths: Sequence[str], records: Sequence[SourceRecord], saved: Sequence[str]) -> InputError:
    if not paths:
        advice = "Name a log file, a folder of logs, an archive, or - for standard input."
        return InputError("no path was given", advice)
    reasons = [f"{record.file}: {record.error}" for record in records[:3]]
    if not reasons:
        named = ", ".join(map(shown, paths))
        if saved:
            return InputError(
                f"no logs in {named}", f"There are saved tables below it; name them: {' '.join(saved[:3])}"
            )
        return InputError(f"nothing to read in {named}", "The folder holds no files; check the path.")
    more = f" (and {len(records) - 3} more)" if len(records) > len(reasons) else ""
    return InputError("; ".join(reasons) + more, "Check the path and its permissions.")


class _Finder:
    """The state of one discovery."""

    def __init__(self, limits: Limits, members: ListMembers) -> None:
        self.inputs: list[Input] = []
        self.records: list[SourceRecord] = []
        self.has_content_records = False
        self.saved: list[str] = []
        self._limits = limits
        self._members = members
        self._names: set[str] = set()
        self._seen: set[tuple[int, int] | str] = set()

    def add(self, path: str) -> None:
        """Takes one PATH as the user typed it."""
        if path == STDIN_PATH:
            if not any(item.path == STDIN_PATH for item in self.inputs):
                self._keep(Input(STDIN_NAME, path, 0, limits=self._limits, rereadable=False), path)
            return
        if is_url(path):
            self._add_url(path)
            return
        path = local_path(path)
        if os.path.lexists(path):
            self._add_existing(path)
            return
        pattern = glob.has_magic(path)
        matches = sorted(glob.glob(path, recursive=True), key=natural_order) if pattern else []  # noqa: PTH207 (keeps the path as typed)
        for match in matches:
            self._add_existing(match)
        if not matches:
            self._fail(path, "no file matches" if pattern else "no such file or folder")

    def _add_url(self, url: str) -> None:
        """Takes what is behind a URL: named, ordered and looked at as what lies on a disk."""
        from hangscope.sources.remote import each, find_remote, is_pattern  # noqa: PLC0415 (only for URLs)

        roots = find_remote(url)
        for root in sorted(roots, key=lambda root: natural_order(root.shown)):
            files = sorted(root.files, key=lambda file: natural_order(file.name))
            places = [_Place(root.shown, file.url, file.name) for file in files]
            self._make_distinct(places)
            heads = each(self._head_of, files, concurrent=root.concurrent)
            for place, file, head in zip(places, files, heads, strict=True):
                if file.url not in self._seen:
                    self._seen.add(file.url)
                    self._add_headed(Input(place.name, file.url, file.size, limits=self._limits), place.root, head)
        if not roots:
            self._fail(shown(url), "no file matches" if is_pattern(url) else "no such file or folder")

    def _head_of(self, file: RemoteFile) -> bytes | OSError | ValueError:
        """The first bytes of a file behind a URL; what went wrong is a value, because others are asked meanwhile."""
        try:
            with Input(file.name, file.url, file.size, limits=self._limits).open(SMALL_CHUNK) as stream:
                return stream.peek(SNIFF_BYTES)[:SNIFF_BYTES]
        except (OSError, ValueError) as error:
            return error

    def _add_existing(self, path: str) -> None:
        try:
            mode = Path(path).stat().st_mode
        except OSError as error:
            self._fail(path, _reason(error))
            return
        if not stat.S_ISDIR(mode):
            self._add_file(_Place(path, path, PurePath(path).name or path), mode)
            return
        places = list(self._walk(path))
        self._make_distinct(places)
        for place in places:
            try:
                self._add_file(place, Path(place.path).stat().st_mode)
            except OSError as error:
                self._fail(place.name, _reason(error))

    def _walk(self, root: str) -> Iterator[_Place]:
        """Files below a folder in natural order; links come last, so that a file keeps its own name."""
        links: list[_Place] = []
        places: list[_Place] = []
        visited: set[tuple[int, int]] = set()
        pending = [root]
        while pending:
            folder = pending.pop()
            try:
                status = Path(folder).stat()
                if (status.st_dev, status.st_ino) in visited:
                    continue
                visited.add((status.st_dev, status.st_ino))
                entries = list(os.scandir(folder))
            except OSError as error:
                self._fail(os.path.relpath(folder, root) if folder != root else root, _reason(error))
                continue
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                name = os.path.relpath(entry.path, root).replace(os.sep, "/")
                if _is_folder(entry):
                    # tables saved beside their logs say nothing that the logs do not
                    (self.saved if is_saved_job(entry.path) else pending).append(entry.path)
                else:
                    (links if entry.is_symlink() else places).append(_Place(root, entry.path, name))
        yield from sorted(places, key=lambda place: natural_order(place.name))
        yield from sorted(links, key=lambda place: natural_order(place.name))

    def _add_file(self, place: _Place, mode: int) -> None:
        item = Input(place.name, place.path, 0, limits=self._limits)
        if stat.S_ISFIFO(mode) and place.path.startswith(_PIPES):
            self._keep(replace(item, rereadable=False), place.root)
            return
        if not stat.S_ISREG(mode):
            self._fail(place.name, f"not a file but {_special(mode)}")
            return
        try:
            status = Path(place.path).stat()
            item = replace(item, size=status.st_size)
            identity = (status.st_dev, status.st_ino)
            if identity in self._seen:
                return
            self._seen.add(identity)
            with item.open() as stream:
                head = stream.peek(SNIFF_BYTES)[:SNIFF_BYTES]
        except (OSError, ValueError) as error:
            self._fail(place.name, _reason(error), size=item.size)
            return
        self._add_headed(item, place.root, head)

    def _add_headed(self, item: Input, root: str, head: bytes | OSError | ValueError) -> None:
        """Takes a file by its first bytes, or by the error that reading them gave."""
        try:
            if isinstance(head, OSError | ValueError):
                raise head
            if is_archive(head):
                self._add_archive(item, root)
            else:
                self._keep(replace(item, kind=sniff_bytes(head)), root, head)
        except (OSError, ValueError) as error:
            self._fail(item.name, _reason(error), size=item.size)

    def _add_archive(self, archive: Input, root: str) -> None:
        for member in self._members(archive.path, self._limits):
            # a name that climbs out of the archive is shown as if it did not
            shown = posixpath.normpath("/" + member.path.replace("\\", "/")).lstrip("/")
            name = f"{archive.name}/{shown}"
            if member.error is not None:
                self._fail(name, member.error, size=member.size)
                continue
            item = replace(archive, name=name, size=member.size, kind=sniff_bytes(member.head), member=member.index)
            self._keep(item, root, member.head)

    def _keep(self, item: Input, root: str, head: bytes = b"") -> None:
        if is_own_report(head):
            # whoever writes reports beside the logs does not mean them; whoever names one is told
            if item.path == root and item.member is None:
                self._fail(item.name, OWN_REPORT, kind="report", size=item.size)
            return
        error = describe_error(head)
        if error is not None:
            self.has_content_records = True
            self._fail(item.name, error, kind=str(sniff_bytes(head)), size=item.size)
            return
        name = self._distinct(item.name, root)
        self._names.add(name)
        self.inputs.append(replace(item, name=name))

    def _make_distinct(self, places: list[_Place]) -> None:
        """A second folder whose files would be named like the first one's gets its own name in front of all."""
        if not any(place.name in self._names for place in places):
            return
        root = places[0].root
        for prefix in (Path(root).absolute().name, root.rstrip("/")):
            if not any(f"{prefix}/{place.name}" in self._names for place in places):
                places[:] = [replace(place, name=f"{prefix}/{place.name}") for place in places]
                return

    def _distinct(self, name: str, root: str) -> str:
        if name not in self._names:
            return name
        if PurePath(root).name == name and root not in self._names:
            return root
        numbered = (f"{name} ({number})" for number in range(2, len(self._names) + 3))
        return next(new for new in numbered if new not in self._names)

    def _fail(self, name: str, error: str, *, kind: str = "unreadable", size: int = 0) -> None:
        self.records.append(SourceRecord(file=name, kind=kind, lines=0, bytes=size, unrecognized=0, error=error))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _special(mode: int) -> str:
    for test, what in (
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a character device"),
    ):
        if test(mode):
            return what
    return "something special"


def _reason(error: Exception) -> str:
    if isinstance(error, ContainerError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"cannot be read: {error}" if str(error) else f"cannot be read: {type(error).__name__}"
