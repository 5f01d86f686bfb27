"""Whose stack a dump is, which of its threads decides, and what many stacks have in common."""

from __future__ import annotations

import pytest

from hangscope.align.job import Job
from hangscope.align.stack_tree import MOVING, SLOW, STUCK, build_tree, change_of, find_classes
from hangscope.align.stacks import Position
from hangscope.api import diagnose
from hangscope.report.rank_states import find_rank_states
from hangscope.report.stack_states import find_stack_states, find_stack_tree
from nccl_logs import job_of
from stack_samples import pyspy

C10D = "torch/distributed/distributed_c10d.py"
WRAPPER = "wrapper (torch/distributed/c10d_logger.py:83)"
ALL_REDUCE = f"all_reduce ({C10D}:3252) < {WRAPPER} < step (train.py:44) < main (train.py:80)"
BARRIER = f"barrier ({C10D}:5356) < main (train.py:90) < <module> (train.py:99)"
DATALOADER = "torch/utils/data/dataloader.py"
WAITS_FOR_LOADER = f"wait (threading.py:3) < get (queue.py:1) < _try_get_data ({DATALOADER}:1131) < main (train.py:30)"
STARTED = "run (multiprocessing/process.py:108) < _bootstrap (multiprocessing/process.py:314)"
FORKED = f"{STARTED} < _launch (multiprocessing/popen_fork.py:71) < __init__ ({DATALOADER}:1040) < main (train.py:30)"
WORKER = "_worker_loop (torch/utils/data/_utils/worker.py:275)"
LOADER_IDLE = f"poll (multiprocessing/connection.py:257) < get (multiprocessing/queues.py:113) < {WORKER} < {FORKED}"
LOADER_READS = (
    f"read (data.py:7) < load (data.py:12) < fetch (torch/utils/data/_utils/fetch.py:51) < {WORKER} < {FORKED}"
)
AGENT = (
    "_invoke_run (torch/distributed/elastic/agent/server/api.py:916)"
    " < launch_agent (torch/distributed/launcher/api.py:374) < <module> (torchrun:8)"
)
RULE = "-" * 80 + "\n"
GUESSED = "no dump names its rank: ranks are guessed by the order of the process ids"


def placed(job: Job) -> list[tuple[int | None, str, str]]:
    """Rank, role and state of every position."""
    return [(p.rank, p.role, p.state) for p in job.stacks.positions]


def only(job: Job) -> Position:
    [position] = job.stacks.positions
    return position


# --- whose dump it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["rank2.txt", "rank2-native.txt", "pyspy/node01-rank2.txt", "py-spy-rank2.txt", "node01/rank2/stack.txt"]
)
def test_a_file_named_after_a_rank(name: str) -> None:
    job = job_of({name: pyspy(700, ALL_REDUCE)})
    assert placed(job) == [(2, "rank", "in-collective")]
    assert job.ranks[2].pid == 700


@pytest.mark.parametrize(
    ("command", "rank"),
    [
        ("python train.py --local_rank=3", 3),
        ("python train.py --local-rank 3 --lr 1", 3),
        ("RANK=3 python train.py", 3),
        ("python train.py --rank=3", 3),
        ("VLLM::Worker_TP3", 3),
        ("python train.py --local_rank=x", None),
        ("python train.py --node_rank=3", None),
    ],
)
def test_a_command_line_that_names_the_rank(command: str, rank: int | None) -> None:
    assert only(job_of({"stacks.txt": pyspy(700, ALL_REDUCE, command=command)})).rank == rank


def test_titles_of_inference_workers_count_pipeline_stages_in_steps_of_the_tensor_parallel_size() -> None:
    titles = [f"sglang::scheduler_PP{stage}_TP{part}" for stage in range(2) for part in range(2)]
    text = "\n".join(pyspy(700 + index, ALL_REDUCE, command=title) for index, title in enumerate(titles))
    job = job_of({"stacks.txt": text})
    assert [(p.rank, p.dump.command) for p in job.stacks.positions] == list(enumerate(titles))


def test_the_pid_joins_a_dump_with_the_log_that_names_the_rank() -> None:
    log = (
        "node01:700:700 [0] NCCL INFO ncclCommInitRank comm 0x7000 rank 3 nranks 4 cudaDev 0 nvmlDev 0 busId 1a000"
        " commId 0x5 - Init START\n"
    )
    job = job_of({"nccl.log": log, "dumps/all.txt": pyspy(700, ALL_REDUCE)})
    assert placed(job) == [(3, "rank", "in-collective")]
    assert set(job.ranks[3].files) == {"nccl.log", "dumps/all.txt"}


def test_equal_pids_of_two_hosts_stay_two_processes() -> None:
    job = job_of({"node01.txt": pyspy(77, ALL_REDUCE), "node02.txt": pyspy(77, BARRIER)})
    assert len({id(p.process) for p in job.stacks.positions}) == 2


def test_a_dump_and_a_log_of_one_rank_are_one_process() -> None:
    log = "[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: no\n"
    job = job_of({"job.log": log, "rank1.txt": pyspy(700, ALL_REDUCE)})
    assert set(job.ranks[1].files) == {"job.log", "rank1.txt"}
    assert only(job).process is job.ranks[1]


def test_two_ranks_in_one_file_by_their_headers() -> None:
    text = f"=== rank 1 on node01 ===\n{pyspy(701, ALL_REDUCE)}\n=== rank 0 on node01 ===\n{pyspy(700, BARRIER)}"
    assert placed(job_of({"all.txt": text})) == [(0, "rank", "in-barrier"), (1, "rank", "in-collective")]


# --- guessing ------------------------------------------------------------------------------------------------

FOUR = "\n".join(pyspy(703 - index, BARRIER if index == 0 else ALL_REDUCE) for index in range(4))
WORLD_OF_FOUR = "".join(f"[default{rank}]:hello\n" for rank in range(4))


def test_ranks_by_the_order_of_pids_when_their_number_is_the_world_s() -> None:
    job = job_of({"stacks.txt": FOUR, "job.log": WORLD_OF_FOUR})
    assert placed(job)[3] == (3, "rank", "in-barrier")
    assert [p.rank for p in job.stacks.positions] == [0, 1, 2, 3]
    assert GUESSED in job.warnings


@pytest.mark.parametrize("log", ["", "".join(f"[default{rank}]:hello\n" for rank in range(5))])
def test_no_ranks_are_guessed_when_the_number_does_not_fit(log: str) -> None:
    job = job_of({"stacks.txt": FOUR, "job.log": log})
    assert {p.rank for p in job.stacks.positions} == {None}
    assert GUESSED not in job.warnings


def test_no_ranks_are_guessed_when_a_dump_names_one() -> None:
    job = job_of({"stacks.txt": FOUR, "job.log": WORLD_OF_FOUR, "rank1.txt": pyspy(9999, BARRIER)})
    assert GUESSED not in job.warnings


def test_the_launcher_s_command_line_tells_where_the_ranks_of_its_host_begin() -> None:
    agent = pyspy(699, AGENT, command="python torchrun --nproc-per-node=4 --nnodes=2 --node-rank=1 train.py")
    job = job_of({"node02.txt": f"{agent}\n{FOUR}"})
    assert [p.rank for p in job.stacks.positions] == [4, 5, 6, 7, None]
    assert job.world_size == 8


# --- children and launchers -----------------------------------------------------------------------------------


def test_children_belong_to_their_parent_s_rank() -> None:
    text = (
        pyspy(700, WAITS_FOR_LOADER)
        + RULE
        + pyspy(710, LOADER_READS, parent=700)
        + RULE
        + pyspy(711, LOADER_IDLE, parent=700)
    )
    job = job_of({"rank2.txt": text})
    assert placed(job) == [
        (2, "rank", "waiting-for-loader"),
        (2, "loader", "loading-data"),
        (2, "loader", "loader-idle"),
    ]
    assert job.ranks[2].pid == 700
    assert job.stacks.last()[2].state == "waiting-for-loader"


def test_children_that_name_no_parent_belong_to_the_process_before_them() -> None:
    one = pyspy(700, ALL_REDUCE) + RULE + pyspy(712, LOADER_IDLE)
    other = pyspy(701, WAITS_FOR_LOADER) + RULE + pyspy(711, LOADER_READS)
    job = job_of({"all.txt": f"=== rank 0 ===\n{one}\n=== rank 1 ===\n{other}"})
    assert (1, "loader", "loading-data") in placed(job)
    assert (0, "loader", "loader-idle") in placed(job)


def test_children_alone_make_no_rank() -> None:
    job = job_of(
        {"rank2_worker_1.txt": pyspy(710, LOADER_READS, parent=700), "rank2_worker_2.txt": pyspy(711, LOADER_IDLE)}
    )
    assert placed(job) == [(2, "loader", "loading-data"), (2, "loader", "loader-idle")]
    assert job.stacks.last() == {}


def test_a_loader_s_user_code_is_its_own_not_its_parent_s() -> None:
    job = job_of({"all.txt": pyspy(700, ALL_REDUCE) + RULE + pyspy(711, LOADER_READS) + RULE + pyspy(712, LOADER_IDLE)})
    assert [p.where for p in job.stacks.positions if p.role == "loader"] == ["data.py:7 read", None]


def test_a_plain_child_process_is_no_rank() -> None:
    child = pyspy(712, f"read (sync.py:3) < upload (sync.py:9) < {STARTED}", parent=700)
    assert placed(job_of({"rank0.txt": pyspy(700, ALL_REDUCE) + RULE + child}))[1:] == [(0, "child", "running")]


def test_a_child_that_saves_is_a_checkpoint_process() -> None:
    saves = f"_save (torch/serialization.py:9) < save (torch/serialization.py:1) < write (job.py:2) < {STARTED}"
    job = job_of({"rank0.txt": pyspy(700, ALL_REDUCE) + RULE + pyspy(712, saves, parent=700)})
    assert placed(job)[1:] == [(0, "checkpoint", "saving-checkpoint")]


def test_processes_that_torch_spawned_are_ranks_and_their_parent_is_none() -> None:
    joins = (
        "join (torch/multiprocessing/spawn.py:113) < spawn (torch/multiprocessing/spawn.py:246) < <module> (main.py:50)"
    )
    ranks = [
        pyspy(701 + index, f"{ALL_REDUCE} < _wrap (torch/multiprocessing/spawn.py:75) < {STARTED}", parent=700)
        for index in range(2)
    ]
    job = job_of({"all.txt": RULE.join([pyspy(700, joins), *ranks])})
    assert sorted(p.role for p in job.stacks.positions) == ["launcher", "rank", "rank"]


def test_a_launcher_has_no_rank() -> None:
    job = job_of({"node01-agent.txt": pyspy(699, AGENT, command="/usr/bin/python /usr/bin/torchrun train.py")})
    assert placed(job) == [(None, "launcher", "launcher")]
    assert job.ranks == {}


def test_an_engine_is_no_rank_beside_its_workers() -> None:
    text = (
        pyspy(700, "get (queue.py:1)", command="VLLM::EngineCore")
        + "\n"
        + pyspy(701, ALL_REDUCE, command="VLLM::Worker_TP0")
    )
    assert {p.dump.command: p.role for p in job_of({"all.txt": text}).stacks.positions} == {
        "VLLM::EngineCore": "launcher",
        "VLLM::Worker_TP0": "rank",
    }


# --- which thread decides --------------------------------------------------------------------------------------

BACKWARD = "_engine_run_backward (torch/autograd/graph.py:769) < backward (torch/_tensor.py:521) < step (train.py:51)"
HOOK = f"all_gather_into_tensor ({C10D}:3900) < _unshard (torch/distributed/fsdp/_runtime_utils.py:286)"
THREAD = "run (threading.py:975) < _bootstrap (threading.py:1002)"
JOIN = "join (threading.py:1) < main (t.py:1)"
WAIT = "wait (threading.py:1) < main (t.py:1)"
SAVE = "save (torch/serialization.py:1) < f (t.py:3)"


@pytest.mark.parametrize(
    ("threads", "state", "operation"),
    [
        # the engine's thread has no name, and the main thread only waits for it
        ((BACKWARD, HOOK), "in-collective", "all_gather_into_tensor"),
        ((BACKWARD, ""), "backward", ""),
        ((BACKWARD, f'"Thread-1": poll_gpus (obs.py:3) < {THREAD}'), "backward", ""),
        # a main thread that joins a worker says nothing; the worker does
        (
            (JOIN, f'"trainer": {ALL_REDUCE} < {THREAD}'),
            "in-collective",
            "all_reduce",
        ),
        (
            (WAIT, f'"x": wait (threading.py:1) < f (t.py:9) < {THREAD}'),
            "lock-wait",
            "",
        ),
        # helpers are never asked
        ((JOIN, f'"T": run (tqdm/_monitor.py:1) < {THREAD}'), "thread-join", ""),
        (
            (ALL_REDUCE, f'"saver": {SAVE} < {THREAD}'),
            "in-collective",
            "all_reduce",
        ),
        (("_shutdown (threading.py:1590)", f'"up": get (queue.py:1) < f (t.py:3) < {THREAD}'), "exit-wait", ""),
    ],
)
def test_the_thread_that_tells_decides(threads: tuple[str, ...], state: str, operation: str) -> None:
    position = only(job_of({"rank0.txt": pyspy(700, *threads)}))
    assert (position.state, position.operation) == (state, operation)
    assert len(position.states) == len(threads)


def test_the_main_thread_s_own_code_stands_for_a_hook_without_any() -> None:
    position = only(job_of({"rank0.txt": pyspy(700, BACKWARD, HOOK)}))
    assert (position.where, position.own) == ("train.py:51 step", True)


def test_faulthandler_s_main_thread_is_the_last_one() -> None:
    text = (
        "Thread 0x00007f0000000001 (most recent call first):\n"
        '  File "/usr/lib/python3.11/threading.py", line 320 in wait\n'
        '  File "/job/obs.py", line 9 in loop\n'
        '  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap\n\n'
        "Current thread 0x00007f0000000002 (most recent call first):\n"
        f'  File "/v/lib/python3.11/site-packages/{C10D}", line 5356 in barrier\n'
        '  File "/job/train.py", line 90 in main\n'
        '  File "/job/train.py", line 99 in <module>\n'
    )
    position = only(job_of({"rank0.log": text}))
    assert (position.state, position.where, position.states) == (
        "in-barrier",
        "/job/train.py:90 main",
        ("lock-wait", "in-barrier"),
    )


def test_a_dump_whose_file_ends_before_the_job_s_code_places_nobody() -> None:
    """The frames that are left look like those of a call made elsewhere."""
    whole = pyspy(4822, "broadcast (torch/distributed/distributed_c10d.py:3151) < sync (train.py:10)")
    at = whole.index("sync")
    assert only(job_of({"rank1.txt": whole[:at]})).state == "unknown"
    assert only(job_of({"rank1.txt": whole[:at] + "\n"})).state == "in-collective"
    assert only(job_of({"rank1.txt": whole.rstrip("\n")})).where == "train.py:10 sync"


def test_a_cut_dump_that_prints_the_main_thread_last_places_nobody() -> None:
    text = "Timeout (0:00:25)!\nThread 0x00007f5d1e7fe640 (most recent call first):\n"
    waits = '  File "/usr/lib/python3.11/threading.py", line 327 in wait\n'
    own = '  File "/w/load.py", line 7 in fetch\n'
    assert only(job_of({"rank1.log": text + waits + own + '  File "/usr/lib/pyth'})).state == "unknown"


def test_native_frames_tell_what_the_same_frames_without_them_do() -> None:
    lines = "append (train.py:18) < main (train.py:39)"
    native = f"sem_wait (libc.so.6) < PyThread_acquire_lock_timed (libpython3.11.so.1.0) < {lines}"
    job = job_of({"rank1-native.txt": pyspy(700, native), "rank1.txt": pyspy(700, lines)})
    assert [(p.state, p.round) for p in job.stacks.positions] == [("lock-wait", 0), ("lock-wait", 0)]


def test_what_runs_below_nothing_runs_at_exit() -> None:
    job = job_of(
        {"rank2.txt": pyspy(700, "flush_metrics (metrics.py:9)"), "rank3.txt": pyspy(701, "main (train.py:9)")}
    )
    assert [(p.state, p.pattern) for p in job.stacks.positions] == [("teardown", "exit-callback"), ("running", "")]


# --- rounds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [("round1/stacks.txt", "round2/stacks.txt"), ("r.2.txt", "r.10.txt"), ("before.txt", "after.txt")],
)
def test_rounds_go_by_the_names_of_files(first: str, second: str) -> None:
    job = job_of({second: pyspy(5000, BARRIER), first: pyspy(5000, ALL_REDUCE)})
    assert [(p.round, p.state) for p in job.stacks.positions] == [(0, "in-collective"), (1, "in-barrier")]


PACKS = "pack (train.py:{}) < step (train.py:22) < <module> (train.py:32)"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (ALL_REDUCE, ALL_REDUCE, STUCK),
        (PACKS.format(9), PACKS.format(10), SLOW),
        (f"f (numpy/a.py:1) < {PACKS.format(9)}", f"g (numpy/b.py:2) < {PACKS.format(9)}", SLOW),
        (ALL_REDUCE, BARRIER, MOVING),
        (
            "forward (m.py:1) < step (train.py:22) < main (t.py:1)",
            "loss (l.py:4) < step (train.py:23) < main (t.py:1)",
            MOVING,
        ),
        ("<module> (train.py:3)", "<module> (train.py:4)", MOVING),
    ],
)
def test_two_dumps_tell_whether_a_process_moves(before: str, after: str, change: str) -> None:
    job = job_of({"rank0.1.txt": pyspy(700, before), "rank0.2.txt": pyspy(700, after)})
    [rounds] = job.stacks.by_process()
    assert change_of(rounds) == change


def test_one_dump_tells_nothing_about_moving() -> None:
    [rounds] = job_of({"rank0.txt": pyspy(700, ALL_REDUCE)}).stacks.by_process()
    assert change_of(rounds) == ""


# --- merging --------------------------------------------------------------------------------------------------------


def many(ranks: int, *, outlier: int) -> Job:
    """A stack of every rank, eight on a host; one waits for its loader, whose worker reads."""
    files: dict[str, str] = {}
    for rank in range(ranks):
        differs = rank == outlier
        text = pyspy(5000 + 10 * rank, WAITS_FOR_LOADER if differs else ALL_REDUCE)
        text += RULE + pyspy(5001 + 10 * rank, LOADER_READS if differs else LOADER_IDLE, parent=5000 + 10 * rank)
        name = f"node{rank // 8 + 1:02}.txt"
        files[name] = files.get(name, "") + f"=== rank {rank} ===\n{text}\n"
    return job_of(files)


def test_classes_name_those_that_differ_first() -> None:
    states = find_stack_states(many(64, outlier=37).stacks)
    assert [(s.ranks, s.role, s.state, s.count, s.outlier) for s in states[:2]] == [
        ((37,), "rank", "waiting-for-loader", 1, True),
        ((37,), "loader", "loading-data", 1, True),
    ]
    assert [(len(s.ranks), s.role, s.operation, s.where, s.outlier) for s in states[2:]] == [
        (63, "rank", "all_reduce", "train.py:44 step", False),
        (63, "loader", "", None, False),
    ]


def test_halves_are_no_outliers() -> None:
    files = {f"rank{rank}.txt": pyspy(700 + rank, BARRIER if rank < 2 else ALL_REDUCE) for rank in range(4)}
    assert [one.outlier for one in find_classes(job_of(files).stacks)] == [False, False]


def test_the_tree_has_every_rank_at_its_frames() -> None:
    job = many(16, outlier=5)
    [main30, main80] = sorted(find_stack_tree(job.stacks), key=lambda node: node.count)
    assert (main30.frame, main30.ranks) == ("main (train.py:30)", (5,))
    assert (main80.frame, main80.count) == ("main (train.py:80)", 15)
    root = build_tree(job.stacks.positions)
    assert len(root.members) == len(job.stacks.positions)
    assert sum(len(child.members) for child in root.children.values()) == len(root.members)


def test_processes_without_a_rank_are_named() -> None:
    [state] = find_stack_states(job_of({"node01.txt": pyspy(700, ALL_REDUCE)}).stacks)
    assert (state.ranks, state.processes) == ((), ("pid 700 on node01",))


def test_dumps_of_some_ranks_only() -> None:
    log = "".join(f"[rank{rank}]: step 10\n" for rank in range(8))
    job = job_of({"job.log": log, **{f"rank{rank}.txt": pyspy(700 + rank, ALL_REDUCE) for rank in (1, 6)}})
    assert sorted(job.stacks.last()) == [1, 6]
    assert sorted(job.ranks) == list(range(8))


# --- report and table ------------------------------------------------------------------------------------------------


def test_ranks_stand_where_their_last_dump_shows_them() -> None:
    job = job_of(
        {
            "rank0.1.txt": pyspy(700, ALL_REDUCE),
            "rank0.2.txt": pyspy(700, BARRIER),
            "rank1.1.txt": pyspy(701, WAITS_FOR_LOADER),
        }
    )
    states = find_rank_states(job, diagnose(job))
    assert [(state.rank, state.where, state.state) for state in states] == [
        (0, "train.py:90 main", "waiting"),
        (1, "train.py:30 main", "loading"),
    ]


def test_an_exception_that_ended_the_rank_is_later_than_its_stack() -> None:
    log = (
        "step 1\nTraceback (most recent call last):\n"
        '  File "/job/train.py", line 12, in validate\n    raise ValueError("x")\nValueError: x\n'
    )
    job = job_of({"rank0.log": log, "rank0.txt": pyspy(700, ALL_REDUCE)})
    [state] = find_rank_states(job, diagnose(job))
    assert state.where == "/job/train.py:12 validate"


def test_the_table_has_a_row_for_every_frame() -> None:
    table = job_of(
        {"rank3.txt": pyspy(700, ALL_REDUCE, f'"x": get (queue.py:3) < f (a.py:1) < {THREAD}')}
    ).tables.stacks
    assert len(table) == 8
    first = table.iloc[0]
    assert (first["rank"], first["pid"], first["role"], first["round"]) == (3, 700, "rank", 0)
    assert (first["function"], first["code_file"], first["code_line"], first["line"]) == ("all_reduce", C10D, 3252, 5)
    assert table[table["decides"]]["state"].unique().tolist() == ["in-collective"]
    assert table[table["thread"] == "x"]["state"].unique().tolist() == ["queue-wait"]


def test_children_of_one_spawn_have_ranks_in_the_order_of_their_ids() -> None:
    file = "torch/multiprocessing/spawn.py"
    spawn = f"join ({file}:140) < start_processes ({file}:296) < <module> (t.py:9)"
    children = [
        pyspy(pid, f"{stack} < main (t.py:2)").replace("\n\n", f"\nParent Process {parent}: python t.py\n\n", 1)
        for pid, stack, parent in ((813, ALL_REDUCE, 800), (812, BARRIER, 800), (811, ALL_REDUCE, 800))
    ]
    rule = f"\n{'-' * 80}\n"
    job = job_of({"stacks.txt": rule.join([pyspy(800, spawn), *children])})
    assert [(p.rank, p.dump.pid) for p in job.stacks.positions if p.role == "rank"] == [(0, 811), (1, 812), (2, 813)]
    assert any("guessed" in warning for warning in job.warnings)
    foreign = [child.replace("Process 800", "Process 90") for child in children]
    job = job_of({"stacks.txt": rule.join([pyspy(800, spawn), *foreign])})
    assert not any(p.rank for p in job.stacks.positions)
