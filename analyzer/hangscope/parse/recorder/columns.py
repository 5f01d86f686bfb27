"""Makes columns of a dump's entries, whatever version of torch wrote them (formats 1 to 2.10 and what follows)."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import compress, count, repeat
from operator import is_, itemgetter, ne
from typing import Any

from hangscope.parse.recorder.recording import CallShape, RecordedGroup, Recording, State
from hangscope.parse.recorder.shapes import FRAMES, SAID, Entry, Shapes, texts
from hangscope.parse.recorder.unwrap import FoundDump

_RETIRED_IS_DONE = frozenset({"gloo", "mpi", "ucc", "fake"})
"""Backends of the CPU: their `state` stays "scheduled" for ever (torch 2.8 on), `retired` is the only progress."""

_SEQ, _STATE, _TIME = "collective_seq_id", "state", "time_created_ns"
_FIELDS = (*SAID, FRAMES, _SEQ, _STATE, _TIME)
"""What every entry is asked; the rest only those for which it decides something."""
_COMPLETED = "completed"
_MOST_ENTRIES = 1_000_000
_BIGGEST = 1 << 62
_MOST_US = (1 << 32) - 1
_MOST_SHAPES = 1 << 16
Column = list[object]


def build_recording(file: str, rank: int | None, dump: FoundDump) -> Recording:
    """One dump as columns. What is of the wrong type counts as not told."""
    head = dump.head
    config = _config(head.get("pg_config"))
    recording = Recording(file, rank, _version(head), _library(head))
    shapes = Shapes(config)
    entries = _entries(dump)
    if entries:
        try:
            _fill(recording, shapes, entries)
        except KeyError:
            _fill(recording, shapes, [_renewed(entry) for entry in entries])
    recording.groups = _described(shapes, config, head.get("pg_status"))
    recording.shapes = tuple(shapes.made)
    return recording


def _entries(dump: FoundDump) -> list[Entry]:
    entries: list[Any] = dump.entries[:_MOST_ENTRIES]
    return entries if set(map(type, entries)) <= {dict} else [entry for entry in entries if isinstance(entry, dict)]


def _renewed(entry: Entry) -> Entry:
    """An entry of an older format, or of one that leaves out what was not recorded, with all fields."""
    new = {**dict.fromkeys(_FIELDS), **entry}
    if new[_SEQ] is None:
        new[_SEQ] = entry.get("seq_id")
    if new[_TIME] is None:
        made = entry.get("time_created_us")
        new[_TIME] = made * 1000 if isinstance(made, int) and 0 <= made < _BIGGEST // 1000 else 0
    return new


def _fill(recording: Recording, shapes: Shapes, entries: list[Entry]) -> None:
    """Fills the columns; KeyError when an entry lacks one of `_FIELDS`."""
    seq, times = _seqs(_column(entries, _SEQ)), _ints(_column(entries, _TIME))
    said = texts(_column(entries, _STATE))
    numbers = shapes.numbers(entries)
    states = _states(said, numbers, shapes.backends, entries)
    _mark_parts(states, numbers, shapes.made, seq, entries)
    last = max(times)
    recording.backend = shapes.backends[numbers[-1]]
    recording.shape = array("H" if len(shapes.made) < _MOST_SHAPES else "L", numbers)
    recording.seq = seq
    recording.state = bytes(states)
    recording.time_us = _ages(times, last)
    recording.last_time_ns = last
    recording.has_frames = any(shape.stack for shape in shapes.made)


def _column(entries: list[Entry], name: str) -> Column:
    return list(map(itemgetter(name), entries))


# --- states -----------------------------------------------------------------------------------------------


def _states(said: list[str], numbers: list[int], backends: Sequence[str], entries: list[Entry]) -> bytearray:
    states = bytearray([State.DONE]) * len(said)
    # NCCL's calls are completed but for the last; of gloo's, none is
    if said.count(_COMPLETED) == len(said):
        return states
    asked = list(map(ne, said, repeat(_COMPLETED)))
    those = list(compress(entries, asked))
    retired = map(is_, map(dict.get, those, repeat("retired")), repeat(True))  # noqa: FBT003 (what is compared)
    done = map(bool, map(dict.get, those, repeat("time_discovered_completed_ns")))
    started = map(bool, map(dict.get, those, repeat("time_discovered_started_ns")))
    on_cpu = map([backend in _RETIRED_IS_DONE for backend in backends].__getitem__, compress(numbers, asked))
    rows = list(zip(compress(said, asked), retired, done, started, on_cpu, strict=True))
    table = {row: _state(*row) for row in set(rows)}
    for at, row in zip(compress(count(), asked), rows, strict=True):
        states[at] = table[row]
    return states


def _state(said: str, retired: bool, completed: bool, started: bool, on_cpu: bool) -> State:  # noqa: FBT001 (a row of flags)
    if said == _COMPLETED or completed:
        return State.DONE
    if retired:
        return State.DONE if on_cpu else State.FAILED
    if said == "started" or started:
        return State.STARTED
    return State.SCHEDULED


def _mark_parts(
    states: bytearray,
    numbers: Sequence[int],
    made: Sequence[CallShape],
    seqs: Sequence[int],
    entries: list[Entry],
) -> None:
    """Members of a coalesced block stand before the entry that closes it and share its numbers."""
    closing = {number for number, shape in enumerate(made) if shape.op == "coalesced"}
    if not closing:
        return
    p2p_seqs = _ints(list(map(dict.get, entries, repeat("p2p_seq_id"))))
    for at in compress(count(), map(closing.__contains__, numbers)):
        number = numbers[at]
        group, seq, p2p_seq = made[number].group, seqs[at], p2p_seqs[at]
        back = at - 1
        while back >= 0 and seqs[back] == seq and p2p_seqs[back] == p2p_seq and made[numbers[back]].group == group:
            if numbers[back] in closing:
                break
            states[back] = State.PART
            back -= 1


# --- numbers ------------------------------------------------------------------------------------------------


def _seqs(column: Column) -> array[int]:
    if set(map(type, column)) == {int}:
        try:
            return array("I", column)  # type: ignore[arg-type]  # just looked at
        except OverflowError:
            pass
    seqs = _ints(column)
    return array("I" if min(seqs) >= 0 and max(seqs) <= _MOST_US else "q", seqs)


def _ages(times: list[int], last: int) -> array[int]:
    """How long before the last call each was made, in microseconds."""
    ages = [(last - time) // 1000 for time in times]
    try:
        return array("I", ages)
    except OverflowError:
        return array("I", [min(age, _MOST_US) for age in ages])


def _ints(column: Column) -> list[int]:
    if set(map(type, column)) == {int}:
        numbers: list[int] = list(column)  # type: ignore[arg-type]  # just looked at
        if min(numbers) > -_BIGGEST and max(numbers) < _BIGGEST:
            return numbers
    return [max(_number(value), 0) for value in column]


def _number(value: object) -> int:
    """A counter, which JSON dumps write as text; -1 when it is none."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _BIGGEST else -1


# --- the dump's head ----------------------------------------------------------------------------------------


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


def _described(shapes: Shapes, config: dict[str, tuple[str, str]], status: object) -> tuple[RecordedGroup, ...]:
    """The groups of the entries, in their order, then those of the configuration without a call."""
    status = status if isinstance(status, dict) else {}
    found = []
    for name, description in shapes.groups:
        ranks, known = config.get(name, ("", ""))
        counters = _get(status, str(shapes.ids.get(name))) or _get(status, shapes.ids.get(name))
        enqueued = _number(_get(counters, "last_enqueued_collective"))
        found.append(RecordedGroup(name, description or known, ranks, enqueued))
    names = {name for name, _ in shapes.groups}
    found += [RecordedGroup(n, d, r) for n, (r, d) in config.items() if n not in names]
    return tuple(found)


def _get(value: object, key: object) -> object:
    return value.get(key) if isinstance(value, dict) else None
