"""Finds the files behind a URL, as a file, a folder or a pattern, in the way that local paths are found."""

from __future__ import annotations

import glob
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from hangscope.records import dataclass
from hangscope.sources.urls import entry, file_system, has_query, shown, translated

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_AT_ONCE = 16
"""Requests that wait for an answer at the same time: a job of a thousand ranks has as many files to look at."""

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file behind a URL.

    Attributes:
        url: opens it.
        name: its path below the URL that led to it; of a file that was named itself its own name.
        size: bytes; 0 when the server does not say.
    """

    url: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class RemoteRoot:
    """What a URL led to, or one match of a pattern.

    Attributes:
        shown: the URL, as it may be shown.
        files: it itself, or what is below it, in no order.
        concurrent: whether its files may be asked for by several threads at once.
    """

    shown: str
    files: tuple[RemoteFile, ...]
    concurrent: bool


def find_remote(url: str) -> list[RemoteRoot]:
    """What a URL leads to: itself, or the matches of a pattern; empty when there is nothing.

    Of a web server only what ends in ``/`` is a folder; its page of links is followed.

    Raises:
        InputError: the package for the protocol is missing, the server cannot be reached or refuses.
    """
    system, place = file_system(url)
    with translated(url):
        system.invalidate_cache()
        root = _root(system, url, place)
        if root is not None:
            return [root]
        if not is_pattern(url):
            return []
        return list(_matches(system, url, place))


def is_pattern(url: str) -> bool:
    """Whether it may stand for several files."""
    return glob.has_magic(url) and not has_query(url)


def each(function: Callable[[_T], _R], items: Sequence[_T], *, concurrent: bool) -> Iterator[_R]:
    """The results in order, of many requests at once where the file system stands it."""
    if not concurrent or len(items) < 2:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (only for URLs)

    with ThreadPoolExecutor(min(_AT_ONCE, len(items))) as pool:
        yield from pool.map(function, items)


def _root(system: AbstractFileSystem, url: str, place: str) -> RemoteRoot | None:
    concurrent = bool(system.async_impl)
    try:
        if _is_page_of_links(url):
            system.ls(place)  # `find` takes a server that does not answer for an empty folder
            kind, size = "directory", None
        else:
            kind, size = entry(system.info(place))
        if kind != "directory":
            name = posixpath.basename(shown(url).rstrip("/")) or shown(url)
            return RemoteRoot(shown(url), (RemoteFile(url, name, size or 0),), concurrent)
        return RemoteRoot(shown(url), tuple(_below(system, url, place)), concurrent)
    except FileNotFoundError:
        return None


def _is_page_of_links(url: str) -> bool:
    return url.startswith(("http://", "https://")) and url.endswith("/")


def _below(system: AbstractFileSystem, url: str, place: str) -> Iterator[RemoteFile]:
    base = place.rstrip("/") + "/"
    unsized: list[str] = []
    sizes: dict[str, int] = {}
    for path, info in system.find(place, detail=True).items():
        kind, size = entry(info)
        if not path.startswith(base) or kind == "directory" or _hidden(path[len(base) :]):
            continue
        if size is None:
            unsized.append(path)
        sizes[path] = size or 0
    ask = each(lambda path: system.info(path).get("size"), unsized, concurrent=bool(system.async_impl))
    sizes.update((path, size or 0) for path, size in zip(unsized, ask, strict=True))
    for path, size in sizes.items():
        name = path[len(base) :]
        yield RemoteFile(f"{url.rstrip('/')}/{name}", name, size)


def _matches(system: AbstractFileSystem, url: str, place: str) -> Iterator[RemoteRoot]:
    """The matches of a pattern; like a shell it takes nothing hidden that is not asked for."""
    fixed = url[: len(url) - len(_from_first_magic(url))]
    base = system._strip_protocol(fixed).rstrip("/") + "/"  # noqa: SLF001 (fsspec has no public name for it)
    asks_for_hidden = "/." in url[len(fixed) - 1 :]
    found: Iterable[str] = system.glob(place)
    for path in found:
        name = path[len(base) :].rstrip("/")
        if path.startswith(base) and name and (asks_for_hidden or not _hidden(name)):
            root = _root(system, fixed + name, path)
            if root is not None:
                yield root


def _from_first_magic(url: str) -> str:
    """The last part of a pattern: from the first name that holds a wildcard."""
    parts = url.split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[first:])


def _hidden(name: str) -> bool:
    """Hidden, or no file at all: a web server's page links to itself in other orders (``?C=M;O=A``)."""
    return any(part.startswith((".", "?")) for part in name.split("/"))
