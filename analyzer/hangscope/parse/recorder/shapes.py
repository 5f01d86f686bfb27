"""Numbers the calls of a dump by what is the same for many of them: group, operation, tensors, line of code.

Most of the work on a large job is here. So entries are told apart in whole passes in C, and Python looks at what is new
only: 2,000 entries have some dozen shapes.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from hangscope.expressions import expression
from hangscope.parse.recorder.frames import Stacks
from hangscope.parse.recorder.recording import CallShape
from hangscope.parse.recorder.tensors import Tensors, are_texts, as_bytes, in_words, is_plain, plain_columns, sign

_P2P = expression(r"(?P<way>send|recv)\s+(?P<me>\d{1,7})\s*(?:->|<-)\s*(?P<peer>\d{1,7})$")
SAID = ("process_group", "profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
FRAMES = "frames"
_SAMPLE = 256
_MOST_FRAMES = 1 << 24

Entry = dict[str, object]


class Shapes:
    """The shapes and groups of one dump.

    Attributes:
        made: the shapes, in the order in which they were first seen.
        backends: backend of each shape.
        groups: name and description of each group -> its number, in that order.
        ids: group's name -> torch's number of it.
    """

    def __init__(self, config: Mapping[str, tuple[str, str]]) -> None:
        self.made: list[CallShape] = []
        self.backends: list[str] = []
        self.groups: dict[tuple[str, str], int] = {}
        self.ids: dict[str, object] = {}
        self._config = config
        self._stacks = Stacks()
        self._places: dict[tuple[int, str, bytes, int], int] = {}

    def numbers(self, entries: Sequence[Entry]) -> list[int]:
        """The number of each entry's shape; the entries have `SAID` and `FRAMES`."""
        named, said, *tensors = [list(map(itemgetter(name), entries)) for name in SAID]
        names = texts(said)
        tensors, parts = _tensor_keys(tensors)
        keys = zip(self._group_keys(named, entries), names, _stack_keys(entries), *parts, strict=True)
        # a new key gets the next number
        places: defaultdict[object, int] = defaultdict(itertools.count().__next__)
        found = list(map(places.__getitem__, keys))
        firsts = _first_places(found, len(places))
        told = zip(*plain_columns([[column[at] for at in firsts] for column in tensors]), strict=True)
        numbers = [
            self._place(entries[at], named[at], names[at], those) for at, those in zip(firsts, told, strict=True)
        ]
        # keys differ where equal values are different objects
        return found if numbers == list(range(len(firsts))) else list(map(numbers.__getitem__, found))

    def _group_keys(self, named: list[Any], entries: Sequence[Entry]) -> Iterable[object]:
        if are_texts(named) and all(named):
            return map(tuple, named)
        return [self._group(name, entry.get("pg_id")) for name, entry in zip(named, entries, strict=True)]

    def _place(self, entry: Entry, named: object, name: str, tensors: Tensors) -> int:
        """Number of the shape of one entry, by what it says."""
        group, stack = self._group(named, entry.get("pg_id")), self._stacks.read(entry[FRAMES])
        key = (group, name, as_bytes(tensors), stack[0])
        number = self._places.get(key)
        if number is None:
            number = self._places[key] = len(self.made)
            backend, op, way, me, peer = _parts(name)
            made = CallShape(group, op, in_words(tensors), sign(op, tensors), stack[0], stack[1], way, me, peer)
            self.made.append(made)
            self.backends.append(backend)
        return number

    def _group(self, named: object, pg_id: object) -> int:
        if isinstance(named, list | tuple) and len(named) >= 1 and isinstance(named[0], str):
            description = named[1] if len(named) > 1 and isinstance(named[1], str) else ""
            key = (named[0][:200], description[:200])
        else:
            # torch 2.2 and 2.3: groups have a number of the process and no name
            key = (_old_name(pg_id, self._config), "")
        number = self.groups.get(key)
        if number is None:
            number = self.groups[key] = len(self.groups)
        if key[0] not in self.ids and isinstance(pg_id, int | str):
            self.ids[key[0]] = pg_id
        return number


def texts(column: Sequence[object]) -> list[str]:
    """A column whose values that are no text become empty."""
    if set(map(type, column)) == {str}:
        found: list[str] = list(column)  # type: ignore[arg-type]  # just looked at
        return found
    return [value if isinstance(value, str) else "" for value in column]


def _tensor_keys(tensors: list[list[Any]]) -> tuple[list[list[Any]], list[Iterable[object]]]:
    """The columns of `Tensors` with keys for them; those that cannot be told apart safely become columns of None."""
    sizes, types = tensors[:2], tensors[2:]
    keys: list[Iterable[object]] = []
    for at, column in enumerate(types):
        key = _text_keys(column)
        if key is None:
            types[at] = [None] * len(column)
        else:
            keys.append(key)
    if all(map(_is_shared, sizes)):
        keys += [map(id, column) for column in sizes]
    else:
        for at, column in enumerate(sizes):
            key = _size_keys(column)
            if key is None:
                sizes[at] = [None] * len(column)
            else:
                keys.append(key)
    return [*sizes, *types], keys


def _size_keys(column: list[Any]) -> Iterable[object] | None:
    """Keys for lists of sizes; None when they are something else."""
    if set(map(type, column)) != {list}:
        return None
    try:
        # nearly all calls have one tensor
        alone = [size for [size] in column]
    except ValueError:
        alone = []
    if set(map(type, alone)) == {list}:
        return map(tuple, alone) if is_plain([alone], int) else None
    return map(as_bytes, column) if is_plain(column, int) else None


def _text_keys(column: list[Any]) -> Iterable[object] | None:
    """Keys for lists of texts; None when they are something else."""
    if not set(map(type, column)) <= {list, tuple}:
        return None
    try:
        texts_alone = [text for [text] in column]
    except ValueError:
        return map(tuple, column) if are_texts(column) else None
    return texts_alone if set(map(type, texts_alone)) <= {str} else None


def _first_places(numbers: list[int], count: int) -> list[int]:
    """Where each number stands first; they come in ascending order."""
    places = []
    at = -1
    for number in range(count):
        at = numbers.index(number, at + 1)
        places.append(at)
    return places


def _stack_keys(entries: Sequence[Entry]) -> Iterable[object]:
    stacks: list[Any] = list(map(itemgetter(FRAMES), entries))
    if not _is_shared(stacks) and set(map(type, stacks)) == {list} and sum(map(len, stacks)) <= _MOST_FRAMES:
        # torch writes each stack anew, made of frames that it shares
        return map(tuple, map(map, repeat(id), stacks))
    return map(id, stacks)


def _is_shared(column: list[Any]) -> bool:
    """Whether most of the last entries hold the same few objects: as Python's pickler writes them, torch's does not."""
    last = column[-_SAMPLE:]
    return 2 * len(set(map(id, last))) <= len(last)


@functools.lru_cache(maxsize=1 << 10)
def _parts(name: str) -> tuple[str, str, str, int, int]:
    """Backend, operation, direction, own and other rank inside the group."""
    backend, colon, op = name.partition(":")
    if not colon:
        backend, op = "", name
    found = _P2P.match(op)
    parts = (found["way"], int(found["me"]), int(found["peer"])) if found else _bare(op)
    return backend.strip()[:20], op.strip()[:80], *parts


def _bare(op: str) -> tuple[str, int, int]:
    """A send or recv that names no peer (torch 2.2)."""
    return (op, -1, -1) if op in ("send", "recv") else ("", -1, -1)


def _old_name(pg_id: object, config: Mapping[str, tuple[str, str]]) -> str:
    """A name that is the same on all ranks: the number of a group is the process's own, its ranks are not."""
    name = str(pg_id)[:20] if isinstance(pg_id, int | str) else "0"
    ranks = config.get(name, ("", ""))[0]
    return name if name == "0" or not ranks else f"ranks {ranks.strip('[]')}"[:200]
