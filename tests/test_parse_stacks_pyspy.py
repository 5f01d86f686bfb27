"""py-spy's text, in all versions, options and wrappings, and its failures."""

from __future__ import annotations

import pytest

from hangscope.model import Frame
from stack_dumps import functions, parse, read, read_one

ONE = """\
Process 4822: /venv/bin/python3 -u train.py --local_rank=3
Python v3.11.7 (/usr/local/bin/python3.11)

Thread 4822 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    _exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)
    main (train.py:28)
    <module> (train.py:34)
Thread 4901 (active+gil): "loader (1)"
    fetch (train.py)
    Thread._bootstrap (threading.py:1002)
Thread 4079 (active)
"""
OTHER = ONE.replace("4822", "4823").replace("4901", "4902").replace("4079", "4080").replace("=3", "=4")
OLD = """\
Thread 0x7F4AA36D9700 (active)
\t wait (threading.py:296)
\t get (queue.py:170)
Thread 0x7F4AA6A8D740 (idle)
\t main (train.py:9)
"""


def test_head_threads_and_frames() -> None:
    dump = read_one(ONE)
    assert (dump.tool, dump.pid, dump.line.pid, dump.line.number) == ("py-spy", 4822, 4822, 1)
    assert dump.command == "/venv/bin/python3 -u train.py --local_rank=3"
    assert (dump.python, dump.parent_pid, dump.error) == ("3.11.7", None, "")
    main, loader, nameless = dump.threads
    assert (main.thread, main.name, main.activity, main.gil) == ("4822", "MainThread", "idle", False)
    assert main.frames[0] == Frame("all_reduce", "torch/distributed/distributed_c10d.py", 3252, at=5)
    assert [frame.function for frame in main.frames][1:] == ["_exception_logger.<locals>.wrapper", "main", "<module>"]
    assert (loader.name, loader.activity, loader.gil) == ("loader (1)", "active", True)
    assert loader.frames[0] == Frame("fetch", "train.py", None, at=10)
    assert (nameless.thread, nameless.name, nameless.frames, nameless.line.number) == ("4079", "", (), 12)


def test_each_process_has_its_own_writer() -> None:
    source = parse(ONE + "\n" + OTHER)
    assert [dump.pid for dump in source.dumps] == [4822, 4823]
    assert {writer.key.pid for writer in source.writers} >= {4822, 4823}
    by_pid = {writer.key.pid: writer.lines for writer in source.writers}
    assert by_pid[4823] >= 10


def test_frames_are_not_taken_for_log_lines_and_heads_are_events() -> None:
    native = "    Error: No space left on device (libc.so.6)\n"
    events = parse(ONE + native).events
    assert {event.kind for event in events} == {"stack_thread", "thread_dump"}
    assert {event.line.pid for event in events} == {4822}


@pytest.mark.parametrize(
    "prefix",
    [
        "[default3]:",
        "3: ",
        "node01: ",
        "[pod/trainer-0/main] ",
        "2026-11-29 16:14:00 ",
        "[1,3]<stderr>:",
        "w<3> 16:14:07| ",
    ],
)
def test_prefixes_come_off(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in (ONE * 2).splitlines())
    dumps = read(text)
    assert [functions(dump)[0][0] for dump in dumps] == ["all_reduce", "all_reduce"]
    assert {dump.pid for dump in dumps} == {4822}


def test_two_ranks_interleave_behind_prefixes() -> None:
    pairs = zip(ONE.splitlines(), OTHER.splitlines(), strict=True)
    text = "".join(f"[default0]:{left}\n[default1]:{right}\n" for left, right in pairs)
    first, second = read(text)
    assert (first.pid, first.line.local_rank, second.pid, second.line.local_rank) == (4822, 0, 4823, 1)
    assert functions(first) == functions(second)


def test_carriage_returns_and_colours() -> None:
    coloured = (
        "Process \x1b[33m\x1b[1m77\x1b[0m: python3 -u t.py\r\n"
        "Python v\x1b[1m3.13.0rc1+\x1b[0m (\x1b[2m/usr/bin/python3\x1b[0m)\r\n\r\n"
        'Thread \x1b[33m\x1b[1m77\x1b[0m (idle): "MainThread"\r\n'
        "    \x1b[32mall_reduce\x1b[0m (\x1b[36mdistributed_c10d.py\x1b[0m:\x1b[2m3252\x1b[0m)\r\n"
    )
    dump = read_one(coloured)
    assert (dump.pid, dump.python) == (77, "3.13.0rc1+")
    assert dump.threads[0].frames == (Frame("all_reduce", "distributed_c10d.py", 3252, at=5),)


def test_native_frames() -> None:
    name = (
        "pybind11::cpp_function::initialize<"
        + "std::vector<(anonymous namespace)::T (*)(int)>, " * 90
        + "{lambda(int)#1}>"
    )
    text = (
        'Process 9: python t.py\nPython v3.9.1 (/usr/bin/python3.9)\n\nThread 9 (active): "MainThread"\n'
        f"    0x7fa1ece9af16 (libc.so.6)\n    {name} (libtorch_python.so)\n"
        "    c10d::TCPStore::doWait (TCPStore.cpp:301)\n"
        "    sync (libcuda.so.535.104:?)\n    ncclLaunch (libnccl.so.2)\n"
        "    f (/data/my runs (old)/t.py:7)\n    g (t.py:8)\n"
        "    <module> (torchrun:8)\n    _find_and_load (<frozen importlib._bootstrap>:1027)\n"
        "    Py_BytesMain (python3.9)\n"
    )
    frames = read_one(text).threads[0].frames
    assert len(name) > 4000
    assert [frame.native for frame in frames] == [True] * 5 + [False] * 4 + [True]
    assert frames[0].file == "libc.so.6"
    assert (frames[1].file, name.startswith(frames[1].function), len(frames[1].function)) == (
        "libtorch_python.so",
        True,
        500,
    )
    assert (frames[2].file, frames[2].line) == ("TCPStore.cpp", 301)
    assert (frames[3].file, frames[3].line) == ("libcuda.so.535.104", None)
    assert (frames[5].function, frames[5].file, frames[5].line) == ("f", "/data/my runs (old)/t.py", 7)
    assert (frames[7].file, frames[7].line) == ("torchrun", 8)


def test_locals_that_name_the_rank() -> None:
    text = """\
Process 30566: python train.py
Python v3.11.7 (/usr/local/bin/python3.11)

Thread 30566 (idle): "MainThread"
    broadcast (torch/distributed/distributed_c10d.py:3252)
        Arguments:
            src: 2
            group: <ProcessGroup at 0x7f061672de70>
        Locals:
            rank: 1
            text: "a (b.py:3)"
    main (train.py:35)
        Arguments:
            rank: 5
            src: 7
            local_rank: ?
        Locals:
            loader: <DataLoader at 0x7f05f82b7150>
            step: 12
    <module> (train.py:40)
"""
    dump = read_one(text)
    assert functions(dump) == [["broadcast", "main", "<module>"]]
    assert dump.values == {"src": "2", "group": "<ProcessGroup at 0x7f061672de70>", "rank": "5", "step": "12"}


def test_children_of_subprocesses_do_not_take_the_rank_of_the_file() -> None:
    child = ONE.replace("4822", "4990").replace("\n\n", "\nParent Process 4822: python3 -u train.py\n\n", 1)
    parent, worker = read(ONE + "\n" + "-" * 80 + "\n" + child, "rank3.txt")
    assert (parent.pid, parent.line.rank, parent.line.rank_source) == (4822, 3, "file-name")
    assert (worker.pid, worker.parent_pid, worker.line.rank) == (4990, 4822, None)
    assert len(worker.threads) == 3


def test_old_versions() -> None:
    dump = read_one(OLD)
    assert (dump.pid, dump.command) == (None, "")
    assert functions(dump) == [["wait", "get"], ["main"]]
    assert (dump.threads[0].thread, dump.threads[0].frames[0].line) == ("0x7F4AA36D9700", 296)


def test_without_heads_the_main_thread_begins_a_process() -> None:
    body = ONE.split("\n\n")[1]
    first, second = read(body + "\n" + body.replace("4822", "4823"))
    assert (first.pid, second.pid) == (4822, 4823)
    assert len(first.threads) == len(second.threads) == 3


def test_folded_stacks_are_those_of_all() -> None:
    text = (
        'Thread 11 (active): "MainThread"\nThread 12 (active): "MainThread"\n    recv (d.py:1)\n    <module> (t.py:2)\n'
    )
    dumps = read(text)
    assert [(dump.pid, functions(dump)) for dump in dumps] == [
        (11, [["recv", "<module>"]]),
        (12, [["recv", "<module>"]]),
    ]


NO_SUCH_PROCESS = """\
$ py-spy dump --pid 812
Error: Failed to get process executable name. Check that the process is running.

Caused by:
    0: No such file or directory (os error 2)

Stack backtrace:
   0: <E as anyhow>::ext
   1: py_spy::main
             at /src/main.rs:3
"""
NO_EXECUTABLE = "Error: Failed to get process executable name. Check that the process is running."
NOT_ALLOWED = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'"
NO_PYTHON = "Error: Failed to find python version from target process"
STOPPED = "Process 280058: python train.py\nError: Failed to suspend process\nReason: EPERM: Operation not permitted\n"


@pytest.mark.parametrize(
    ("text", "pid", "error"),
    [
        (NO_SUCH_PROCESS, 812, f"{NO_EXECUTABLE}; 0: No such file or directory (os error 2)"),
        (STOPPED, 280058, "Error: Failed to suspend process; Reason: EPERM: Operation not permitted"),
        (f"=== pid 31 ===\n{NOT_ALLOWED}\n", 31, NOT_ALLOWED),
        (f"{NO_PYTHON}\n", None, NO_PYTHON),
    ],
)
def test_failures(text: str, pid: int | None, error: str) -> None:
    dump = read_one(text)
    assert (dump.tool, dump.pid, dump.threads, dump.error) == ("py-spy", pid, [], error)


def test_failures_one_after_another() -> None:
    assert [dump.error for dump in read(f"{NO_EXECUTABLE}\n{NO_PYTHON}\n{STOPPED}")] == [
        NO_EXECUTABLE,
        NO_PYTHON,
        "Error: Failed to suspend process; Reason: EPERM: Operation not permitted",
    ]


def test_a_dump_that_breaks_off() -> None:
    dump = read_one(ONE.replace("Thread 4901", "Error: Failed to copy PyFrameObject\nThread 4901"))
    assert dump.error == "Error: Failed to copy PyFrameObject"
    assert [len(thread.frames) for thread in dump.threads] == [4, 2, 0]


def test_torn_dumps() -> None:
    assert functions(read_one(ONE[: ONE.index(":83)")])) == [["all_reduce"]]
    [dump] = read(ONE[ONE.index("    main (") :])
    assert [thread.thread for thread in dump.threads] == ["4901", "4079"]
    assert read("Process 12: done\nstep 3\n") == []
    assert read("    main (train.py:3)\nThread pool (active: 4 of 8)\nError: Failed to load checkpoint\n") == []


def test_log_lines_between_the_frames_stay_log_lines() -> None:
    text = ONE.replace("    main (train.py:28)\n", "RuntimeError: NCCL went away\n    main (train.py:28)\n")
    source = parse(text)
    assert [len(thread.frames) for thread in source.dumps[0].threads] == [4, 2, 0]
    assert "exception" in {event.kind for event in source.events}


def test_lines_that_a_terminal_broke() -> None:
    text = ONE.replace("c10d_logger.py:83)", "c10d_log\nger.py:83)").replace("train.py --local", "tra\nin.py --local")
    dump = read_one(text)
    assert dump.pid == 4822
    frame = dump.threads[0].frames[1]
    assert (frame.function, frame.file) == ("_exception_logger.<locals>.wrapper", "torch/distributed/c10d_logger.py")


@pytest.mark.parametrize("indent", ["  ", "    ", "> ", "\t"])
def test_pasted_as_a_block(indent: str) -> None:
    pasted = "".join(f"{indent}{line}\n" for line in ONE.splitlines())
    first, second = read(f"{pasted}\n{OTHER}")
    assert (first.pid, second.pid) == (4822, 4823)
    assert functions(first) == functions(second)


def test_a_head_long_ago_is_not_the_head() -> None:
    dump = read_one("Process 12: done\n" + "step\n" * 9 + ONE.split("\n\n")[1])
    assert dump.pid == 4822


def test_a_child_that_is_no_python_is_no_dump_of_its_parent() -> None:
    failure = "Error: Failed to find python version from target process\n\nStack backtrace:\n   0: py_spy::dump\n"
    parent, after = read(f"{ONE}\n{'-' * 80}\n{failure}\n{'-' * 80}\n{OTHER}")
    assert (parent.pid, parent.error, after.pid, after.error) == (4822, "", 4823, "")
    assert len(parent.threads) == len(after.threads) == 3


def test_a_process_of_more_threads_than_are_kept_ends_where_the_next_begins() -> None:
    pool = "".join(f'Thread {9000 + at} (idle): "pool-{at}"\n    run (worker.py:3)\n' for at in range(2_500))
    main = 'Thread {} (idle): "MainThread"\n    main (train.py:9)\n'
    dumps = read(main.format(101) + pool + main.format(102))
    assert [dump.pid for dump in dumps] == [101, 102]
    assert [len(dump.threads) for dump in dumps] == [2_000, 1]
