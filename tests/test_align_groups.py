"""Which communicator objects of several processes are one group: by id, by split, by order; pointers used again."""

from __future__ import annotations

import pytest

from hangscope.align.groups import Group
from hangscope.align.job import Job
from nccl_logs import Rank, job_of_ranks, ranks

PARTS = {0: ((0, 1), 0), 1: ((0, 1), 1), 2: ((2, 3), 0), 3: ((2, 3), 1)}
"""Rank of four -> the half it belongs to, and its rank inside."""


def groups(job: Job) -> dict[str, tuple[int, ...]]:
    """Name -> global ranks."""
    return {group.name: group.ranks() for group in job.groups}


def group_of(job: Job, name: str) -> Group:
    return next(group for group in job.groups if group.name == name)


def halves(
    logs: list[Rank], *, first: int = 0x5000, count: int | None = None, ids: bool = False, id_base: int = 0xA0
) -> None:
    """Splits the world into two halves."""
    for log in logs:
        members, inside = PARTS[log.rank]
        half = members[0] // 2
        comm_id = id_base + half if ids else None
        log.split(first + log.rank, inside, 2, half, count=count, comm_id=comm_id)


# --- by id ------------------------------------------------------------------------------------------------


def test_objects_with_one_comm_id_are_one_group_whatever_their_pointers() -> None:
    job = job_of_ranks(ranks(4))
    assert groups(job) == {"world": (0, 1, 2, 3)}
    assert len({member.comm for member in job.groups[0].members}) == 4


def test_two_communicators_of_all_ranks_are_told_apart_by_id() -> None:
    # GIVEN ranks that make their second communicator in different order
    logs = [
        Rank(0, 2).init(comm_id=1).init(comm=0x10, comm_id=2),
        Rank(1, 2).init(comm=0x10, comm_id=2).init(comm_id=1),
    ]
    assert sorted(groups(job_of_ranks(logs)).values()) == [(0, 1), (0, 1)]


def test_without_ids_communicators_are_joined_by_size_and_order() -> None:
    # GIVEN NCCL 2.15 and earlier, which print no commId
    logs = [Rank(r, 2).init(comm_id=None).init(comm=0x10 + r, comm_id=None) for r in range(2)]
    job = job_of_ranks(logs)
    assert sorted(groups(job).values()) == [(0, 1), (0, 1)]
    assert {group.name for group in job.groups} == {"world", "communicator 2 of size 2"}


def test_group_names_the_ranks_of_it_that_no_process_holds() -> None:
    job = job_of_ranks([Rank(r, 4).init() for r in (0, 1, 3)])
    assert group_of(job, "world").missing_group_ranks == (2,)


# --- splits -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [False, True], ids=["2.23 to 2.31.0: no commId", "2.21, 2.22, 2.31.2: commId"])
@pytest.mark.parametrize("counted", [False, True], ids=["no splitCount", "splitCount"])
def test_children_of_one_split_and_color_are_one_group(ids: bool, counted: bool) -> None:
    logs = ranks(4)
    halves(logs, count=1 if counted else None, ids=ids)
    assert sorted(groups(job_of_ranks(logs)).values()) == [(0, 1), (0, 1, 2, 3), (2, 3)]


@pytest.mark.parametrize("ids", [False, True], ids=["no commId", "commId"])
@pytest.mark.parametrize("counted", [False, True], ids=["no splitCount", "splitCount"])
def test_second_split_of_the_same_colors_makes_other_groups(counted: bool, ids: bool) -> None:
    logs = ranks(4)
    halves(logs, count=1 if counted else None, ids=ids)
    halves(logs, first=0x6000, count=2 if counted else None, ids=ids, id_base=0xB0)
    assert sorted(groups(job_of_ranks(logs)).values()) == [(0, 1), (0, 1), (0, 1, 2, 3), (2, 3), (2, 3)]


def test_split_count_finds_the_group_when_a_rank_was_left_out_of_an_earlier_split() -> None:
    # GIVEN a first split without rank 3 (NCCL_SPLIT_NOCOLOR), then one of all
    logs = ranks(4)
    for log in logs[:3]:
        log.split(0x5000 + log.rank, log.rank, 3, 0, count=1)
    for log in logs:
        log.split(0x6000 + log.rank, log.rank, 4, 0, count=2)
    assert sorted(groups(job_of_ranks(logs)).values()) == [(0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3)]


def test_count_of_the_complete_line_decides_over_the_order_of_the_start_lines() -> None:
    # GIVEN START lines, which have no splitCount, in front of the COMPLETE lines of the case above
    logs = ranks(4)
    for count, members in ((1, logs[:3]), (2, logs)):
        for log in members:
            comm = 0x5000 * count + log.rank
            log.say(
                f"ncclCommSplit comm 0x{comm:x} rank {log.rank} nranks {len(members)} cudaDev 0 nvmlDev 0 busId 19000 "
                f"parent 0x{log.comm:x} color 0 key {log.rank}- Init START"
            )
            log.split(comm, log.rank, len(members), 0, count=count)
    assert sorted(groups(job_of_ranks(logs)).values()) == [(0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3)]


def test_child_is_named_after_its_parent() -> None:
    logs = ranks(4)
    halves(logs, count=1)
    assert {group.name for group in job_of_ranks(logs).groups} == {
        "world",
        "split 1, color 0 of world",
        "split 1, color 1 of world",
    }


def test_names_are_unique_even_for_groups_of_one_split() -> None:
    logs = ranks(4)
    for log in logs:
        log.split(0x5000 + log.rank, log.rank % 2, 2, log.rank // 2)
        log.split(0x6000 + log.rank, log.rank // 2, 2, log.rank % 2)
    names = [group.name for group in job_of_ranks(logs).groups]
    assert len(names) == len(set(names)) == 5


# --- the life of an object --------------------------------------------------------------------------------


def test_pointer_used_again_after_destroy_is_another_communicator() -> None:
    logs = ranks(2)
    for log in logs:
        log.end().init(comm_id=0x77)
    job = job_of_ranks(logs)
    assert len(job.groups) == 2
    assert [[m.ended is not None for m in group.members] for group in job.groups] == [[True, True], [False, False]]


def test_start_and_complete_are_one_object() -> None:
    (member,) = job_of_ranks([Rank(0, 1).init()]).communicators
    assert member.start is not None and member.complete is not None and member.complete.number == 2


def test_begun_object_is_not_complete() -> None:
    (member,) = job_of_ranks([Rank(0, 2).init(("Init START",))]).communicators
    assert member.start is not None and member.complete is None


def test_old_complete_line_without_start_is_an_object_too() -> None:
    # GIVEN NCCL 2.12: no START line, no commId
    log = Rank(0, 2).say("comm 0x7f88 rank 0 nranks 2 cudaDev 0 busId 1a000 - Init COMPLETE")
    job = job_of_ranks([log])
    assert [(m.comm, m.group_rank, m.size, m.comm_id) for m in job.communicators] == [(0x7F88, 0, 2, None)]
    assert sorted(job.ranks) == [0]


def test_abort_is_an_end_of_its_own_kind() -> None:
    (member,) = job_of_ranks([Rank(0, 2).init().end("Abort")]).communicators
    assert (member.ended is not None, member.end_action) == (True, "Abort")


# --- tables -----------------------------------------------------------------------------------------------


def test_tables_list_groups_and_memberships() -> None:
    logs = ranks(2)
    logs[1].end()
    tables = job_of_ranks(logs).tables
    assert tables.communicators[["group", "size", "members", "complete", "ended"]].values.tolist() == [
        ["world", 2, 2, 2, 1]
    ]
    assert tables.memberships[["group_rank", "rank", "host", "pid", "state"]].values.tolist() == [
        [0, 0, "node01", 100, "ready"],
        [1, 1, "node01", 101, "ended"],
    ]
