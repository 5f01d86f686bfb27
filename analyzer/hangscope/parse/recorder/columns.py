"""Makes columns of a dump's entries, whatever version of torch wrote them (formats 1 to 2.10 and what follows)."""

from __future__ import annotations

import itertools
import marshal
import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_, itemgetter
from typing import Any

from hangscope.expressions import expression
from hangscope.parse.recorder.frames import Stack, Stacks
from hangscope.parse.recorder.recording import CallShape, RecordedGroup, Recording, State
from hangscope.parse.recorder.unwrap import FoundDump

_P2P = expression(r"(?P<way>send|recv)\s+(?P<me>\d{1,7})\s*(?:->|<-)\s*(?P<peer>\d{1,7})$")
_RETIRED_IS_DONE = frozenset({"gloo", "mpi", "ucc", "fake"})
"""Backends of the CPU: their `state` stays "scheduled" for ever (torch 2.8 on), `retired` is the only progress."""

_VARIES_IN = frozenset(
    {"all_to_all", "all_to_allv", "all_to_all_base", "alltoall", "alltoall_base", "gather", "scatter", "coalesced"}
)
"""Operations whose sizes differ between ranks by nature."""

_FIELDS = (
    "process_group", "pg_id", "profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes",
    "frames",
    "collective_seq_id", "p2p_seq_id", "state", "retired", "time_created_ns", "time_discovered_completed_ns",
    "time_discovered_started_ns",
)  # fmt: skip
_ALL_FIELDS: Callable[[dict[str, object]], tuple[object, ...]] = itemgetter(*_FIELDS)
_MOST_ENTRIES = 1_000_000
_BIGGEST = 1 << 62
_MOST_US = (1 << 32) - 1
_MOST_SHAPES = 1 << 16
_MOST_SIZES = 1 << 24


def build_recording(file: str, rank: int | None, dump: FoundDump) -> Recording:
    """One dump as columns. What is of the wrong type counts as not told."""
    head = dump.head
    entries = [entry for entry in dump.entries[:_MOST_ENTRIES] if isinstance(entry, dict)]
    recording = Recording(file, rank, _version(head), _library(head))
    _Builder(recording, head).build(entries)
    return recording


class _Builder:
    def __init__(self, recording: Recording, head: dict[object, object]) -> None:
        self._recording = recording
        self._head = head
        self._stacks = Stacks()
        self._groups: dict[tuple[str, str], int] = {}
        self._made: list[CallShape] = []
        self._names: dict[object, tuple[str, str, str, int, int]] = {}
        self._ids: dict[str, object] = {}
        self._config = _config(head.get("pg_config"))

    def build(self, entries: list[dict[str, object]]) -> None:
        recording = self._recording
        try:
            rows = list(map(_ALL_FIELDS, entries))
        except KeyError:
            rows = [_row(entry) for entry in entries]
        if rows:
            self._columns(rows)
        recording.groups = self._described()
        recording.shapes = tuple(self._made)

    def _columns(self, rows: list[tuple[object, ...]]) -> None:
        recording = self._recording
        columns: list[Sequence[object]] = list(zip(*rows, strict=True))
        columns[3:7] = [
            column if _is_plain(column, kind) else [None] * len(rows)
            for column, kind in zip(columns[3:7], (int, int, str, str), strict=True)
        ]
        seqs, p2p_seqs, times = _ints(columns[8]), _ints(columns[9]), _ints(columns[12])
        names = _texts(columns[2])
        shapes = self._shapes_of(columns, names)
        made = self._made
        states = bytearray(self._states(columns, names))
        _mark_parts(states, shapes, made, seqs, p2p_seqs)
        last = max(times)
        recording.backend = self._names[names[-1]][0]
        recording.shape = array("H" if len(made) < _MOST_SHAPES else "L", shapes)
        recording.seq = array("I" if min(seqs) >= 0 and max(seqs) <= _MOST_US else "q", seqs)
        recording.state = bytes(states)
        ages = [(last - time) // 1000 for time in times]
        recording.time_us = array("I", ages if max(ages) <= _MOST_US else [min(age, _MOST_US) for age in ages])
        recording.last_time_ns = last
        recording.has_frames = any(shape.stack for shape in made)

    def _shapes_of(self, columns: Sequence[Sequence[object]], names: list[str]) -> list[int]:
        """The shape of each entry, each made once. This is most of the work on a large job."""
        # passes in C over all entries, and Python only for what is new: 2,000 entries have some dozen shapes
        try:
            sizes = list(
                map(marshal.dumps, zip(*columns[3:7], strict=True), repeat(2))
            )  # 2: sharing makes no difference
        except ValueError:
            sizes = [_plain(tensors) for tensors in zip(*columns[3:7], strict=True)]
        groups = self._group_numbers(columns[0], columns[1])
        ids = list(map(id, columns[7]))
        stacks = {at: self._stacks.read(frames) for at, frames in dict(zip(ids, columns[7], strict=True)).items()}
        numbers = {at: stack[0] for at, stack in stacks.items()}
        # a new key gets the next number
        places: defaultdict[tuple[int, str, bytes, int], int] = defaultdict(itertools.count().__next__)
        keys = zip(groups, names, sizes, map(numbers.__getitem__, ids), strict=True)
        found = list(map(places.__getitem__, keys))
        # of several entries with one number the first one stays
        first = dict(zip(reversed(found), range(len(found) - 1, -1, -1), strict=True))
        for number in range(len(first)):
            at = first[number]
            tensors = [column[at] for column in columns[3:7]]
            self._made.append(self._describe(groups[at], names[at], tensors, stacks[ids[at]]))
        return found

    def _states(self, columns: Sequence[Sequence[object]], names: list[str]) -> list[int]:
        cpu = {name for name, known in self._names.items() if known[0] in _RETIRED_IS_DONE}
        on_cpu = map(cpu.__contains__, names)
        retired = map(is_, columns[11], [True] * len(names))
        done, started = map(bool, columns[13]), map(bool, columns[14])
        rows = list(zip(_texts(columns[10]), retired, done, started, on_cpu, strict=True))
        table = {row: _state(*row) for row in set(rows)}
        return list(map(table.__getitem__, rows))

    def _group_numbers(self, named: Sequence[object], pg_ids: Sequence[object]) -> list[int]:
        if set(map(type, named)) != {tuple}:
            return [self._group(name, pg_id) for name, pg_id in zip(named, pg_ids, strict=True)]
        try:
            keys = list(zip(named, pg_ids, strict=True))
            numbers = {key: self._group(*key) for key in dict.fromkeys(keys)}
        except TypeError:  # what is to name a group holds lists
            return [self._group(name, pg_id) for name, pg_id in zip(named, pg_ids, strict=True)]
        return list(map(numbers.__getitem__, keys))

    def _describe(self, group: int, name: str, tensors: Sequence[object], stack: Stack) -> CallShape:
        _, op, way, me, peer = self._name(name)
        compared = _compared(op, *tensors[:2])
        signature = 0 if compared is None else zlib.crc32(_plain((*compared, *tensors[2:])))
        return CallShape(group, op, _sizes(tensors), signature, stack[0], stack[1], way, me, peer)

    def _name(self, name: str) -> tuple[str, str, str, int, int]:
        """Backend, operation, direction, own and other rank inside the group."""
        known = self._names.get(name)
        if known is not None:
            return known
        backend, colon, op = name.partition(":")
        if not colon:
            backend, op = "", name
        found = _P2P.match(op)
        parts = (found["way"], int(found["me"]), int(found["peer"])) if found else _bare(op)
        known = self._names[name] = (backend.strip()[:20], op.strip()[:80], *parts)
        return known

    def _group(self, named: object, pg_id: object) -> int:
        if isinstance(named, list | tuple) and len(named) >= 1 and isinstance(named[0], str):
            description = named[1] if len(named) > 1 and isinstance(named[1], str) else ""
            key = (named[0][:200], description[:200])
        else:
            # torch 2.2 and 2.3: groups have a number of the process and no name
            key = (_old_name(pg_id, self._config), "")
        number = self._groups.get(key)
        if number is None:
            number = self._groups[key] = len(self._groups)
        if key[0] not in self._ids and isinstance(pg_id, int | str):
            self._ids[key[0]] = pg_id
        return number

    def _described(self) -> tuple[RecordedGroup, ...]:
        """The groups of the entries, in their order, then those of the configuration without a call."""
        status = self._head.get("pg_status")
        status = status if isinstance(status, dict) else {}
        found = []
        for name, description in self._groups:
            ranks, known = self._config.get(name, ("", ""))
            counters = _get(status, str(self._ids.get(name))) or _get(status, self._ids.get(name))
            enqueued = _number(_get(counters, "last_enqueued_collective"))
            found.append(RecordedGroup(name, description or known, ranks, enqueued))
        names = {name for name, _ in self._groups}
        found += [RecordedGroup(n, d, r) for n, (r, d) in self._config.items() if n not in names]
        return tuple(found)


def _row(entry: dict[str, object]) -> tuple[object, ...]:
    """The fields of an entry of an older format."""
    row = [entry.get(name) for name in _FIELDS]
    if row[8] is None:
        row[8] = entry.get("seq_id")
    if row[12] is None:
        made = entry.get("time_created_us")
        row[12] = made * 1000 if isinstance(made, int) and 0 <= made < _BIGGEST // 1000 else 0
    return tuple(row)


def _bare(op: str) -> tuple[str, int, int]:
    """A send or recv that names no peer (torch 2.2)."""
    return (op, -1, -1) if op in ("send", "recv") else ("", -1, -1)


def _state(said: str, retired: bool, completed: bool, started: bool, on_cpu: bool) -> State:  # noqa: FBT001 (a row of flags)
    if said == "completed" or completed:
        return State.DONE
    if retired:
        return State.DONE if on_cpu else State.FAILED
    if said == "started" or started:
        return State.STARTED
    return State.SCHEDULED


def _mark_parts(
    states: bytearray, shapes: Sequence[int], made: Sequence[CallShape], seqs: Sequence[int], p2p_seqs: Sequence[int]
) -> None:
    """Members of a coalesced block stand before the entry that closes it and share its numbers."""
    closing = {number for number, shape in enumerate(made) if shape.op == "coalesced"}
    if not closing:
        return
    for at, number in enumerate(shapes):
        if number not in closing:
            continue
        group, seq, p2p_seq = made[number].group, seqs[at], p2p_seqs[at]
        back = at - 1
        while back >= 0 and seqs[back] == seq and p2p_seqs[back] == p2p_seq and made[shapes[back]].group == group:
            if shapes[back] in closing:
                break
            states[back] = State.PART
            back -= 1


def _ints(column: Sequence[object]) -> list[int]:
    if set(map(type, column)) == {int}:
        numbers: list[int] = list(column)  # type: ignore[arg-type]  # just looked at
        if min(numbers) > -_BIGGEST and max(numbers) < _BIGGEST:
            return numbers
    return [max(_number(value), 0) for value in column]


def _is_plain(column: Sequence[object], kind: type) -> bool:
    """Whether a column holds sizes or types, and none so large, or so often repeated, that they make a bomb.

    Sizes are lists of lists of integers, types lists of texts. Each pass over them costs as much as reading the file's
    bytes: an array takes integers only, and only those of 64 bits, so filling one is both checks in one pass.
    """
    if set(map(type, column)) != {list}:
        return False
    lists: Sequence[Any] = column
    if sum(map(len, lists)) > _MOST_SIZES:
        return False
    inner = list(itertools.chain.from_iterable(lists))
    if kind is str:
        try:
            texts = set(inner)  # few, each of them many times
        except TypeError:
            return False
        return set(map(type, texts)) <= {str} and max(map(len, texts), default=0) * len(inner) <= _MOST_SIZES
    if inner and set(map(type, inner)) != {list}:
        inner = [inner]
    if sum(map(len, inner)) > _MOST_SIZES:
        return False
    try:
        array("q", itertools.chain.from_iterable(inner))
    except (TypeError, OverflowError):
        return False
    return True


def _texts(column: Sequence[object]) -> list[str]:
    if set(map(type, column)) == {str}:
        texts: list[str] = list(column)  # type: ignore[arg-type]  # just looked at
        return texts
    return [value if isinstance(value, str) else "" for value in column]


def _number(value: object) -> int:
    """A counter, which JSON dumps write as text; -1 when it is none."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _BIGGEST else -1


def _get(value: object, key: object) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _version(head: dict[object, object]) -> tuple[int, int]:
    """Two numbers: 2.10 is younger than 2.9."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", str(head.get("version"))[:20])
    return (int(found[1]), int(found[2])) if found else (1, 0)


def _library(head: dict[object, object]) -> str:
    """``nccl_version`` of torch 2.8, ``comm_lib_version`` of later ones; gloo's dumps leave it empty."""
    said = str(head.get("comm_lib_version") or head.get("nccl_version") or "")[:20]
    found = re.match(r"2\.\d{1,2}\.\d{1,2}", said)
    return found[0] if found else ""


def _config(value: object) -> dict[str, tuple[str, str]]:
    """Name -> (ranks as printed, description), of all forms that `pg_config` has had."""
    if not isinstance(value, dict):
        return {}
    groups = {}
    for key, said in list(value.items())[:_MOST_SHAPES]:
        if isinstance(said, dict):
            name, description, ranks = said.get("name", key), said.get("desc", ""), said.get("ranks", "")
        else:
            name, description, ranks = key, "", said
        if isinstance(ranks, list | tuple):
            ranks = str([rank for rank in ranks if isinstance(rank, int) and 0 <= rank < 1 << 20])
        if isinstance(name, str | int):
            groups[str(name)[:200]] = (
                ranks if isinstance(ranks, str) else "",
                description[:200] if isinstance(description, str) else "",
            )
    return groups


def _old_name(pg_id: object, config: dict[str, tuple[str, str]]) -> str:
    """A name that is the same on all ranks: the number of a group is the process's own, its ranks are not."""
    name = str(pg_id)[:20] if isinstance(pg_id, int | str) else "0"
    ranks = config.get(name, ("", ""))[0]
    return name if name == "0" or not ranks else f"ranks {ranks.strip('[]')}"[:200]


# --- sizes ------------------------------------------------------------------------------------------------


def _compared(op: str, inputs: object, outputs: object) -> tuple[object, ...] | None:
    """The sizes that must agree between ranks; None for operations whose sizes differ by nature."""
    if op in _VARIES_IN:
        return None
    if op == "reduce":
        return (inputs,)
    # a list of tensors of several sizes (uneven all_gather): the list is the same on all ranks, the own part is not
    for pieces in (outputs, inputs):
        if isinstance(pieces, list) and len(pieces) > 1 and any(piece != pieces[0] for piece in pieces[1:]):
            return (pieces,)
    return (inputs, outputs)


def _plain(value: Any) -> bytes:  # noqa: ANN401 (what marshal takes has no name of its own)
    try:
        return marshal.dumps(value, 2)
    except ValueError:
        return b""


def _sizes(tensors: Sequence[object]) -> str:
    """Sizes and types in words: ``[3] Float``, ``[3] Float -> [2, 3] Float``."""
    inputs, outputs, in_types, out_types = tensors
    one, two = _tensors(inputs, in_types), _tensors(outputs, out_types)
    return one if one == two or not two else (f"{one} -> {two}" if one else two)


def _tensors(sizes: object, types: object) -> str:
    if not isinstance(sizes, list) or not sizes:
        return ""
    shown = ", ".join(_size(size) for size in sizes[:3]) + (f", ... ({len(sizes)} tensors)" if len(sizes) > 3 else "")
    kinds = list(dict.fromkeys(k for k in types if isinstance(k, str)))[:3] if isinstance(types, list) else []
    return " ".join([shown, *kinds])[:160]


def _size(size: object) -> str:
    if not isinstance(size, list):
        return "?"
    return "[" + ", ".join(str(n) if isinstance(n, int) and abs(n) < _BIGGEST else "?" for n in size[:8]) + "]"
