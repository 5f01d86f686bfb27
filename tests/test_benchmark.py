"""The benchmark's imagined job is one that hangscope understands, so that its figures mean something."""

from __future__ import annotations

import re
from pathlib import Path

from benchmark import BARE_PATTERN, write_job
from score_fixtures import analyze


def test_job_is_understood(tmp_path: Path) -> None:
    culprit = write_job(tmp_path, ranks=16, colls=300, seed=7)
    verdict = analyze(tmp_path)["verdict"]
    assert (verdict["cause"], verdict["ranks"]) == ("collective-skipped", [culprit])


def test_bare_loop_matches_every_call(tmp_path: Path) -> None:
    write_job(tmp_path, ranks=2, colls=50, seed=7)
    lines = [line for path in tmp_path.iterdir() for line in path.read_text(encoding="utf-8").splitlines()]
    assert sum(re.match(BARE_PATTERN, line) is not None for line in lines) == 2 * 50 - 1


def test_same_seed_same_logs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_job(tmp_path / name, ranks=2, colls=20, seed=3)
    logs = [[path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in ("a", "b")]
    assert logs[0] == logs[1]
