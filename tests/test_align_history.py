"""What the ranks called last, from call lines and from flight recorders."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from hangscope.align.history import find_history
from hangscope.align.job import Job
from hangscope.api import analyze, load
from hangscope.model import CallState, GroupHistory, History
from nccl_logs import Rank, job_of, job_of_ranks, ranks
from recorder_dumps import Dump, write

_LETTERS = {
    CallState.DONE: ".",
    CallState.STARTED: "s",
    CallState.WAITING: "w",
    CallState.DIFFERS: "D",
    CallState.MISSING: "M",
    CallState.NOT_REACHED: "-",
    CallState.UNKNOWN: " ",
}


def history(job: Job, calls: int = 8, most_cells: int = 10_000) -> History:
    found = find_history(job, calls, most_cells)
    assert found is not None
    return found


def drawn(group: GroupHistory) -> list[str]:
    """A line a call: number, operation, a letter a rank."""
    return [f"{c.seq} {c.op} {''.join(_LETTERS[state] for state in c.states)}" for c in group.calls]


def recorded(folder: Path, dumps: Sequence[Dump]) -> History:
    return history(load(write(folder, dumps)))


# --- NCCL's call lines -----------------------------------------------------------------------------------


def test_the_missing_rank_stands_out_in_the_call_that_it_did_not_make() -> None:
    logs = ranks(3)
    for log in logs:
        log.call().call("AllGather")
    for log in logs[:2]:
        log.call(count=7).call(count=8)
    (group,) = history(job_of_ranks(logs)).groups
    assert drawn(group) == ["0 all_reduce ...", "1 all_gather ...", "2 all_reduce wwM", "3 all_reduce ww-"]
    assert (group.group, group.size, group.ranks, group.stuck) == ("world", 3, (0, 1, 2), 2)
    assert [call.size for call in group.calls] == ["1024 float32", "1024 float32", "7 float32", "8 float32"]


def test_who_called_something_else_is_said_with_what() -> None:
    logs = ranks(3)
    for log in logs:
        log.call("Broadcast", 4, root=1 if log.rank == 2 else 0)
    (call,) = history(job_of_ranks(logs)).groups[0].calls
    assert [state.value for state in call.states] == ["waiting", "waiting", "differs"]
    assert call.differing == {2: "broadcast of 4 float32, root 1"}


def test_who_left_out_a_call_differs_in_what_follows() -> None:
    logs = ranks(3)
    for log in logs:
        for count in (1, 2, 3, 4):
            if not (log.rank == 0 and count == 2):
                log.call(count=count)
    (group,) = history(job_of_ranks(logs)).groups
    assert drawn(group) == ["0 all_reduce ...", "1 all_reduce Dww", "2 all_reduce Dww", "3 all_reduce -ww"]


def test_only_the_last_calls_are_kept_with_the_stuck_one_and_some_beyond() -> None:
    logs = ranks(2)
    for log in logs:
        for _ in range(30):
            log.call()
    for _ in range(20):
        logs[0].call()
    (group,) = history(job_of_ranks(logs), calls=6).groups
    assert [call.seq for call in group.calls] == [27, 28, 29, 30, 31, 32]
    assert (group.stuck, group.left_out, group.beyond) == (30, 27, 17)


def test_one_call_asked_for_is_the_stuck_one() -> None:
    logs = ranks(2)
    for log in logs:
        log.call().call()
    logs[0].call().call().call()
    (group,) = history(job_of_ranks(logs), calls=1).groups
    assert [call.seq for call in group.calls] == [2]


def test_times_are_there_when_lines_have_them() -> None:
    stamped = {
        f"{rank}.log": [f"[2026-05-01 10:00:0{i + rank}] {line}" for i, line in enumerate(log.call().call().lines)]
        for rank, log in enumerate(ranks(2))
    }
    (group,) = history(job_of(stamped)).groups
    first, second = group.calls
    assert first.started[1] is not None and first.started[0] is not None
    assert (first.started[1] - first.started[0], second.started[0]) == (1.0, first.started[0] + 1.0)
    assert history(job_of_ranks([log.call() for log in ranks(2)])).groups[0].calls[0].started == ()


def test_a_rank_whose_calls_cannot_be_numbered_is_unknown() -> None:
    logs = [Rank(rank, 3).init(comm_id=None).call().call() for rank in range(2)]
    logs.append(Rank(2, 3).call().end())  # its init, and who knows how many calls, are lost
    (group,) = history(job_of({f"rank{log.rank}.log": log.lines for log in logs})).groups
    assert drawn(group) == ["0 all_reduce .. ", "1 all_reduce .. "]


# --- flight recorders ------------------------------------------------------------------------------------


def test_a_recorder_tells_which_calls_completed_and_where_they_were_made(tmp_path: Path) -> None:
    dumps = [Dump(rank).step() for rank in range(4)]
    for dump in dumps[:3]:
        dump.wait(line=40).wait(line=41)
    (group,) = recorded(tmp_path, dumps).groups
    assert drawn(group) == [
        "1 all_reduce ....",
        "2 all_gather_into_tensor ....",
        "3 broadcast ....",
        "4 all_reduce wwwM",
        "5 all_reduce www-",
    ]
    assert group.calls[3].where == "/mnt/work/train.py:40 train_step"
    assert group.calls[3].started[3] is None and group.calls[3].started[0] is not None
    assert (group.group, group.description, group.left_out) == ("0", "default_pg", 0)


def test_what_the_ring_holds_no_more_and_who_left_no_dump_are_unknown(tmp_path: Path) -> None:
    dumps = [Dump(rank).step().step() for rank in range(3)]
    del dumps[1].entries[:4]
    (group,) = recorded(tmp_path, dumps).groups
    assert drawn(group)[0] == "1 all_reduce . . "
    assert drawn(group)[-1] == "6 broadcast ... "


def test_an_older_dump_is_unknown_where_the_others_went_on(tmp_path: Path) -> None:
    dumps = [Dump(rank).step() for rank in range(4)]
    for dump in dumps[:3]:
        dump.step()
    (group,) = recorded(tmp_path, dumps).groups
    assert drawn(group)[2:4] == ["3 broadcast ....", "4 all_reduce ... "]


def test_sizes_that_differ_are_shown_at_the_rank_that_is_alone(tmp_path: Path) -> None:
    dumps = [Dump(rank).step().wait(size=32 if rank == 1 else 64) for rank in range(4)]
    (group,) = recorded(tmp_path, dumps).groups
    assert drawn(group)[-1] == "4 all_reduce wDww"
    assert list(group.calls[-1].differing) == [1]
    assert "32" in group.calls[-1].differing[1]


def test_stuck_groups_come_first_and_the_others_by_their_numbers(tmp_path: Path) -> None:
    groups: Mapping[str, tuple[str, Sequence[int]]] = {
        "10": ("LATE", range(2)),
        "0": ("default_pg", range(2)),
        "9": ("EARLY", range(2)),
    }
    dumps = [Dump(rank, groups=groups).call(group="10").call(group="9").call(group="0") for rank in range(2)]
    dumps[0].wait(group="10")
    assert [group.group for group in recorded(tmp_path, dumps).groups] == ["10", "0", "9"]
    plain = [Dump(rank, groups=groups).call(group="10").call(group="9") for rank in range(2)]
    assert [group.group for group in recorded(tmp_path / "plain", plain).groups] == ["9", "10"]


# --- sends and receives ----------------------------------------------------------------------------------


def moved(found: History) -> list[tuple[int, int | None, str, int, str]]:
    return [(one.rank, one.peer, one.op, one.seq, _LETTERS[one.state]) for one in found.transfers]


def test_a_send_waits_until_its_receive_is_printed() -> None:
    logs = ranks(2)
    logs[0].call("Send", root=1).call("AllReduce").call("Recv", root=1).call("Send", root=1)
    logs[1].call("Recv", root=0).call("AllReduce").call("Send", root=0)
    found = history(job_of_ranks(logs))
    assert moved(found) == [
        (0, 1, "send", 0, "."),
        (0, 1, "recv", 0, "."),
        (0, 1, "send", 1, "w"),
        (1, 0, "recv", 0, "."),
        (1, 0, "send", 0, "."),
    ]
    assert {(one.group, one.size) for one in found.transfers} == {("world", "1024 float32")}
    assert drawn(found.groups[0]) == ["0 all_reduce .."]


def test_ranks_of_a_smaller_group_are_those_of_the_job() -> None:
    logs = ranks(4)
    for log in logs[2:]:
        log.init(comm=0x10, rank=log.rank - 2, size=2, comm_id=7)
    logs[2].call("Send", root=1, comm=0x10)
    logs[3].call("Recv", root=0, comm=0x10)
    assert moved(history(job_of_ranks(logs))) == [(2, 3, "send", 0, "."), (3, 2, "recv", 0, ".")]


def test_members_of_a_recorded_batch_are_as_far_as_the_batch(tmp_path: Path) -> None:
    pair: Mapping[str, tuple[str, Sequence[int]]] = {"0": ("default_pg", range(4)), "1": ("PIPELINE", [1, 3])}
    one = Dump(1, pair).transfer("send 0->1", "1").transfer("recv 0<-1", "1", state="started").call()
    other = Dump(3, pair).transfer("recv 1<-0", "1", batch=False).call()
    found = recorded(tmp_path, [one, other])
    assert moved(found) == [(1, 3, "send", 0, "."), (1, 3, "recv", 0, "s"), (3, 1, "recv", 0, ".")]
    assert found.transfers[0].where == "/mnt/work/train.py:20 train_step"


def test_only_the_last_transfers_of_each_rank_are_kept() -> None:
    logs = ranks(2)
    for _ in range(9):
        logs[0].call("Send", root=1)
        logs[1].call("Recv", root=0)
    assert [one.seq for one in history(job_of_ranks(logs), calls=2).transfers] == [7, 8, 7, 8]


# --- which source, and how much --------------------------------------------------------------------------


def test_of_two_sources_the_one_with_the_stuck_call_is_shown(tmp_path: Path) -> None:
    write(tmp_path, [Dump(rank, groups={"0": ("default_pg", range(2))}).step() for rank in range(2)])
    for log in ranks(2):
        log.call()
        if log.rank == 0:
            log.call()
        (tmp_path / f"rank{log.rank}.log").write_text("\n".join([*log.lines, ""]))
    assert history(load(tmp_path)).source == "calls"


def test_without_calls_there_is_no_history() -> None:
    assert find_history(job_of_ranks(ranks(2)), 8) is None


def test_the_size_is_bounded_and_says_what_is_left_out() -> None:
    logs = ranks(4)
    for number in range(6):
        for log in logs:
            log.init(comm=0x9000 + log.rank * 0x100000 + number * 0x1000, comm_id=100 + number)
            for _ in range(40):
                log.call(comm=0x9000 + log.rank * 0x100000 + number * 0x1000)
    whole = history(job_of_ranks(logs), calls=40)
    assert (len(whole.groups), whole.left_out) == (6, 0)
    less = history(job_of_ranks(logs), calls=40, most_cells=6 * 4 * 10)
    assert [len(group.calls) for group in less.groups] == [10] * 6
    few = history(job_of_ranks(logs), calls=40, most_cells=50)
    assert (len(few.groups), few.left_out) == (2, 4)


def test_a_report_has_a_history_only_when_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, [Dump(rank).step() for rank in range(4)])
    assert analyze(tmp_path).history is None
    report = analyze(tmp_path, history=2)
    assert report.history is not None
    assert [call.seq for call in report.history.groups[0].calls] == [2, 3]
    assert dataclasses.replace(report, history=None) == analyze(tmp_path)
