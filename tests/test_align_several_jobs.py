"""Logs of several jobs, or of several runs of one, in one folder."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nccl_logs import Rank, job_of

Logs = dict[str, list[str]]


def world(folder: str, size: int, *, comm_id: int, pids: int = 100, first: int = 0) -> Logs:
    """The logs of one job's ranks, a file each."""
    logs = {}
    for number in range(first, size):
        rank = Rank(number, size)
        rank.pid = pids + number
        logs[f"{folder}rank{number}.log"] = rank.init(comm_id=comm_id).call().lines
    return logs


def told(logs: Logs) -> list[str]:
    return [warning for warning in job_of(logs).warnings if "seem to be of" in warning]


def test_two_jobs_are_told_apart_by_their_folders() -> None:
    job = job_of(world("a/", 4, comm_id=1) | world("b/", 2, comm_id=2, pids=200))
    assert [(run.size, run.ranks) for run in job.runs] == [(4, (0, 1, 2, 3)), (2, (0, 1))]
    assert job.warnings[0] == (
        "the files seem to be of 2 jobs, or of 2 runs of one: a/ (4 ranks); b/ (2 ranks). "
        "The answer mixes them: analyze each alone"
    )


def test_without_folders_the_files_are_named() -> None:
    first = {f"x{name}": lines for name, lines in world("-", 4, comm_id=1).items()}
    (warning,) = told(first | {f"y{name}": lines for name, lines in world("-", 4, comm_id=2, pids=200).items()})
    assert "x-rank0.log, x-rank1.log and 2 more (4 ranks); y-rank0.log, y-rank1.log and 2 more (4 ranks)" in warning


def one_job() -> Logs:
    return world("a/", 4, comm_id=1)


def a_folder_a_host() -> Logs:
    logs = world("x/", 4, comm_id=1)
    return {f"{'a' if number < 2 else 'b'}/rank{number}.log": lines for number, lines in enumerate(logs.values())}


def files_of_local_ranks() -> Logs:
    """Each host counts its files from 0."""
    logs = world("x/", 4, comm_id=1)
    return {f"{'a' if number < 2 else 'b'}/rank{number % 2}.log": lines for number, lines in enumerate(logs.values())}


def a_world_made_anew() -> Logs:
    """Each process destroys its communicator and makes another."""
    logs = {}
    for number in range(2):
        log = Rank(number, 2).init(comm_id=1).call().end().init(comm_id=2, comm=0x7F0)
        logs[f"a/rank{number}.log"] = log.lines
    return logs


def groups_without_a_world() -> Logs:
    """Tensor parallel groups of two with commIds of their own; data parallel groups join them."""
    logs = {}
    for number in range(4):
        log = Rank(number, 4)
        log.init(comm=0x700 + number, rank=number % 2, size=2, comm_id=10 + number // 2)
        log.init(comm=0x800 + number, rank=number // 2, size=2, comm_id=20 + number % 2)
        logs[f"a/rank{number}.log"] = log.lines
    return logs


def separate_groups_of_one_job() -> Logs:
    """Groups that nothing joins, of ranks that the files number through."""
    logs = {}
    for number in range(4):
        log = Rank(number, 4).init(rank=number % 2, size=2, comm_id=10 + number // 2)
        logs[f"a/rank{number}.log"] = log.lines
    return logs


def one_stream() -> Logs:
    """Two runs in one file: what is a restart, `align.attempts` tells."""
    both = [*world("a/", 2, comm_id=1).values(), *world("b/", 2, comm_id=2, pids=200).values()]
    return {"job.log": [line for lines in both for line in lines]}


def halves_of_a_job() -> Logs:
    """Two worlds that hold different ranks only as far as their files are there."""
    return world("a/", 4, comm_id=1, first=2)


@pytest.mark.parametrize(
    "logs",
    [one_job, a_folder_a_host, files_of_local_ranks, a_world_made_anew, groups_without_a_world,
     separate_groups_of_one_job, one_stream, halves_of_a_job],
)  # fmt: skip
def test_these_are_one_job(logs: Callable[[], Logs]) -> None:
    assert not told(logs())
