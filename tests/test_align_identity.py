"""Which writer is which process, and which process is which rank: small logs, each with one kind of evidence."""

from __future__ import annotations

import io

import pytest

import ras_reports
from hangscope.align.job import Job, align
from hangscope.parse.reader import read_stream
from nccl_logs import Rank, job_of, job_of_ranks, ranks

ERROR = "RuntimeError: it is stuck"


def who(job: Job) -> dict[int, tuple[str | None, int | None]]:
    """Rank -> host and pid."""
    return {rank: (process.host, process.pid) for rank, process in job.ranks.items()}


# --- what tells a rank ------------------------------------------------------------------------------------


def test_nccl_init_of_the_world_gives_host_and_pid_their_rank() -> None:
    job = job_of_ranks(ranks(4))
    assert who(job) == {0: ("node01", 100), 1: ("node01", 101), 2: ("node02", 102), 3: ("node02", 103)}
    assert {process.rank_source for process in job.processes} == {"nccl-init"}
    assert job.world_size == 4
    assert job.hosts == ("node01", "node02")


def test_nccl_init_of_a_smaller_communicator_gives_no_global_rank() -> None:
    # GIVEN rank 3 of the world, which is rank 1 of a communicator of two
    log = Rank(3, 4).init().init(comm=0x9000, rank=1, size=2, comm_id=7)
    job = job_of_ranks([log])
    assert who(job) == {3: ("node02", 103)}
    assert job.warnings == () or not any("other numbers" in warning for warning in job.warnings)


def test_one_interleaved_stream_is_told_apart_by_host_and_pid() -> None:
    logs = ranks(4)
    lines = [line for pair in zip(*(log.lines for log in logs), strict=True) for line in pair]
    assert set(who(job_of({"all.log": lines}))) == {0, 1, 2, 3}


def test_torch_s_rank_prefix_gives_the_rank() -> None:
    job = job_of({"job.log": [f"[rank{rank}]: {ERROR} {rank}" for rank in (0, 5)]})
    assert sorted(job.ranks) == [0, 5]
    assert job.ranks[5].rank_source == "rank-prefix"
    assert {event.rank for event in job.events.of("exception")} <= {0, 5}


def test_numbers_of_srun_are_ranks() -> None:
    job = job_of({"slurm.out": [f"{task}: step {step} of {task}" for step in range(8) for task in range(3)]})
    assert sorted(job.ranks) == [0, 1, 2]
    assert {process.rank_source for process in job.ranks.values()} == {"srun"}
    assert job.launcher == "srun"


def test_tags_of_mpirun_are_ranks() -> None:
    job = job_of({"out": [f"[1,{task}]<stdout>:step {step}" for step in range(3) for task in range(3)]})
    assert sorted(job.ranks) == [0, 1, 2]
    assert job.launcher == "mpirun"


def test_name_of_a_file_gives_the_rank_of_its_only_writer() -> None:
    job = job_of({f"rank{rank}.log": [f"{ERROR} {rank}"] for rank in range(3)})
    assert sorted(job.ranks) == [0, 1, 2]
    assert job.ranks[2].rank_source == "file-name"


def test_name_of_a_file_says_nothing_about_several_processes_in_it() -> None:
    lines = [f"node01:{pid}:{pid} [0] NCCL INFO Using network Socket" for pid in (100, 101)]
    assert job_of({"rank0.log": lines}).ranks.keys() <= {0}


def test_failure_table_of_torchrun_gives_pids_their_ranks() -> None:
    # GIVEN workers that print a pid and no rank, and the launcher's table at the end
    table = [
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-03-01_10:00:00",
        "  host      : node01",
        "  rank      : 3 (local_rank: 1)",
        "  exitcode  : -9 (pid: 8097)",
        "  error_file: <N/A>",
    ]
    job = job_of(
        {"w.log": ["node01:8097:8097 [1] NCCL INFO Using network Socket"], "launcher.log": table},
    )
    assert who(job).get(3) == ("node01", 8097)
    assert job.ranks[3].rank_source == "failure-table"


def test_printed_environment_gives_the_rank() -> None:
    job = job_of({"a.out": ["RANK=2 WORLD_SIZE=4 LOCAL_RANK=0", ERROR]})
    assert job.ranks[2].rank_source == "environment"
    assert job.world_size == 4


def test_local_rank_is_the_rank_on_a_job_of_one_host() -> None:
    job = job_of({"job.log": [f"[default{n}]:{ERROR} {n}" for n in range(4)]})
    assert sorted(job.ranks) == [0, 1, 2, 3]
    assert {process.rank_source for process in job.ranks.values()} == {"local-rank"}
    assert job.launcher == "torchrun"


def test_local_rank_is_no_rank_when_there_are_two_launchers() -> None:
    job = job_of({f"node{host:02d}.log": [f"[default{n}]:{ERROR} {n}" for n in range(2)] for host in (1, 2)})
    assert job.ranks == {}
    assert job.hosts == ("node01", "node02")


# --- what is one process ----------------------------------------------------------------------------------


def test_nccl_s_debug_file_and_the_program_s_output_are_one_process() -> None:
    # GIVEN NCCL_DEBUG_FILE beside standard output, in which one line of NCCL tells the pid
    nccl = Rank(1, 2).init().lines
    job = job_of({"nccl.node01.101.log": nccl, "rank1.log": [nccl[0], ERROR]})
    assert len({id(job.process_of(event)) for event in job.events}) == 1
    assert set(job.ranks[1].files) == {"nccl.node01.101.log", "rank1.log"}


def test_output_and_errors_under_one_rank_s_name_are_one_process() -> None:
    job = job_of({"rank1.out": Rank(1, 2).init().lines, "rank1.err": [ERROR]})
    assert [process.rank for process in job.processes] == [1]
    assert job.ranks[1].files == ("rank1.out", "rank1.err")


def test_same_name_in_the_folders_of_two_hosts_stays_two_processes() -> None:
    # GIVEN files named after local ranks
    logs = {0: Rank(0, 4).init(), 2: Rank(2, 4).init()}
    job = job_of({f"node{r // 2 + 1:02d}/rank0.log": [*log.lines, f"{ERROR} {r}"] for r, log in logs.items()})
    assert who(job) == {0: ("node01", 100), 2: ("node02", 102)}
    assert job.ranks[2].files == ("node02/rank0.log",)


def test_both_streams_of_a_torchrun_folder_are_one_process() -> None:
    folder = "run_1/attempt_0/3"
    job = job_of({f"{folder}/stdout.log": Rank(3, 4).init().lines, f"{folder}/stderr.log": [ERROR]})
    assert len(job.processes) == 1
    assert job.ranks[3].files == (f"{folder}/stdout.log", f"{folder}/stderr.log")


def test_rank_prefix_unites_the_lines_of_a_stream_with_its_pid() -> None:
    rank = Rank(5, 8).init()
    job = job_of({"job.log": [f"[rank5]: {line}" for line in rank.lines] + [f"[rank5]: {ERROR}"]})
    assert [process.rank for process in job.processes] == [5]


def test_same_pid_on_two_hosts_is_two_processes() -> None:
    first, second = Rank(0, 2, host="node01"), Rank(1, 2, host="node02")
    second.pid = first.pid
    job = job_of_ranks([first.init(), second.init()])
    assert who(job) == {0: ("node01", 100), 1: ("node02", 100)}


def test_host_in_a_file_s_name_holds_for_lines_without_one() -> None:
    job = job_of({"node07.log": [f"[rank3]: {ERROR}"]})
    assert [event.host for event in job.events] == ["node07"] * len(job.events)
    assert job.ranks[3].host == "node07"


def test_aligning_the_same_sources_again_gives_the_same_job() -> None:
    sources = [read_stream("node07.log", io.BytesIO(f"[rank3]: {ERROR}\n".encode()))]
    first = align(sources)
    again = align(sources)
    assert who(again) == who(first)
    assert [event.host for event in again.events] == ["node07"]


# --- contradictions ---------------------------------------------------------------------------------------


def test_sources_that_contradict_each_other_become_a_warning() -> None:
    # GIVEN a file that is named after another rank than its process has
    job = job_of({"rank7.log": Rank(3, 8).init().lines})
    assert sorted(job.ranks) == [3], "what NCCL says of the world outweighs a name"
    assert any("rank 3 (by nccl-init)" in warning and "file-name says 7" in warning for warning in job.warnings)


def test_agreeing_sources_give_no_warning() -> None:
    job = job_of({f"rank{rank.rank}.log": rank.lines for rank in ranks(2)})
    assert not any("other numbers" in warning for warning in job.warnings)


def test_two_processes_that_both_call_themselves_rank_1_are_duplicates() -> None:
    first, second = Rank(1, 4, host="node01"), Rank(1, 4, host="node02")
    job = job_of_ranks([Rank(0, 4).init(), first.init(), second.init()])
    assert [process.host for process in job.duplicates[1]] == ["node01", "node02"]
    assert len(job.ranks) == 2


def test_a_guess_by_name_beside_a_statement_is_no_duplicate() -> None:
    job = job_of({"a.log": Rank(1, 4).init().lines, "rank1.txt": [ERROR]})
    assert job.duplicates == {}


def test_rank_and_size_that_cannot_be_are_not_believed() -> None:
    job = job_of(
        {
            "a.log": ["RANK=-1 WORLD_SIZE=-1 LOCAL_RANK=0"],
            "b.log": Rank(0, 2).init(size=10**12).lines,
            "c.log": ["node09:9:9 [0] NCCL INFO " + "AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 1 datatype 7"
                      " op 0 root 0 comm 0x1 [nranks=2147483647] stream 0x1"],
        }
    )  # fmt: skip
    assert job.ranks == {}
    assert job.world_size is None
    assert job.silent_ranks() == ()


# --- the world --------------------------------------------------------------------------------------------


def test_world_size_is_what_the_environment_says_most_often() -> None:
    files = {f"{n}.log": [f"RANK={n} WORLD_SIZE={16 if n == 3 else 8} LOCAL_RANK=0"] for n in range(4)}
    assert job_of(files).world_size == 8


def test_ranks_without_any_line_are_silent() -> None:
    assert job_of_ranks(ranks(4)[:2]).silent_ranks() == (2, 3)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_order_of_the_files_changes_nothing(order: tuple[int, ...]) -> None:
    logs = ranks(4)
    job = job_of({f"{index}.log": logs[rank].lines for index, rank in enumerate(order)})
    assert who(job) == who(job_of_ranks(logs))
    assert [process.rank for process in job.processes] == [0, 1, 2, 3]


def test_ras_report_names_the_ranks_of_dumps_by_their_process_ids() -> None:
    members = [ras_reports.rank(number, AllReduce=1) for number in range(2)]
    dump = 'Process {pid}: python train.py\nPython v3.11.7 \n\nThread {pid} (idle): "MainThread"\n    f (a.py:1)\n'
    job = job_of(
        {
            "a.txt": dump.format(pid=101),
            "b.txt": dump.format(pid=100),
            "ras.json": ras_reports.report(ras_reports.comm(members)),
        }
    )
    assert ({rank: process.files for rank, process in job.ranks.items()}, job.world_size) == (
        {0: ("b.txt",), 1: ("a.txt",)},
        2,
    )


# --- what channels tell -----------------------------------------------------------------------------------


def edge(pid: int, source: int, target: int, how: str = "via P2P/CUMEM") -> str:
    return f"node01:{pid}:{pid + 100} [0] NCCL INFO Channel 00/0 : {source}[0] -> {target}[1] {how}"


def test_channels_tell_the_rank_where_nothing_else_does() -> None:
    # GIVEN the middle of a log: a receiver, a sender, and one inside the host
    receiver, sender = edge(7, 3, 0, "[receive] via NET/IB/0"), edge(7, 0, 1, "[send] via NET/IB/0")
    job = job_of({"job.log": [receiver, sender, edge(8, 1, 2)]})
    assert who(job) == {0: ("node01", 7), 1: ("node01", 8)}
    assert {process.rank_source for process in job.ranks.values()} == {"channel"}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([edge(7, 0, 1), edge(8, 0, 1)], id="two communicators with a rank 0"),
        pytest.param([edge(7, 0, 1), edge(7, 1, 2)], id="two ranks in one process"),
        pytest.param([edge(7, 0, 1), f"[rank5]: {ERROR}"], id="somebody else says ranks"),
    ],
)
def test_channels_tell_nothing_where_they_could_be_of_another_group(lines: list[str]) -> None:
    job = job_of({"job.log": lines})
    assert "channel" not in {process.rank_source for process in job.processes}
