from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hangscope.api import analyze
from hangscope.model import Report
from recorder_dumps import Dump, write, write_json

GRID = {
    rank: {
        "0": ("default_pg", range(4)),
        f"{1 + rank // 2}": ("TENSOR", [rank // 2 * 2, rank // 2 * 2 + 1]),
        f"{3 + rank % 2}": ("DATA", [rank % 2, rank % 2 + 2]),
    }
    for rank in range(4)
}


def steps(rank: int, count: int = 4) -> Dump:
    dump = Dump(rank)
    for _ in range(count):
        dump.step()
    return dump


def pipeline(rank: int, count: int = 4, *, sends: int = 2) -> Dump:
    """Rank 0 sends two microbatches to rank 1 in every step and gets two gradients; both then reduce on the world."""
    dump = Dump(rank, groups={"0": ("default_pg", range(2)), "1": ("PIPELINE", range(2))})
    one, two = ("send 0->1", "recv 0<-1") if rank == 0 else ("recv 1<-0", "send 1->0")
    for _ in range(count):
        for _ in range(sends):
            dump.transfer(one, "1", line=30)
        for _ in range(sends):
            dump.transfer(two, "1", line=31)
        dump.call(line=40).call(size=2, line=41)
    return dump


def test_dumps_of_several_runs_are_told(tmp_path: Path) -> None:
    for folder, ranks in (("old", range(4)), ("new", range(3))):
        (tmp_path / folder).mkdir()
        # what the runs called differs, or one would be a copy of the other
        write(tmp_path / folder, [steps(rank, 4 if folder == "old" else 5) for rank in ranks])
    (warning,) = [one for one in analyze(tmp_path).warnings if "several" in one]
    assert warning.startswith("3 ranks left several flight-recorder dumps (new/, old/)")
    assert not [one for one in analyze(tmp_path / "old").warnings if "several" in one]


def later(dumps: list[Dump], seconds: float) -> list[Dump]:
    """The same calls, made later."""
    for entry in (entry for dump in dumps for entry in dump.entries):
        entry["time_created_ns"] += int(seconds * 1e9)
    return dumps


def test_the_dump_that_the_run_before_left_is_not_compared(tmp_path: Path) -> None:
    # GIVEN ranks that wait for rank 2, which died without a dump and left the one of a run that was further
    stuck = later([steps(r).wait("all_reduce", 9, line=50) for r in range(4) if r != 2], 7200)
    write(tmp_path, [*stuck, steps(2, 6)])
    report = analyze(tmp_path)
    assert (report.verdict.cause, report.verdict.ranks) == ("rank-vanished", (2,))
    assert "dump of rank 2 is of an earlier run or moment" in report.verdict.explanation
    assert any("rank 2" in warning and "left out" in warning for warning in report.warnings)


@pytest.mark.parametrize("count", [2, 4, 6])
def test_half_of_the_dumps_of_another_run_is_no_proof_of_health(count: int, tmp_path: Path) -> None:
    now = later([steps(r) for r in (0, 1)], 7200)
    report = analyze(write(tmp_path, [*now, *(steps(r, count) for r in (2, 3))]))
    assert (report.verdict.cause, report.verdict.ranks) == ("insufficient-evidence", ())
    assert report.next_steps[0].text.startswith("Collect the last flight-recorder dumps of ranks 2,3")


def test_a_fault_among_the_dumps_of_the_last_run_is_found_beside_old_ones(tmp_path: Path) -> None:
    now = [steps(r) if r == 1 else steps(r).wait("_all_gather_base", 16, line=11) for r in (0, 1, 3)]
    report = analyze(write(tmp_path, [*later(now, 7200), steps(2, 6)]))
    assert (report.verdict.cause, report.verdict.ranks) == ("collective-skipped", (1,))


def test_a_world_of_another_size_is_another_run(tmp_path: Path) -> None:
    small = [Dump(r, groups={"0": ("default_pg", range(3))}).call() for r in range(3)]
    report = analyze(write(tmp_path, [*later(small, 7200), Dump(3).call()]))
    assert report.verdict.cause == "insufficient-evidence"


def test_a_moment_between_healthy_dumps_is_no_other_run(tmp_path: Path) -> None:
    dumps = [*later([steps(r, 6) for r in range(3)], 20), steps(3, 5)]
    assert analyze(write(tmp_path, dumps)).verdict.cause == "no-fault-found"


def test_a_timed_out_call_that_waits_for_an_older_dump_is_not_healthy(tmp_path: Path) -> None:
    dumps = [steps(r, 3) if r == 1 else steps(r).wait() for r in range(4)]
    dumps[0].entries[-1]["retired"] = True  # torch's watchdog gave it up
    assert analyze(write(tmp_path, dumps)).verdict.cause == "insufficient-evidence"


def test_a_run_is_not_mixed_with_another_one_in_its_own_folder(tmp_path: Path) -> None:
    # GIVEN two folders whose calls were made at the same times, as clocks that were set back may show them
    write(tmp_path / "one", [steps(r).call() for r in range(4)])
    write(tmp_path / "two", [steps(r).wait() for r in range(4) if r != 2])
    report = analyze(tmp_path)
    assert (report.verdict.cause, report.verdict.ranks) == ("rank-vanished", (2,))


def test_dumps_with_stacks_in_one_folder_and_without_in_another_are_one_run(tmp_path: Path) -> None:
    dumps = [steps(r) for r in range(4)]
    write(tmp_path / "pickles", dumps)
    write_json(tmp_path / "json", dumps[:2])
    assert analyze(tmp_path).verdict.cause == "no-fault-found"


def told(report: Report) -> tuple[str, tuple[int, ...], str, int, str]:
    call = report.collectives[0]
    return report.verdict.cause, report.verdict.ranks, call.group, call.seq, call.where.split(":")[-1]


@pytest.mark.parametrize("form", [write, write_json])
def test_healthy_dumps_accuse_nobody(form: Callable[..., Path], tmp_path: Path) -> None:
    report = analyze(form(tmp_path, [steps(rank, 4) for rank in range(4)]))
    assert (report.verdict.cause, report.collectives) == ("no-fault-found", ())
    assert report.job.ranks_seen == (0, 1, 2, 3)


def test_rings_that_wrapped_differently_are_healthy(tmp_path: Path) -> None:
    dumps = [steps(rank, 6) for rank in range(4)]
    for dump in dumps:
        del dump.entries[: 3 * dump.rank + 1]
    assert analyze(write(tmp_path, dumps)).verdict.cause == "no-fault-found"


def test_unequal_numbers_of_completed_calls_are_healthy(tmp_path: Path) -> None:
    # the dump of rank 1 is a moment older than that of the others
    assert analyze(write(tmp_path, [steps(r, 3 if r == 1 else 4) for r in range(4)])).verdict.cause == "no-fault-found"


def test_an_older_dump_blames_nobody(tmp_path: Path) -> None:
    dumps = [steps(r, 3 if r == 1 else 4) for r in range(4)]
    for dump in dumps:
        if dump.rank != 1:
            dump.wait()
    assert analyze(write(tmp_path, dumps)).verdict.ranks == ()


def test_a_missing_call_names_rank_number_and_lines(tmp_path: Path) -> None:
    dumps = [steps(r).call(line=10) for r in range(4)]
    for dump in dumps:
        if dump.rank != 2:
            dump.wait("_all_gather_base", 16, line=11)
    report = analyze(write(tmp_path, dumps))
    assert told(report) == ("collective-skipped", (2,), "0", 14, "11 train_step")
    assert report.collectives[0].op == "all_gather_into_tensor"
    for word in ("Rank 2", "all_gather_into_tensor 14", "0 (default_pg)", "train.py:11", "train.py:10"):
        assert word in report.verdict.explanation


def test_a_missing_call_in_another_line_than_the_next_step_begins_with_is_no_early_exit(tmp_path: Path) -> None:
    dumps = [steps(r) if r == 2 else steps(r).wait("all_reduce", 9, line=50) for r in range(4)]
    assert analyze(write(tmp_path, dumps)).verdict.cause == "collective-skipped"


def test_whole_steps_and_no_more_is_an_early_exit(tmp_path: Path) -> None:
    dumps = [steps(r) if r == 2 else steps(r).wait("all_reduce", 64, line=10) for r in range(4)]
    assert told(analyze(write(tmp_path, dumps)))[:2] == ("exited-early", (2,))


def test_a_call_left_out_where_all_look_the_same_is_found_by_its_line(tmp_path: Path) -> None:
    dumps = []
    for rank in range(3):
        dump = Dump(rank, groups={"0": ("default_pg", range(3))})
        for _ in range(3):
            for line in (10, 11, 12, 13):
                dump.call(line=line)
        for line in (10, 11, 12, 13):
            if (rank, line) != (1, 11):
                dump.call(line=line)
        dumps.append(dump)
    for dump in dumps:
        if dump.rank != 1:
            dump.entries[-1].update(state="scheduled", retired=False, time_discovered_completed_ns=None)
    assert told(analyze(write(tmp_path, dumps))) == ("collective-skipped", (1,), "0", 14, "11 train_step")


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        (("broadcast", 64, "Float"), "collective-op-mismatch"),
        (("all_reduce", 63, "Float"), "collective-shape-mismatch"),
        (("all_reduce", 64, "Half"), "collective-shape-mismatch"),
    ],
)
def test_calls_that_differ(other: tuple[str, int, str], cause: str, tmp_path: Path) -> None:
    dumps = []
    for rank in range(4):
        op, size, dtype = other if rank == 1 else ("all_reduce", 64, "Float")
        dumps.append(steps(rank).wait(op, size, dtype=dtype))
    report = analyze(write(tmp_path, dumps))
    assert told(report) == (cause, (1,), "0", 13, "10 train_step")
    assert list(report.collectives[0].differing) == [1]


def test_the_smaller_tensors_of_gloo_complete_and_the_larger_one_is_odd(tmp_path: Path) -> None:
    dumps = [Dump(r, backend="gloo").call(line=1) for r in range(4)]
    for dump in dumps:
        if dump.rank == 1:
            dump.wait("all_reduce", 8, line=2)
        else:
            dump.call("all_reduce", 4, line=2)
    assert told(analyze(write(tmp_path, dumps)))[:2] == ("collective-shape-mismatch", (1,))


def test_without_a_majority_the_own_past_decides(tmp_path: Path) -> None:
    pair = {"0": ("default_pg", range(2))}
    dumps = []
    for rank in range(2):
        dump = Dump(rank, groups=pair)
        for _ in range(4):
            dump.step()
        dumps.append(dump.wait("all_reduce", 64 if rank else 63))
    assert told(analyze(write(tmp_path, dumps)))[:2] == ("collective-shape-mismatch", (0,))


def test_groups_in_two_orders(tmp_path: Path) -> None:
    groups = {"0": ("default_pg", range(4)), "1": ("moe", range(4))}
    dumps = []
    for rank in range(4):
        dump = Dump(rank, groups=groups)
        for _ in range(3):
            dump.call(line=10).call(group="1", line=11)
        dumps.append(dump.wait(group="1", line=11) if rank == 3 else dump.wait(line=10))
    report = analyze(write(tmp_path, dumps))
    assert told(report) == ("group-order-deadlock", (3,), "0", 4, "10 train_step")


def test_the_rank_that_left_out_a_send_is_to_blame(tmp_path: Path) -> None:
    zero, one = pipeline(0), pipeline(1)
    zero.transfer("send 0->1", "1", line=30).transfer("recv 0<-1", "1", "scheduled", line=31)
    one.transfer("recv 1<-0", "1", line=30).transfer("recv 1<-0", "1", "scheduled", line=30)
    report = analyze(write(tmp_path, [zero, one]))
    assert told(report)[:3] == ("p2p-unmatched", (0,), "1")
    assert report.collectives[0].where.endswith(":30 train_step")


def test_pipelines_with_batches_are_healthy(tmp_path: Path) -> None:
    assert analyze(write(tmp_path, [pipeline(r) for r in range(2)])).verdict.cause == "no-fault-found"


def test_victims_elsewhere_are_not_blamed(tmp_path: Path) -> None:
    """Rank 3 misses the call of its pair; all others wait in other groups, for it or for its victim."""
    dumps = []
    for rank in range(4):
        dump = Dump(rank, groups=GRID[rank])
        tensor, data = f"{1 + rank // 2}", f"{3 + rank % 2}"
        for _ in range(3):
            dump.call(group=tensor, line=10).call(group=data, line=20).call(line=30)
        if rank == 2:
            dump.wait(group=tensor, line=10)
        elif rank < 2:
            dump.call(group=tensor, line=10).wait(group=data, line=20)
        dumps.append(dump)
    report = analyze(write(tmp_path, dumps))
    assert (report.verdict.ranks, report.collectives[0].group) == ((3,), "2")
    assert report.collectives[0].description == "TENSOR"


def test_the_only_rank_without_dump_that_is_waited_for_has_vanished(tmp_path: Path) -> None:
    dumps = [steps(rank).call(line=10).wait("_all_gather_base", 16, line=11) for rank in (0, 1, 3)]
    assert told(analyze(write(tmp_path, dumps)))[:2] == ("rank-vanished", (2,))


def stage(rank: int) -> Dump:
    """Two stages of two ranks, in whole steps: ranks 0 and 1 send to 2 and 3, and get something back."""
    pair, pipe = ("1", range(2)) if rank < 2 else ("2", (2, 3)), ("3", (0, 2)) if rank % 2 == 0 else ("4", (1, 3))
    groups = {"0": ("default_pg", range(4)), pair[0]: ("TENSOR", pair[1]), pipe[0]: ("PIPELINE", pipe[1])}
    dump = Dump(rank, groups=groups)
    for _ in range(3):
        if rank < 2:
            dump.call(group=pair[0]).call(group=pair[0], line=11)
            dump.transfer("send 0->1", pipe[0], line=30).transfer("recv 0<-1", pipe[0], line=31)
        else:
            dump.transfer("recv 1<-0", pipe[0], line=30).call(group=pair[0])
            dump.call(group=pair[0], line=11).transfer("send 1->0", pipe[0], line=31)
        dump.call(line=40)
    return dump


def test_a_rank_without_dump_stopped_before_a_receive_that_its_neighbour_has_behind_it(tmp_path: Path) -> None:
    zero, one, two = (stage(rank) for rank in range(3))
    for dump in (zero, one):
        dump.call(group="1").call(group="1", line=11)
    zero.transfer("send 0->1", "3", line=30).transfer("recv 0<-1", "3", "scheduled", line=31)
    one.transfer("send 0->1", "4", "scheduled", line=30)
    two.transfer("recv 1<-0", "3", line=30).wait(group="2")
    call = analyze(write(tmp_path, [zero, one, two])).collectives[0]
    assert (call.group, call.op, call.missing) == ("4", "send", (3,))


def test_a_rank_without_dump_stopped_in_the_collective_that_its_neighbour_stands_in(tmp_path: Path) -> None:
    zero, one, two = (stage(rank) for rank in range(3))
    for dump, pipe in ((zero, "3"), (one, "4")):
        dump.call(group="1").call(group="1", line=11)
        dump.transfer("send 0->1", pipe, line=30).transfer("recv 0<-1", pipe, "scheduled", line=31)
    two.transfer("recv 1<-0", "3", line=30).call(group="2").call(group="2", line=11)
    two.transfer("send 1->0", "3", line=31).call(line=40)
    two.transfer("recv 1<-0", "3", line=30).wait(group="2")
    zero.entries[-1]["state"] = zero.entries[-2]["state"] = "scheduled"
    call = analyze(write(tmp_path, [zero, one, two])).collectives[0]
    assert (call.group, call.missing) == ("2", (3,))


def test_a_rank_that_received_what_its_step_begins_with_did_not_leave(tmp_path: Path) -> None:
    """The numbers of its groups fit whole steps, but sends and receives have no such numbers."""
    dumps = [stage(rank) for rank in range(4)]
    for dump, pipe in zip(dumps, ("3", "4", "3", "4"), strict=True):
        if dump.rank < 2:
            dump.call(group="1").call(group="1", line=11).transfer("send 0->1", pipe, line=30)
            dump.transfer("recv 0<-1", pipe, "scheduled", line=31)
        else:
            dump.transfer("recv 1<-0", pipe, line=30)
    dumps[2].wait(group="2")
    for entry in (entry for dump in dumps for entry in dump.entries if entry["is_p2p"]):
        entry["frames"][2] = {"name": "exchange", "filename": "/mnt/work/pipe.py", "line": 30}
    assert told(analyze(write(tmp_path, dumps)))[:3] == ("collective-skipped", (3,), "2")


def test_a_rank_without_dump_is_not_blamed_when_another_is_missing(tmp_path: Path) -> None:
    dumps = [steps(rank).call(line=10) for rank in (0, 1, 3)]
    for dump in dumps[:2]:
        dump.wait("_all_gather_base", 16, line=11)
    assert told(analyze(write(tmp_path, dumps)))[:2] == ("collective-skipped", (3,))


def test_a_kernel_that_hangs_blames_no_rank(tmp_path: Path) -> None:
    report = analyze(write(tmp_path, [steps(rank).wait() for rank in range(4)]))
    assert told(report)[:2] == ("gpu-kernel-hang", ())


def test_gloo_has_no_kernel_that_could_hang(tmp_path: Path) -> None:
    report = analyze(write(tmp_path, [Dump(rank, backend="gloo").call().wait() for rank in range(4)]))
    assert report.verdict.cause == "watchdog-timeout"


def test_dumps_of_a_recorder_that_was_off_say_nothing(tmp_path: Path) -> None:
    for rank in range(2):
        value = Dump(rank).value() | {"pg_status": {"0": {"last_enqueued_collective": 41}}}
        del value["entries"]
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(value))
    report = analyze(tmp_path)
    assert report.verdict.cause == "insufficient-evidence"
    commands = {remedy.command for remedy in report.verdict.remedies}
    # the dumps' format is that of torch 2.9 and later, which read the new name
    assert "TORCH_FR_BUFFER_SIZE=2000" in commands
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE=2000" not in commands


def test_old_numbers_count_batches_among_the_collectives(tmp_path: Path) -> None:
    dumps = []
    for rank in range(2):
        dump = pipeline(rank)
        for entry in dump.entries:
            if entry["is_p2p"]:
                entry.update(collective_seq_id=entry["p2p_seq_id"], p2p_seq_id=0)
        dumps.append(dump)
    assert analyze(write(tmp_path, dumps)).verdict.cause == "no-fault-found"


def test_pickle_and_json_of_one_rank_are_one_dump(tmp_path: Path) -> None:
    dumps = [steps(r) if r == 2 else steps(r).wait("all_reduce", 9, line=50) for r in range(4)]
    write(tmp_path, dumps)
    report = analyze(write_json(tmp_path, dumps))
    assert told(report) == ("collective-skipped", (2,), "0", 13, "50 train_step")
    assert len(report.collectives) == 1


def test_a_watchdogs_line_and_a_recording_of_one_call_are_one_collective(tmp_path: Path) -> None:
    dumps = [steps(r) if r == 2 else steps(r).wait("all_reduce", 9, line=50) for r in range(4)]
    write(tmp_path, dumps)
    lines = [
        f"[rank{r}]:[E1129 10:00:0{r}.123456789 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=13, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran "
        "for 600045 milliseconds before timing out."
        for r in (0, 1, 3)
    ]
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
    report = analyze(tmp_path)
    assert told(report)[:2] == ("collective-skipped", (2,))
    assert [(call.group, call.seq) for call in report.collectives] == [("0", 13)]


def test_one_rank_ahead_of_all_others_proves_nothing_against_them(tmp_path: Path) -> None:
    dumps = [steps(r).call(line=10) for r in range(4)]
    dumps[3].wait("_all_gather_base", 16, line=11)
    assert analyze(write(tmp_path, dumps)).verdict.confidence < 0.6


def test_dumps_that_name_no_rank_are_not_called_unknown_lines(tmp_path: Path) -> None:
    written = write(tmp_path, [steps(r).call(line=10) for r in range(2)])
    for number, path in enumerate(sorted(p for p in written.iterdir() if p.is_file())):
        path.rename(path.with_name(("first", "second")[number] + path.suffix.strip("0123456789.")))
    verdict = analyze(written).verdict
    assert (verdict.cause, verdict.rule) == ("insufficient-evidence", "recordings-nameless")
