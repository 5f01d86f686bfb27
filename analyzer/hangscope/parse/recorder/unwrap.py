"""Finds the dumps in a document: one dump, a dump for each rank, or dumps inside of other tools' wrapping."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

from hangscope.expressions import expression
from hangscope.parse.recorder.unpickle import CUT, BrokenDumpError, load_pickle
from hangscope.records import dataclass

_ENTRY_KEYS = frozenset({"profiling_name", "collective_seq_id", "seq_id", "record_id"})
_DUMP_KEYS = frozenset({"entries", "pg_config", "pg_status"})
_RANK_KEYS = ("rank", "global_rank", "world_rank")
_RANK_NAME = expression(r"(?:.*rank[-_ =:]?)?(\d{1,7})(?!\d)[^\d]*", re.IGNORECASE)
_DEEPEST = 4
_MOST_DUMPS = 1 << 17
_MOST_VISITS = 1 << 19
_PAGE_HEAD = expression(r"^=== Rank (\d{1,7}): [^\n]*===[ \t]*$", re.MULTILINE)
"""torch.distributed.debug (2.10 on) prints such a line before the answer of each rank."""


@dataclass(frozen=True, slots=True)
class FoundDump:
    """A dump, the rank under which it was found, and its entries."""

    rank: int | None
    head: dict[object, object]
    entries: list[object]


def load_json(data: bytes) -> object:
    """The value of a JSON document.

    Raises:
        BrokenDumpError: it is cut, damaged or nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise BrokenDumpError("refused: it is nested too deeply") from error
    except MemoryError as error:
        raise BrokenDumpError("refused: it would take far more memory than a flight recorder's dump") from error
    except ValueError as error:
        if not data.rstrip().endswith((b"}", b"]")):
            raise BrokenDumpError(CUT) from error
        raise BrokenDumpError(f"no readable JSON: {error}") from error


def find_dumps(value: object) -> list[FoundDump]:
    """The dumps that a document holds; none when it is something else."""
    return list(itertools.islice(_Walk().through(value, None, 0), _MOST_DUMPS))


def find_page_dumps(text: str) -> list[FoundDump]:
    """The dumps of a page of torch's debug server: a heading for each rank, and its answer below."""
    heads = list(_PAGE_HEAD.finditer(text))
    found: list[FoundDump] = []
    for at, head in enumerate(heads):
        end = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        body = text[head.end() : end].strip()
        start = body.find("{")
        if start < 0:
            continue
        try:
            value, _ = json.JSONDecoder().raw_decode(body[start:])
        except (ValueError, RecursionError):
            continue
        found += [FoundDump(int(head[1]), dump.head, dump.entries) for dump in find_dumps(value)[:1]]
    return found


class _Walk:
    """Goes through a document; bounded, since lists may hold each other many times over."""

    def __init__(self) -> None:
        self._visits = 0

    def through(self, value: object, rank: int | None, depth: int) -> Iterator[FoundDump]:
        self._visits += 1
        if depth > _DEEPEST or self._visits > _MOST_VISITS:
            return
        if isinstance(value, bytes | bytearray | str):
            inner = _inside(value)
            if inner is not None:
                yield from self.through(inner, rank, depth + 1)
        elif isinstance(value, list | tuple):
            yield from self._list(value, rank, depth)
        elif isinstance(value, dict):
            yield from self._dict(value, rank, depth)

    def _list(self, value: list[object] | tuple[object, ...], rank: int | None, depth: int) -> Iterator[FoundDump]:
        if _is_entry(value[0] if value else None):
            yield FoundDump(rank, {}, list(value))
            return
        # a list of dumps: each says its rank, or stands at its place
        for place, item in enumerate(value[:_MOST_DUMPS]):
            yield from self.through(item, rank if len(value) == 1 else place, depth + 1)

    def _dict(self, value: dict[object, object], rank: int | None, depth: int) -> Iterator[FoundDump]:
        said = next((value[key] for key in _RANK_KEYS if isinstance(value.get(key), int)), None)
        rank = said if isinstance(said, int) and not isinstance(said, bool) and said >= 0 else rank
        if _DUMP_KEYS & value.keys():
            entries = value.get("entries")
            yield FoundDump(rank, value, entries if isinstance(entries, list) else [])
            return
        for key, item in value.items():
            named = _rank_of(key) if rank is None else None
            yield from self.through(item, named if named is not None else rank, depth + 1)


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and bool(_ENTRY_KEYS & value.keys()) and not _DUMP_KEYS & value.keys()


def _rank_of(key: object) -> int | None:
    """The rank that a key names: 3, "3", "rank3", "rank_3"."""
    if isinstance(key, int) and not isinstance(key, bool):
        return key if 0 <= key < 1 << 20 else None
    found = _RANK_NAME.fullmatch(key) if isinstance(key, str) and len(key) < 200 else None
    return int(found[1]) if found else None


def _inside(value: bytes | bytearray | str) -> object:
    """A document inside of a document; None when these bytes are none."""
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("{", "["):
            return None
        return load_json(value.encode())
    if value[:1] == b"\x80":
        return load_pickle(bytes(value))
    return load_json(bytes(value)) if value.lstrip()[:1] in (b"{", b"[") else None
