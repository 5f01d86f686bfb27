"""Counts the lines of Python that each function of hangscope runs in an analysis, of each folder given.

    python tests/line_counts.py LOGS...

Prints a JSON list with an object a folder: function -> lines. Grammars remember the texts of lines that they have met,
so the same folder costs less the second and the third time; here all are read three times before, by a process that
has read nothing else.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from hangscope import api

if TYPE_CHECKING:
    from _typeshed import TraceFunction


def lines_run(logs: Path) -> Counter[str]:
    """Lines that each function runs in an analysis."""
    counts: Counter[CodeType] = Counter()

    def in_function(frame: FrameType, event: str, _: object) -> TraceFunction:
        if event == "line":
            counts[frame.f_code] += 1
        return in_function

    def anywhere(frame: FrameType, _: str, __: object) -> TraceFunction | None:
        if "/hangscope/" in frame.f_code.co_filename:
            return in_function
        return None

    sys.settrace(anywhere)
    try:
        api.analyze(logs, jobs=1)
    finally:
        sys.settrace(None)
    found: Counter[str] = Counter()
    for code, count in counts.items():
        found[f"{code.co_filename.rpartition('/hangscope/')[2]} {code.co_qualname}"] += count
    return found


def main() -> None:
    folders = [Path(name) for name in sys.argv[1:]]
    for folder in folders * 3:
        api.analyze(folder, jobs=1)
    print(json.dumps([lines_run(folder) for folder in folders]))


if __name__ == "__main__":
    main()
