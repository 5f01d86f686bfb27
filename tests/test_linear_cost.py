"""What a rank costs does not grow with the number of ranks: counted in lines of Python run, not in seconds.

Each function of hangscope may run so many more lines as there are more ranks, with some air. What C code does in one
line (a copy of a long list, say) is not seen here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import hangscope
from large_jobs import JOBS

SMALL, LARGE = 16, 64
AIR = 1.3
"""How much more than its share of the ranks a larger job may cost."""
AIR_OF_ONE = 1.5
"""The same for one function, whose cost may well have steps."""
FEW = 100
"""Lines in the small job below which a function counts as having run so many: constant costs differ by a few."""


def lines_run(*logs: Path) -> list[Counter[str]]:
    """Lines that each function of hangscope runs in an analysis of each folder, counted by a process of its own."""
    script = Path(__file__).with_name("line_counts.py")
    path = os.pathsep.join([str(Path(hangscope.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    counted = subprocess.run(
        [sys.executable, script, *logs], env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    return [Counter(counts) for counts in json.loads(counted.stdout)]


def grown(small: Counter[str], large: Counter[str]) -> dict[str, str]:
    """The functions that run more lines than their share, with the lines."""
    most = AIR_OF_ONE * LARGE / SMALL
    return {
        name: f"{small[name]} -> {count} lines" for name, count in large.items() if count > most * max(small[name], FEW)
    }


@pytest.mark.parametrize("evidence", JOBS)
def test_cost_of_a_rank_does_not_grow_with_the_ranks(evidence: str, tmp_path: Path) -> None:
    for ranks in (SMALL, LARGE):
        (tmp_path / str(ranks)).mkdir()
        JOBS[evidence](tmp_path / str(ranks), ranks)
    small, large = lines_run(tmp_path / str(SMALL), tmp_path / str(LARGE))
    assert small.total() > 1000
    assert grown(small, large) == {}
    assert large.total() < AIR * LARGE / SMALL * small.total()


def test_a_function_that_looks_at_every_pair_of_ranks_is_found_out() -> None:
    assert grown(Counter(pairs=SMALL**2, once=40), Counter(pairs=LARGE**2, once=300)) == {"pairs": "256 -> 4096 lines"}
    assert grown(Counter(each=10 * SMALL), Counter(each=10 * LARGE)) == {}
