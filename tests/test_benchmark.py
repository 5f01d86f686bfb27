"""The benchmarks' imagined jobs are ones that hangscope understands, and README's tables are the ones they write."""

from __future__ import annotations

import itertools
import re
import resource
import sys
from pathlib import Path

import pytest

import benchmarks.measure
from benchmark import faults
from benchmarks import logs, peers, plan
from benchmarks.measure import Cost, best_of, measure
from benchmarks.recorders import write_recorders
from benchmarks.tables import CPU, README, WALL, Row, Table, in_readme, ratio
from score_fixtures import analyze

SMALL = Table(
    "Runs, ratios to the first",
    "",
    (("one", 0), ("other", 0)),
    (ratio(WALL, "time"), WALL, CPU),
    "finds",
)


def rows(*seconds: float) -> list[Row]:
    """Rows of runs that took so long."""
    return [Row(Cost(one, one, 1_000_000, ""), found="nothing") for one in seconds]


def test_job_is_understood(tmp_path: Path) -> None:
    culprit = logs.write_job(tmp_path, ranks=16, colls=300, seed=7)
    verdict = analyze(tmp_path)["verdict"]
    assert (verdict["cause"], verdict["ranks"]) == ("collective-skipped", [culprit])


def test_job_in_one_file_is_understood(tmp_path: Path) -> None:
    culprit = logs.write_job(tmp_path / "logs", ranks=8, colls=1200, seed=7)
    joined = logs.interleave(tmp_path / "logs", tmp_path / "joined.log")
    lines = sum(path.read_bytes().count(b"\n") for path in (tmp_path / "logs").iterdir())
    assert joined.read_bytes().count(b"\n") == lines
    hosts = [line.split(":")[1] for line in joined.read_text(encoding="utf-8").splitlines() if line.startswith("gpu")]
    turns = sum(one != other for one, other in itertools.pairwise(hosts))
    assert turns > 8  # no rank's lines stand in one piece
    verdict = analyze(joined)["verdict"]
    assert (verdict["cause"], verdict["ranks"]) == ("collective-skipped", [culprit])


def test_job_without_calls_is_healthy(tmp_path: Path) -> None:
    logs.write_job(tmp_path, ranks=16, colls=0)
    assert analyze(tmp_path)["verdict"]["cause"] == "no-fault-found"


def test_recorders_are_understood(tmp_path: Path) -> None:
    culprits = write_recorders(tmp_path, ranks=16, entries=40)
    verdict = analyze(tmp_path)["verdict"]
    assert (verdict["cause"], tuple(verdict["ranks"])) == ("collective-skipped", culprits)


def test_bare_loop_matches_every_call(tmp_path: Path) -> None:
    logs.write_job(tmp_path, ranks=2, colls=50, seed=7)
    files = sorted(tmp_path.iterdir())
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    for pattern, method in ((plan.ALL_FIELDS, "match"), (plan.LIGHT, "search")):
        assert measure(plan.bare_loop(pattern, method, files)).output.split() == [str(lines), str(2 * 50 - 1)]


def test_same_seed_same_logs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        logs.write_job(tmp_path / name, ranks=2, colls=20, seed=3)
    written = [[path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in ("a", "b")]
    assert written[0] == written[1]


def test_commands_take_turns_and_the_fastest_run_of_each_counts(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code = f"open({str(trace)!r}, 'a').write('{{}}')"
    costs = best_of(2, *([sys.executable, "-c", code.format(name)] for name in "ab"))
    assert trace.read_text(encoding="utf-8") == "abab"
    assert all(cost.wall_s >= cost.cpu_s > 0 for cost in costs)


@pytest.mark.parametrize("children", [1, 2])
def test_memory_is_that_of_all_processes_together(
    children: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, seen = 60_000_000, tmp_path / "seen"
    child = f"x = bytearray({size}); input()"
    # the processes stay until a sample has found them, however long that takes on a busy machine
    parent = (
        "import subprocess, sys, time; from pathlib import Path; "
        f"children = [subprocess.Popen([sys.executable, '-c', '{child}'], stdin=-1) for _ in range({children})]; "
        f"[time.sleep(0.05) for _ in range(1200) if not Path({str(seen)!r}).exists()]; "
        "[child.communicate(b'0') for child in children]"
    )
    sample = benchmarks.measure.memory_of_tree

    def watched(pid: int) -> int:
        found = sample(pid)
        if found > children * size:
            seen.touch()
        return found

    monkeypatch.setattr(benchmarks.measure, "memory_of_tree", watched)
    peak = measure([sys.executable, "-c", parent]).peak_bytes
    assert children * size < peak < (children + 0.8) * size


def test_memory_of_who_measures_is_not_counted() -> None:
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert measure([sys.executable, "-c", "pass"]).peak_bytes < mine


def test_memory_that_was_needed_for_a_moment_only_is_seen() -> None:
    # a process starts with the most that the one before it ever needed: only more than that tells anything
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 100_000_000
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from benchmarks.measure import measure; "
        f"print(measure([sys.executable, '-c', 'bytearray(b\"1\") * {size}']).peak_bytes)"
    )
    assert int(measure([sys.executable, "-c", code]).output) > size


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(SystemExit, match="exit status 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_table_that_was_rendered_has_no_faults() -> None:
    text = SMALL.render(rows(2.0, 3.0))
    assert "| other | 1.50 | 3.00 | 3.00 | nothing |" in text
    assert SMALL.faults(f"before\n\n{text}\n\nafter") == []


@pytest.mark.parametrize(
    ("was", "becomes", "fault"),
    [
        ("Runs, ratios", "Walks, ratios", "is missing"),
        ("| s |", "| seconds |", "other headings"),
        ("| other |", "| another |", "other rows"),
        ("| 3.00 | 3.00 |", "| 3.00 |  |", "a figure is missing"),
        ("| other | 1.50 |", "| other | 1.20 |", "time is 1.2, the figures give 1.50 to 1.50"),
    ],
)
def test_a_table_that_was_written_by_hand_is_found_out(was: str, becomes: str, fault: str) -> None:
    text = SMALL.render(rows(2.0, 3.0))
    assert was in text
    found = SMALL.faults(text.replace(was, becomes))
    assert len(found) == 1
    assert re.search(fault, found[0].replace("1.49", "1.50").replace("1.51", "1.50"))


def test_readme_has_the_tables_that_the_benchmark_writes() -> None:
    text = README.read_text(encoding="utf-8")
    assert faults(text) == []
    block = in_readme(text)
    assert all(table.title in block for table in plan.TABLES)
    assert in_readme(text, block.partition("-->\n\n")[2].rpartition("\n\n<!--")[0]) == text


def test_readme_without_its_block_is_told() -> None:
    assert faults("# hangscope\n") == ["README.md has no block of benchmarks"]


@pytest.mark.parametrize(
    ("output", "finds"),
    [
        ("missing ranks: {3}\n", "missing ranks [3]: right"),
        ("missing ranks: {2}\n", "missing ranks [2]: wrong, it is 3"),
        ("missing ranks: {3}\nmissing ranks: {1, 2}\n", "names 2 sets of missing ranks, the right one"),
        ("all is well\n", "names no missing rank: all is well"),
    ],
)
def test_what_torchfrtrace_found_is_told(output: str, finds: str) -> None:
    assert peers.found_by_torchfrtrace(output, (3,)) == finds
