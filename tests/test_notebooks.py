"""The notebooks run, show what is stored in them, stay small, and name no machine of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from notebooks import notebooks, read, run, shown

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:(zmq|tornado|jupyter_client|nbclient)")
MOST_BYTES = 300_000


def test_there_are_three() -> None:
    assert [path.stem for path in notebooks()] == ["compare_runs", "missing_rank", "stuck_job"]


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_stored(path: Path) -> None:
    made, stored = run(path), read(path)
    for now, before in zip(shown(made), shown(stored), strict=True):
        assert now == before, "run: python tests/notebooks.py --write"
    assert any(shown(stored))


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_small_and_clean(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < MOST_BYTES
    assert not re.search(r"/tmp/|/home/|/root/|ename|evalue", text)
    cells = read(path).cells
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    assert sum(cell.cell_type == "markdown" for cell in cells) >= 4
    assert all(cell.metadata == {} for cell in cells)
    shows_report = any(
        "text/html" in kinds and "hangscope" in content for cell in shown(read(path)) for kinds, content in cell
    )
    assert shows_report
