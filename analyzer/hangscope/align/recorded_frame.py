"""Makes the table of the calls that flight recorders hold, which no verdict needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hangscope.parse.recorder.recording import State

if TYPE_CHECKING:
    import pandas as pd

    from hangscope.parse.recorder.recording import Recording


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """One row an entry of a flight recorder's dump (table `recorded_calls`), a piece a dump; made when asked for."""

    recordings: Sequence[Recording]

    def __len__(self) -> int:
        return sum(map(len, self.recordings))

    def frames(self) -> Iterator[pd.DataFrame]:
        for recording in self.recordings:
            if len(recording):
                yield _frame(recording)

    @property
    def frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.concat(list(self.frames()), ignore_index=True)


def _frame(recording: Recording) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    rows = np.array(recording.shape, dtype=np.int64)
    shapes, groups = recording.shapes, recording.groups
    named = {
        "op": [shape.op for shape in shapes],
        "group": [groups[shape.group].name for shape in shapes],
        "group_description": [groups[shape.group].description for shape in shapes],
        "sizes": [shape.sizes for shape in shapes],
        "where": [shape.where for shape in shapes],
    }
    states = np.array([state.name.lower() for state in State], dtype=object)
    ages_s = np.array(recording.time_us, dtype=np.float64) / 1e6
    time = recording.last_time_ns / 1e9 - ages_s if recording.last_time_ns else np.full(len(rows), np.nan)
    lines = recording.lines or [None] * len(rows)
    return pd.DataFrame(
        {
            "file": pd.Series([recording.file] * len(rows), dtype="object"),
            "line": pd.Series(list(lines), dtype="Int64"),
            "time": time,
            "rank": pd.Series([recording.rank] * len(rows), dtype="Int64"),
            "seq": np.array(recording.seq, dtype=np.int64),
            "state": pd.Series(states[np.frombuffer(recording.state, dtype=np.uint8)], dtype="object"),
            **{name: pd.Series(np.array(values, dtype=object)[rows], dtype="object") for name, values in named.items()},
        }
    )
