"""The table of what each rank called when."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from hangscope.align.job import Job
from hangscope.align.timeline import COLUMNS, build_timeline
from hangscope.api import load
from nccl_logs import job_of, job_of_ranks, ranks
from recorder_dumps import Dump, write


def stuck_job() -> Job:
    """Rank 2 of three makes the third call no more."""
    logs = ranks(3)
    for log in logs:
        log.call().call("AllGather")
    for log in logs[:2]:
        log.call(count=7).call(count=8)
    return job_of_ranks(logs)


def pipeline_job(folder: Path) -> Job:
    groups = {"0": ("default_pg", range(2)), "1": ("PIPELINE", range(2))}
    dumps = [Dump(0, groups).transfer("send 0->1", "1").call(), Dump(1, groups).transfer("recv 1<-0", "1").call()]
    return load(write(folder, dumps))


def rows(frame: pd.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return list(frame[list(columns)].itertuples(index=False, name=None))


@pytest.mark.parametrize("last", [None, 1])
def test_columns_and_types_are_those_declared(last: int | None, tmp_path: Path) -> None:
    for job in (stuck_job(), pipeline_job(tmp_path), job_of_ranks(ranks(2))):
        frame = build_timeline(job, last=last)
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == {c.name: c.dtype for c in COLUMNS}


def test_a_row_a_rank_and_call_and_one_for_who_is_missing() -> None:
    frame = build_timeline(stuck_job())
    assert rows(frame[frame["seq"] >= 2], "seq", "rank", "op", "size", "state") == [
        (2, 0, "all_reduce", "7 float32", "waiting"),
        (2, 1, "all_reduce", "7 float32", "waiting"),
        (2, 2, "all_reduce", "7 float32", "missing"),
        (3, 0, "all_reduce", "8 float32", "waiting"),
        (3, 1, "all_reduce", "8 float32", "waiting"),
    ]
    assert frame[frame["state"] == "missing"][["file", "line", "agrees"]].isna().all(axis=None)
    made = frame[frame["state"] != "missing"]
    assert made["agrees"].all() and made["line"].notna().all()
    assert rows(made[made["seq"] == 0], "host", "file", "line") == [
        ("node01", "a0.log", 3),
        ("node01", "b1.log", 3),
        ("node02", "c2.log", 3),
    ]


def test_what_differs_shows_its_own_call() -> None:
    logs = ranks(3)
    for log in logs:
        log.call(count=5 if log.rank == 1 else 4)
    frame = build_timeline(job_of_ranks(logs))
    assert rows(frame, "rank", "size", "agrees", "state") == [
        (0, "4 float32", True, "waiting"),
        (1, "5 float32", False, "differs"),
        (2, "4 float32", True, "waiting"),
    ]


def test_times_lines_of_code_and_states_come_from_a_recorder(tmp_path: Path) -> None:
    dumps = [Dump(rank, {"0": ("default_pg", range(2))}).step() for rank in range(2)]
    dumps[0].wait(line=77)
    frame = build_timeline(load(write(tmp_path, dumps)))
    assert rows(frame.tail(2), "rank", "seq", "state", "where") == [
        (0, 4, "waiting", "/mnt/work/train.py:77 train_step"),
        (1, 4, "missing", "/mnt/work/train.py:77 train_step"),
    ]
    assert frame["file"].iloc[-2].endswith("nccl_trace_rank_0") and pd.isna(frame["file"].iloc[-1])
    first = frame[(frame["rank"] == 0) & (frame["seq"] <= 2)]["started"].tolist()
    assert first[1] - first[0] == pytest.approx(0.001, abs=1e-6)


def test_sends_and_receives_have_their_peer(tmp_path: Path) -> None:
    frame = build_timeline(pipeline_job(tmp_path))
    moves = frame[frame["peer"].notna()]
    assert rows(moves, "rank", "peer", "group", "op", "seq", "state") == [
        (0, 1, "1", "send", 0, "done"),
        (1, 0, "1", "recv", 0, "done"),
    ]
    assert moves["agrees"].isna().all()
    assert rows(frame[frame["peer"].isna()], "rank", "group", "op") == [(0, "0", "all_reduce"), (1, "0", "all_reduce")]


def test_ranks_groups_and_last_calls_can_be_chosen(tmp_path: Path) -> None:
    job = stuck_job()
    assert set(build_timeline(job, ranks=[1, 9])["rank"]) == {1}
    assert set(build_timeline(job, last=2)["seq"]) == {1, 2}
    pipeline = pipeline_job(tmp_path)
    assert set(build_timeline(pipeline, groups=["1"])["op"]) == {"send", "recv"}
    assert set(build_timeline(pipeline, groups=["0"])["op"]) == {"all_reduce"}
    assert len(build_timeline(job, ranks=[])) == 0


def test_who_is_left_out_has_a_vote_all_the_same() -> None:
    logs = ranks(3)
    for log in logs:
        log.call(count=5 if log.rank == 0 else 4)
    assert rows(build_timeline(job_of_ranks(logs), ranks=[0]), "rank", "agrees") == [(0, False)]


def test_long_jobs_come_in_pieces_that_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = ranks(2)
    for log in logs:
        for number in range(9):
            log.call(count=number)
    files = {f"rank{log.rank}.log": log.lines for log in logs}
    whole = build_timeline(job_of(files))
    monkeypatch.setattr("hangscope.align.timeline._PIECE_CELLS", 4)
    pd.testing.assert_frame_equal(build_timeline(job_of(files)), whole)
    assert len(whole) == 18


def test_numbers_far_apart_cost_no_more_than_the_calls_between_them(tmp_path: Path) -> None:
    dumps = [Dump(rank, {"0": ("default_pg", range(2))}).step() for rank in range(2)]
    for dump in dumps:
        dump.entries[-1]["collective_seq_id"] = 1 << 40
    frame = build_timeline(load(write(tmp_path, dumps)))
    assert frame["seq"].tolist() == [1, 1, 2, 2, 1 << 40, 1 << 40]
