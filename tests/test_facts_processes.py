"""Facts from tables of processes: whose process it is, stopped, blocked, ended, not there."""

from __future__ import annotations

import pytest

from hangscope.facts import processes
from hangscope.model import Fact
from nccl_logs import Rank, job_of

HEAD = "  PID  PPID STAT WCHAN                    COMMAND"


def row(pid: int, state: str, wchan: str = "futex_do_wait", parent: int = 90, command: str = "python3 train.py") -> str:
    return f"{pid:>5} {parent:>5} {state:<4} {wchan:<24} {command}"


def facts(*tables: list[str], logs: dict[str, list[str]] | None = None) -> list[Fact]:
    if logs is None:
        logs = {f"{rank}.log": Rank(rank, 4, host="node01").init().lines for rank in range(4)}
    files = {f"ps{number}.txt": [HEAD, *table] for number, table in enumerate(tables)}
    return list(processes.find(job_of({**logs, **files})))


def everybody(*odd: str) -> list[str]:
    known = {int(line.split()[0]) for line in odd}
    return [*(row(pid, "Rl") for pid in range(100, 104) if pid not in known), *odd]


def test_stopped_rank_is_named_by_its_process_id() -> None:
    (fact,) = facts(everybody(row(102, "Tsl", "do_signal_stop")))
    assert (fact.kind, fact.ranks, fact.affected) == ("process_stopped", (2,), (0, 1, 3))
    assert (fact.fields["process"], fact.fields["traced"], fact.fields["child"]) == (102, False, False)
    assert [evidence.at.line for evidence in fact.evidence] == [5]


@pytest.mark.parametrize(
    ("wchan", "storage"),
    [
        ("nfs4_wait_clnt_recover", True),
        ("io_schedule", True),
        ("uvm_va_space_destroy", False),
        ("msleep", False),
        ("-", None),
    ],
)
def test_uninterruptible_process_waits_for_storage_or_not(wchan: str, storage: object) -> None:
    (fact,) = facts(everybody(row(103, "D", wchan)))
    assert (fact.kind, fact.ranks, fact.fields["storage"]) == ("process_uninterruptible", (3,), storage)


def test_kernel_stack_tells_what_the_table_does_not() -> None:
    (fact,) = facts(
        [*everybody(row(103, "D", "-")), "", "Kernel stack of 103:", "[<0>] rpc_wait_bit_killable+0x1e/0x80"]
    )
    assert (fact.fields["storage"], fact.fields["wchan"]) == (True, "rpc_wait_bit_killable")


def test_child_of_a_rank_is_the_ranks() -> None:
    (fact,) = facts(everybody(row(555, "T", parent=101)))
    assert (fact.ranks, fact.fields["child"], fact.fields["sure"]) == ((1,), True, False)


def test_last_look_decides() -> None:
    # GIVEN a rank that was stopped in the first table and runs in the second
    assert facts(everybody(row(102, "T")), everybody(row(102, "Rl"))) == []
    (fact,) = facts(everybody(row(102, "D", "io_schedule")), everybody(row(102, "D", "io_schedule")))
    assert fact.fields["looks"] == 2


def test_a_process_that_reads_for_a_moment_is_no_fault() -> None:
    assert facts(everybody(row(102, "Sl")), everybody(row(102, "D", "io_schedule"))) == []


def test_processes_of_others_are_nobodys_business() -> None:
    assert facts(everybody(row(7, "D", "jbd2_log", command="[jbd2/sda1-8]"), row(8, "T", command="vim x"))) == []


def test_rank_that_no_table_shows_is_gone() -> None:
    (fact,) = facts([row(pid, "Rl") for pid in (100, 101, 103)])
    assert (fact.kind, fact.ranks, fact.fields["process"]) == ("process_gone", (2,), 102)


def test_filtered_table_makes_nobody_gone() -> None:
    assert facts([row(101, "Rl")]) == []


def test_zombie_is_defunct() -> None:
    (fact,) = facts(everybody(row(101, "Zs", "-", command="[python3] <defunct>")))
    assert (fact.kind, fact.ranks) == ("process_defunct", (1,))


def test_ranks_of_a_bare_table_follow_the_order_of_process_ids() -> None:
    # GIVEN srun with one task a host, each of which started two processes
    log = [f"srun: error: node0{host}: task {host - 1}: Terminated" for host in (1, 2)]
    files = {"srun.log": log, "node02-ps.txt": [HEAD, row(500, "Rl"), row(501, "D", "-")]}
    (fact,) = list(processes.find(job_of(files)))
    assert (fact.ranks, fact.hosts, fact.fields["sure"]) == ((3,), ("node02",), False)


def test_no_rank_is_guessed_where_the_number_of_processes_does_not_fit() -> None:
    (fact,) = facts([row(500, "T"), row(501, "Rl")], logs={"job.log": ["WORLD_SIZE=4"]})
    assert fact.ranks == ()
