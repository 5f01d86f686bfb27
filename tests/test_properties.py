"""What must not change a verdict does not change it; what takes evidence away weakens it, and never turns it around."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hangscope.align.job import align
from hangscope.api import analyze, diagnose
from hangscope.model import Finding, Report, Role
from hangscope.parse.run import read_inputs
from hangscope.sources.discover import discover
from score_fixtures import FIXTURES, Case, read_case

# one case a kind of evidence: calls, calls beside RAS, init lines, warnings, launchers, kernels, nothing wrong
CASES = [
    "collective-op-mismatch-05-root-2277",
    "collective-shape-mismatch-05-dtype-2265",
    "collective-skipped-12-debugfile-2289",
    "duplicate-gpu-01-samebus-2234",
    "gpu-memory-fault-01-ecc-2277",
    "group-order-deadlock-01-ab-ba-2307",
    "host-out-of-memory-01-cgroup",
    "killed-by-signal-01-shell-line-2277",
    "no-fault-found-01-healthy-2277",
    "no-fault-found-16-splits-small-2307",
    "no-fault-found-20-timestamps-2289",
    "peer-lost-01-silent-kill-2307",
    "rank-never-started-01-one-rank-2277",
]
CONFIDENT = 0.8
SHALLOWER = {"host-out-of-memory": {"killed-by-signal"}}
"""What remains true of a cause, and all that can be seen, without the kernel's word."""
Files = Mapping[str, bytes]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return read_case(FIXTURES / str(request.param))


@pytest.fixture
def verdict_on(tmp_path: Path) -> Callable[[Files], Finding]:
    """The verdict on some files, given by name."""

    def verdict(files: Files) -> Finding:
        folder = tmp_path / "logs"
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        report: Report = analyze(folder, jobs=1)
        assert [record.error for record in report.sources if record.error and "cut off" not in record.error] == []
        return report.verdict

    return verdict


def files_of(case: Case) -> dict[str, bytes]:
    paths = sorted(path for path in case.logs.rglob("*") if path.is_file())
    return {path.relative_to(case.logs).as_posix(): path.read_bytes() for path in paths}


def turned_around(case: Case, verdict: Finding) -> bool:
    """A confident cause that the whole evidence does not allow."""
    true = {case.cause, *case.accept, "insufficient-evidence"}
    if verdict.cause in true:
        return False
    return verdict.role is Role.CAUSE and verdict.confidence >= CONFIDENT


def said(verdict: Finding) -> tuple[str, tuple[int, ...], float]:
    return verdict.cause, verdict.ranks, verdict.confidence


# --- what says the same -----------------------------------------------------------------------------------


def test_order_and_names_of_files_do_not_matter(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    names = [f"{letter}.txt" for letter in "abcdefghijklmnopqrstuvwxyz"[: len(files)]]
    random.Random(case.name).shuffle(names)  # noqa: S311  (any order will do, as long as it is the same every time)
    renamed = dict(zip(names, files.values(), strict=True))
    assert said(verdict_on(renamed)) == said(verdict_on(files))


def test_compressed_files_give_the_same_verdict(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    compressed = {f"{name}.gz": gzip.compress(data) for name, data in files.items()}
    assert said(verdict_on(compressed)) == said(verdict_on(files))


def test_windows_line_ends_give_the_same_verdict(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    crlf = {name: data.replace(b"\n", b"\r\n") for name, data in files.items()}
    assert said(verdict_on(crlf))[:2] == said(verdict_on(files))[:2]


def test_second_copy_of_a_file_accuses_nobody(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    for name in list(files)[:2]:
        verdict = verdict_on({**files, f"copy/{name}": files[name]})
        assert not turned_around(case, verdict), f"{name}: {said(verdict)} by {verdict.rule}"


# --- what takes evidence away -----------------------------------------------------------------------------


def test_missing_file_weakens_the_verdict_at_most(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    for name in files:
        rest = {other: data for other, data in files.items() if other != name}
        if rest:
            verdict = verdict_on(rest)
            assert not turned_around(case, verdict), f"without {name}: {said(verdict)} by {verdict.rule}"


def test_missing_file_never_makes_another_cause_surer(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    whole = verdict_on(files)
    true = {whole.cause, *SHALLOWER.get(whole.cause, set()), "insufficient-evidence"}
    for name in files:
        rest = {other: data for other, data in files.items() if other != name}
        verdict = verdict_on(rest) if rest else whole
        assert verdict.cause in true or verdict.confidence <= whole.confidence, f"without {name}: {said(verdict)}"


def test_last_line_cut_short_makes_nothing_surer(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    whole = verdict_on(files)
    for name in list(files)[:3]:
        verdict = verdict_on({**files, name: files[name].rstrip(b"\n")[:-3]})
        assert verdict.confidence <= whole.confidence, f"{name} cut: {said(verdict)}, not {said(whole)}"


@pytest.mark.parametrize("ahead_s", [-7200, -90, 90, 3600])
@pytest.mark.parametrize("name", ["no-fault-found-20-timestamps-2289", "interface-mismatch-02-virbr0-2307"])
def test_clock_of_one_host_turns_no_verdict_around(name: str, ahead_s: int) -> None:
    # GIVEN a job whose lines have times, and the same job with one host's clock off
    case = read_case(FIXTURES / name)
    inputs, _ = discover([str(case.logs)])
    true = diagnose(align(read_inputs(inputs, 1))).verdict
    sources = read_inputs(inputs, 1)
    lines = {id(event.line): event.line for source in sources for event in source.events if event.host == "node02"}
    assert any(line.time is not None for line in lines.values())
    for line in lines.values():
        line.time = None if line.time is None else line.time + ahead_s
    # THEN the verdict stays
    job = align(sources)
    assert said(diagnose(job).verdict) == said(true)
    # AND where both hosts tell of one moment, the clock is named
    named = any("node02" in warning and ("clock" in warning or "zone" in warning) for warning in job.warnings)
    assert named is bool(job.events.of("comm_init_complete"))


def test_files_cut_at_half_weaken_the_verdict_at_most(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    verdict = verdict_on({name: data[: len(data) // 2] for name, data in files.items()})
    assert not turned_around(case, verdict), f"{said(verdict)} by {verdict.rule}"


def test_files_without_their_first_half_weaken_the_verdict_at_most(
    case: Case, verdict_on: Callable[[Files], Finding]
) -> None:
    files = files_of(case)
    verdict = verdict_on({name: data[len(data) // 2 :] for name, data in files.items()})
    assert not turned_around(case, verdict), f"{said(verdict)} by {verdict.rule}"


def test_one_file_cut_at_half_weakens_the_verdict_at_most(case: Case, verdict_on: Callable[[Files], Finding]) -> None:
    files = files_of(case)
    for name in list(files)[:3]:
        verdict = verdict_on({**files, name: files[name][: len(files[name]) // 2]})
        assert not turned_around(case, verdict), f"{name} cut: {said(verdict)} by {verdict.rule}"
