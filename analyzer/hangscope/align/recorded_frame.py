"""Makes the table of the calls that flight recorders hold, which no verdict needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hangscope.parse.recorder.recording import State
from hangscope.records import dataclass
from hangscope.tables.pieces import PIECE_ROWS, Piece, joined
from hangscope.tables.schema import whole

if TYPE_CHECKING:
    import pandas as pd

    from hangscope.parse.recorder.recording import Recording


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """One row an entry of a flight recorder's dump (table `recorded_calls`); made when asked for."""

    recordings: Sequence[Recording]

    def __len__(self) -> int:
        return sum(map(len, self.recordings))

    @property
    def frame(self) -> pd.DataFrame:
        return whole("recorded_calls", self.pieces())

    def pieces(self) -> Iterator[Piece]:
        codes: dict[str, dict[str, int]] = defaultdict(dict)
        codes["state"] = {state.name.lower(): int(state) for state in State}
        held: list[dict[str, Any]] = []
        rows = 0
        for recording in self.recordings:
            if len(recording):
                held.append(_columns(recording, codes))
                rows += len(recording)
            if rows >= PIECE_ROWS:
                yield joined(held, {name: list(names) for name, names in codes.items()})
                held, rows = [], 0
        if held:
            yield joined(held, {name: list(names) for name, names in codes.items()})


def _columns(recording: Recording, codes: dict[str, dict[str, int]]) -> dict[str, Any]:
    import numpy as np

    def coded(column: str, texts: list[str]) -> Any:  # noqa: ANN401 (an array)
        known = codes[column]
        return np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int32)

    rows, count = np.array(recording.shape, dtype=np.int64), len(recording)
    shapes, groups = recording.shapes, recording.groups
    ages_s = np.array(recording.time_us, dtype=np.float64) / 1e6
    unnamed, unlined = recording.rank is None, not recording.lines
    lines = np.zeros(count, dtype=np.int64) if unlined else np.array(recording.lines, dtype=np.int64)
    return {
        "file": coded("file", [recording.file])[np.zeros(count, dtype=np.int64)],
        "line": np.ma.masked_array(lines, np.full(count, unlined)),
        "time": recording.last_time_ns / 1e9 - ages_s if recording.last_time_ns else np.full(count, np.nan),
        "rank": np.ma.masked_array(np.full(count, recording.rank or 0, dtype=np.int64), np.full(count, unnamed)),
        "group": coded("group", [groups[shape.group].name for shape in shapes])[rows],
        "group_description": coded("group_description", [groups[shape.group].description for shape in shapes])[rows],
        "seq": np.array(recording.seq, dtype=np.int64),
        "op": coded("op", [shape.op for shape in shapes])[rows],
        "state": np.frombuffer(recording.state, dtype=np.uint8).astype(np.int32),
        "sizes": coded("sizes", [shape.sizes for shape in shapes])[rows],
        "where": coded("where", [shape.where for shape in shapes])[rows],
    }
