"""Two jobs compared: which properties are others, and at which call they part."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hangscope as hs
from hangscope import api
from hangscope.align.call_differences import compare_calls
from hangscope.align.job import Job
from hangscope.cli.main import main
from hangscope.facts.job_differences import compare_jobs
from hangscope.model.difference import CallDifference, Called, CallsCompared, Change, Difference, JobDifference, JobSide
from hangscope.notebook import Difference as ShownDifference
from hangscope.report.difference_card import difference_card
from hangscope.report.differences import call_title, to_plain
from hangscope.report.options import RenderOptions
from hangscope.report.terminal.difference import render_difference
from nccl_logs import Rank, job_of, job_of_ranks, ranks
from recorder_dumps import Dump, write_json
from score_fixtures import FIXTURES

HEALTHY = FIXTURES / "no-fault-found-09-slow-rank-ras-mismatch-2277" / "logs"
SHAPE = FIXTURES / "collective-shape-mismatch-01-count-2277" / "logs"
ALGORITHM = FIXTURES / "env-mismatch-01-algo-2277" / "logs"
OTHER_RELEASE = FIXTURES / "no-fault-found-20-timestamps-2289" / "logs"


def logs(change: Callable[[Rank], object] = lambda _: None, world: int = 4) -> list[Rank]:
    made = ranks(world)
    for log in made:
        change(log)
    return made


def differences(good: Sequence[Rank], bad: Sequence[Rank]) -> dict[str, tuple[Change, list[str], list[str]]]:
    found, _ = compare_jobs(job_of_ranks(good), job_of_ranks(bad))
    return {one.aspect: (one.change, [v.text for v in one.good], [v.text for v in one.bad]) for one in found}


def calls(good: Sequence[Rank], bad: Sequence[Rank]) -> CallsCompared:
    return compare_calls(job_of_ranks(good), job_of_ranks(bad))


def shown(called: Sequence[Called]) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.call, one.ranks) for one in called]


# --- properties ------------------------------------------------------------------------------------------------


def test_a_job_differs_in_nothing_from_itself() -> None:
    for folder in (HEALTHY, ALGORITHM):
        job = api.load(folder)
        found, equal = compare_jobs(job, job)
        assert found == ()
        assert ("versions", "NCCL") in equal
        assert compare_calls(job, job).differences == ()


def test_another_version_is_told_with_both() -> None:
    found = differences(
        logs(lambda log: log.say("NCCL version 2.27.7+cuda12.8")),
        logs(lambda log: log.say("NCCL version 2.28.9+cuda13.0")),
    )
    assert found["NCCL"] == (Change.CHANGED, ["2.27.7"], ["2.28.9"])
    assert found["CUDA of NCCL"] == (Change.CHANGED, ["12.8"], ["13.0"])


def test_what_ranks_of_the_bad_job_came_to_differ_in_is_first() -> None:
    def set_by_some(log: Rank) -> None:
        log.say("NCCL version 2.28.9+cuda13.0")
        log.say(f"NCCL_ALGO set by environment to {'Tree' if log.rank == 3 else 'Ring'}")

    def set_by_all(log: Rank) -> None:
        log.say("NCCL version 2.27.7+cuda12.8")
        log.say("NCCL_ALGO set by environment to Ring")

    found, _ = compare_jobs(job_of_ranks(logs(set_by_all)), job_of_ranks(logs(set_by_some)))
    assert (found[0].aspect, found[0].change, found[0].must_agree) == ("NCCL_ALGO", Change.SPLIT, True)
    assert [(value.text, value.ranks) for value in found[0].bad] == [("Ring", (0, 1, 2)), ("Tree", (3,))]


def test_a_setting_of_one_job_alone_is_a_difference() -> None:
    found = differences(logs(), logs(lambda log: log.say("NCCL_P2P_DISABLE set by environment to 1")))
    assert found["NCCL_P2P_DISABLE"] == (Change.ONLY_BAD, [], ["1"])
    again = differences(logs(lambda log: log.say("NCCL_P2P_DISABLE set by environment to 1")), logs())
    assert again["NCCL_P2P_DISABLE"] == (Change.ONLY_GOOD, ["1"], [])


def test_silence_of_a_job_that_prints_no_settings_tells_nothing() -> None:
    def named(aspect: str, good: Job, bad: Job) -> list[bool]:
        return [one.telling for one in compare_jobs(good, bad)[0] if one.aspect == aspect]

    silent = job_of({"a.log": ["[rank0]: ValueError: no such batch"]})
    torch = job_of({"a.log": ["RANK=0", "OMP_NUM_THREADS=1", "CUDA_LAUNCH_BLOCKING=1", "LOGNAME=x"]})
    nccl = job_of_ranks(logs(lambda log: log.say("NCCL_P2P_DISABLE set by environment to 1")))
    assert named("NCCL_P2P_DISABLE", nccl, silent) == [False]
    assert named("NCCL_P2P_DISABLE", nccl, job_of_ranks(logs())) == [True]
    assert named("NCCL_P2P_DISABLE", job_of_ranks(logs()), nccl) == [True]
    assert named("CUDA_LAUNCH_BLOCKING", torch, silent) == [False]
    page = render_difference(
        replace(hs.diff(HEALTHY, HEALTHY), differences=compare_jobs(nccl, silent)[0]), RenderOptions()
    )
    assert "NCCL_P2P_DISABLE" in page.partition("Only the good job tells:")[2]


def test_the_same_value_on_other_ranks_is_a_difference() -> None:
    def on(rank: int) -> list[Rank]:
        return logs(lambda log: log.say(f"NCCL_ALGO set by environment to {'Tree' if log.rank == rank else 'Ring'}"))

    assert differences(on(1), on(2))["NCCL_ALGO"][0] is Change.ELSEWHERE


@pytest.mark.parametrize(
    "name", ["MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "RANK", "HOSTNAME"]
)
def test_what_is_new_with_every_start_is_no_difference(name: str) -> None:
    good, bad = logs(), logs()
    for made, value in ((good, "1"), (bad, "2")):
        for log in made:
            log.lines += [f"{name}={value}", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=1", "CUDA_DEVICE_MAX_CONNECTIONS=1"]
    assert name not in differences(good, bad)


def test_other_hosts_are_no_difference_by_themselves() -> None:
    good = logs()
    bad = [Rank(rank, 4, host=f"gpu{rank // 2 + 31}").init() for rank in range(4)]
    assert differences(good, bad) == {}


def test_another_size_is_told_once() -> None:
    found = differences(logs(world=4), logs(world=8))
    assert found["ranks"] == (Change.CHANGED, ["4"], ["8"])
    assert found["hosts"] == (Change.CHANGED, ["2"], ["4"])
    assert "groups" not in found


def test_rings_and_trees_are_compared() -> None:
    def ring(order: str) -> Callable[[Rank], object]:
        return lambda log: log.rank or log.say(f"Channel 00/02 : {order}").say(f"Channel 01/02 : {order}")

    found = differences(logs(ring("0 1 2 3")), logs(ring("0 2 1 3")))
    assert found["rings"] == (Change.CHANGED, ["2: 0-3"], ["2: 0 2 1 3"])


def test_versions_that_are_only_inferred_accuse_nobody() -> None:
    good, bad = logs(lambda log: log.say("NCCL version 2.27.7+cuda12.8")), logs()
    found, _ = compare_jobs(job_of_ranks(good), job_of_ranks(bad))
    stated = [one for one in found if one.aspect == "NCCL" and one.good and one.bad]
    assert stated == []


# --- calls -----------------------------------------------------------------------------------------------------


def three_calls(log: Rank) -> Rank:
    return log.call("AllReduce", 64).call("AllGather", 16).call("Broadcast", 8, root=0)


def test_the_first_other_call_is_told_with_who_made_it() -> None:
    def skips(log: Rank) -> None:
        log.call("AllReduce", 64)
        if log.rank != 2:
            log.call("AllGather", 16)
        log.call("Broadcast", 8, root=0)

    found = calls(logs(three_calls), logs(skips))
    (parted,) = found.differences
    assert (found.source, found.groups, parted.group, parted.seq, parted.equal_before) == ("calls", 1, "world", 1, 1)
    assert shown(parted.good) == [("all_gather of 16 float32", (0, 1, 2, 3))]
    assert shown(parted.bad) == [("all_gather of 16 float32", (0, 1, 3)), ("broadcast of 8 float32, root 0", (2,))]
    assert parted.bad[1].at is not None
    assert parted.bad[1].at.line == 4


def test_a_rank_that_stops_before_the_others_is_told() -> None:
    def stops(log: Rank) -> None:
        three_calls(log)
        if log.rank != 1:
            log.call("AllReduce", 64)

    def goes_on(log: Rank) -> None:
        three_calls(log).call("AllReduce", 64).call("AllReduce", 64)

    (parted,) = calls(logs(goes_on), logs(stops)).differences
    assert (parted.seq, parted.equal_before) == (3, 3)
    assert shown(parted.bad) == [("all_reduce of 64 float32", (0, 2, 3)), ("", (1,))]


def test_calls_that_may_be_among_lost_lines_are_not_missed() -> None:
    def stops(log: Rank) -> None:
        three_calls(log)
        if log.rank != 1:
            log.call("AllReduce", 64)

    bad = {f"{log.rank}.log": "\n".join(log.lines) + "\n" for log in logs(stops)}
    good = job_of_ranks(logs(lambda log: three_calls(log).call("AllReduce", 64)))
    assert [one.seq for one in compare_calls(good, job_of(bad)).differences] == [3]
    # WHEN the log of rank 1 ends in the middle of a line
    bad["1.log"] = bad["1.log"][:-1] + "\nnode01:101:101 [1] NCCL INFO AllRe"
    assert compare_calls(good, job_of(bad)).differences == ()


def test_a_job_that_ended_earlier_as_a_whole_is_equal_so_far() -> None:
    found = calls(logs(lambda log: three_calls(three_calls(log))), logs(three_calls))
    assert (found.differences, found.equal) == ((), 3)


def test_communicators_of_the_same_ranks_are_each_others_counterpart() -> None:
    def job(comm_id: int, odd: int | None) -> list[Rank]:
        made = [Rank(rank, 4).init(comm_id=comm_id) for rank in range(4)]
        for log in made:
            log.call("AllReduce", 64)
            half = log.rank // 2
            log.init(comm=0x9000 + log.rank, rank=log.rank % 2, size=2, comm_id=comm_id + 1 + half)
            log.call("AllGather", 5 if log.rank == odd else 4, comm=0x9000 + log.rank, nranks=2)
        return made

    found = calls(job(0x100, None), job(0x200, 3))
    assert (found.groups, found.only_good, found.only_bad) == (3, (), ())
    (parted,) = found.differences
    assert (parted.size, parted.seq, parted.equal_before) == (2, 0, 0)
    assert shown(parted.bad) == [("all_gather of 4 float32", (2,)), ("all_gather of 5 float32", (3,))]


def test_calls_are_compared_in_windows_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(log: Rank, odd: bool = False) -> None:
        for number in range(40):
            log.call("AllReduce", 7 if odd and log.rank == 0 and number == 33 else number)

    for cells in (4, 12, 1 << 20):
        monkeypatch.setattr("hangscope.align.call_differences._AT_ONCE", cells)
        (parted,) = calls(logs(many), logs(lambda log: many(log, odd=True))).differences
        assert (parted.seq, parted.equal_before) == (33, 33)


def test_flight_recorders_are_compared_by_torch_s_numbers(tmp_path: Path) -> None:
    for name, odd in (("good", -1), ("bad", 2)):
        dumps = [Dump(rank).step() for rank in range(4)]
        for dump in dumps:
            dump.call("reduce_scatter" if dump.rank == odd else "all_reduce", 64, line=30 if dump.rank == odd else 20)
        (tmp_path / name).mkdir()
        write_json(tmp_path / name, dumps)
    found = compare_calls(api.load(tmp_path / "good"), api.load(tmp_path / "bad"))
    (parted,) = found.differences
    assert (found.source, parted.description, parted.seq, parted.equal_before) == ("recorder", "default_pg", 4, 3)
    assert [one.ranks for one in parted.bad] == [(0, 1, 3), (2,)]
    assert "reduce_scatter" in parted.bad[1].call
    assert call_title(parted) == "call 4 of group 0 (default_pg, 4 ranks)"


def test_what_a_ring_buffer_lost_is_not_compared(tmp_path: Path) -> None:
    for name, first in (("good", 0), ("bad", 5)):
        dumps = [Dump(rank) for rank in range(4)]
        for dump in dumps:
            for number in range(8):
                dump.call("all_reduce", 64 + number)
            dump.entries[:first] = []
        (tmp_path / name).mkdir()
        write_json(tmp_path / name, dumps)
    found = compare_calls(api.load(tmp_path / "good"), api.load(tmp_path / "bad"))
    assert (found.differences, found.equal) == ((), 3)


def test_jobs_without_a_common_source_say_so(tmp_path: Path) -> None:
    write_json(tmp_path, [Dump(rank).step() for rank in range(4)])
    recorded, printed = api.load(tmp_path), job_of_ranks(logs(three_calls))
    assert compare_calls(recorded, printed) == CallsCompared()


# --- how it is shown -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shapes() -> ShownDifference:
    return hs.diff(HEALTHY, SHAPE)


def test_the_command_prints_both_verdicts_the_call_and_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(HEALTHY), str(SHAPE), "--width", "100"]) == 0
    page = capsys.readouterr().out
    assert re.search(r"Good .*no-fault-found \(high", page, re.DOTALL)
    assert re.search(r"Bad .*collective-shape-mismatch \(high", page, re.DOTALL)
    assert re.search(r"Call 3 of world \(4 ranks\); the 3 calls before are equal", page)
    assert re.search(r"rank 2 +all_reduce of 1000000 float32 +rank2\.log:46", page)
    assert "What differs (0 of" in page
    assert max(map(len, page.splitlines())) <= 100


def test_what_must_agree_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(OTHER_RELEASE), str(ALGORITHM), "--exit-code"]) == 1
    page = capsys.readouterr().out
    assert re.search(r"! +NCCL_ALGO +not set +Ring \(ranks 0,1 on node01\)\n +Tree \(ranks 2,3 on node02\)", page)
    assert re.search(r"NCCL +2\.28\.9 +2\.27\.7", page)


def test_exit_code_of_equal_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(HEALTHY), str(HEALTHY), "--exit-code", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("0 differences; ")


def test_what_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(HEALTHY), str(tmp_path / "nowhere")]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_side_of_which_nothing_can_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF" + bytes(100))
    assert main(["diff", str(HEALTHY), str(tmp_path)]) == 2
    assert "nothing could be read: core" in capsys.readouterr().err


def test_json_has_everything(capsys: pytest.CaptureFixture[str], shapes: ShownDifference) -> None:
    assert main(["diff", str(HEALTHY), str(SHAPE), "--format", "json"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(shapes.to_dict()))
    assert printed["bad"]["verdict"]["cause"] == "collective-shape-mismatch"
    (parted,) = printed["calls"]["differences"]
    assert parted["bad"][1] == {
        "call": "all_reduce of 1000000 float32",
        "ranks": "2",
        "where": None,
        "file": "rank2.log",
        "line": 46,
    }
    assert {"topic": "versions", "aspect": "NCCL"} in printed["equal"]


def test_a_notebook_shows_it_and_has_a_table(shapes: ShownDifference) -> None:
    html = shapes._repr_html_()
    assert "all_reduce of 1000000 float32" in html
    assert "collective-shape-mismatch" in html
    table = hs.load(OTHER_RELEASE).diff(hs.load(ALGORITHM)).table()
    assert table.iloc[0][["aspect", "change", "good"]].tolist() == ["NCCL_ALGO", "split", ""]
    assert "Tree (ranks 2,3 on node02)" in table.iloc[0]["bad"]


def test_values_of_both_jobs_stand_side_by_side_on_any_page(shapes: JobDifference) -> None:
    widest = max(map(len, render_difference(shapes, RenderOptions(width=100_000)).splitlines()))
    assert widest <= max(map(len, render_difference(shapes, RenderOptions(width=250)).splitlines()))


def test_what_logs_say_stays_text(shapes: ShownDifference) -> None:
    evil = "<script>\x1b[31m[bold]"
    (parted,) = shapes.calls.differences
    hostile = replace(
        shapes,
        good=JobSide(evil, shapes.good.job, replace(shapes.good.verdict, title=evil)),
        differences=(Difference("settings", evil, Change.ONLY_BAD, False, (), ()),),
        equal=(("settings", evil),),
        calls=replace(
            shapes.calls,
            differences=(replace(parted, group=evil, description=evil, bad=(Called(evil, (0,), evil, None),)),),
        ),
    )
    page = render_difference(hostile, RenderOptions(width=120))
    assert "\x1b" not in page
    assert "[bold]" in page
    html = difference_card(hostile)
    assert "<script>" not in html and "\x1b" not in html
    assert "\x1b" not in json.dumps(to_plain(hostile), ensure_ascii=False)


def test_many_groups_and_values_are_cut_and_counted(shapes: ShownDifference) -> None:
    (parted,) = shapes.calls.differences
    many: JobDifference = replace(
        shapes,
        calls=replace(shapes.calls, differences=tuple(replace(parted, group=f"g{n}") for n in range(30))),
        differences=tuple(Difference("settings", f"X{n}", Change.ONLY_BAD, False, (), ()) for n in range(60)),
    )
    page = render_difference(many, RenderOptions())
    assert "and in 26 more groups" in page
    assert "and 36 more differences" in page
    whole = render_difference(many, RenderOptions(verbose=True))
    assert "of g29 " in whole and "X59" in whole
    assert "and in 26 more groups" in difference_card(many)


def test_calls_of_all_ranks_are_the_program_s() -> None:
    one = CallDifference("world", 2, "", 0, 0, (Called("a", (0, 1)),), (Called("b", (0, 1)),))
    difference = hs.diff(HEALTHY, HEALTHY)
    page = render_difference(
        replace(difference, calls=replace(difference.calls, differences=(one,))), RenderOptions(width=100)
    )
    assert "All ranks call something else" in page
    assert "it is the first that both show" in page
