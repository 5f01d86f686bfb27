"""faulthandler's dumps: fatal errors, timeouts and signals, in files of their own and in the logs of many ranks."""

from __future__ import annotations

import pytest

from stack_dumps import functions, parse, read, read_one
from test_parse_stacks_native import PY_BT, PYSTACK
from test_parse_stacks_pyspy import ONE

WORKER = """\
Thread 0x00007fe589db06c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap
"""
MAIN = """\
Current thread 0x00007fe58b01fb80 (most recent call first):
  File "/venv/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/workspace/train.py", line 28 in main
  File "/workspace/train.py", line 34 in <module>
"""
OTHER = MAIN.replace("0x00007fe58b01fb80", "0x00007f0012345678").replace("all_reduce", "barrier")


def test_a_signal() -> None:
    dump = read_one(WORKER + "\n" + MAIN)
    assert (dump.tool, dump.pid, dump.reason, dump.line.number) == ("faulthandler", None, "", 1)
    assert functions(dump) == [["wait", "_bootstrap"], ["all_reduce", "main", "<module>"]]
    assert [(t.thread, t.current) for t in dump.threads] == [
        ("0x00007fe589db06c0", False),
        ("0x00007fe58b01fb80", True),
    ]
    frame = dump.threads[1].frames[1]
    assert (frame.file, frame.line, frame.at, frame.native) == ("/workspace/train.py", 28, 7, False)


def test_timeouts_that_repeat_are_dumps_of_their_own() -> None:
    one = "Timeout (0:00:25.500000)!\n" + WORKER + "\n" + MAIN.replace("Current thread", "Thread")
    dumps = read(one * 3)
    assert [dump.reason for dump in dumps] == ["Timeout (0:00:25.500000)!"] * 3
    assert [len(dump.threads) for dump in dumps] == [2, 2, 2]
    assert [dump.line.number for dump in dumps] == [1, 10, 19]
    assert {dump.line.stream for dump in dumps} == {""}


def test_dumps_without_a_reason_repeat() -> None:
    assert [len(dump.threads) for dump in read((WORKER + "\n" + MAIN) * 3)] == [2, 2, 2]


def test_fatal_errors_are_still_events() -> None:
    text = (
        "Fatal Python error: Segmentation fault\nPython runtime state: initialized\n\n" + MAIN + "\n"
        "Extension modules: numpy.core._multiarray_umath, torch._C (total: 2)\n"
    )
    source = parse(text)
    [dump] = source.dumps
    assert (dump.reason, len(dump.threads), dump.line.number) == ("Fatal Python error: Segmentation fault", 1, 1)
    assert {"fatal_python_error", "stack_thread", "thread_dump"} <= {event.kind for event in source.events}


def test_what_a_dying_process_had_in_use_is_still_an_event() -> None:
    frame = '  File "/venv/lib/python3.11/site-packages/torch/storage.py", line 414 in _new_using_fd_cpu\n'
    head, rest = MAIN.split("\n", 1)
    fatal = f"Fatal Python error: Bus error\n\n{head}\n{frame}{rest}"
    assert "shared_memory_frame" in {event.kind for event in parse(fatal).events}
    assert len(read_one(fatal).threads[0].frames) == 4


def test_no_python_frame_and_other_marks() -> None:
    text = (
        "Current thread 0x00007f01 (most recent call first):\n  <no Python frame>\n\n"
        "Thread 0x00007f02 (most recent call first):\n  Garbage-collecting\n"
        '  File ???, line ??? in ???\n  File "a\\xe9.py", line 2 in f\n  ...\n'
    )
    first, second = read_one(text).threads
    assert (first.notes, first.frames, second.notes) == (("<no Python frame>",), (), ("Garbage-collecting",))
    assert [(frame.function, frame.file, frame.line) for frame in second.frames] == [
        ("???", None, None),
        ("f", "a\\xe9.py", 2),
    ]


def test_python_3_14() -> None:
    text = (
        "Fatal Python error: Aborted\n\n<Cannot show all threads while the GIL is disabled>\n"
        "Thread 0x00007f03 [ThreadPoolExecu] (most recent call first):\n"
        '  File "a.py", line 1 in work\n\n'
        'Current thread 0x00007f04 [python] (most recent call first):\n  File "a.py", line 9 in <module>\n\n'
        "Current thread's C stack trace (most recent call first):\n"
        '  Binary file "/usr/bin/python3", at _Py_DumpStack+0x3e [0x5581]\n'
        '  Binary file "/lib/libc.so.6", at abort+0xdf [0x7f]\n'
        '  Binary file "/lib/x.so" [0x7f01]\n  <truncated rest of calls>\n\nExtension modules: torch._C (total: 1)\n'
    )
    dump = read_one(text)
    assert [thread.name for thread in dump.threads] == ["ThreadPoolExecu", "python"]
    assert functions(dump)[1] == ["_Py_DumpStack", "abort", "0x7f01", "<module>"]
    assert [frame.native for frame in dump.threads[1].frames] == [True, True, True, False]


def test_only_the_running_thread() -> None:
    dump = read_one('Stack (most recent call first):\n  File "t.py", line 3 in f\n  File "t.py", line 9 in <module>\n')
    assert (functions(dump), dump.threads[0].current) == ([["f", "<module>"]], True)


def test_two_processes_in_one_stream_have_different_writers() -> None:
    first, second, third = read(MAIN + OTHER + MAIN)
    assert functions(second) == [["barrier", "main", "<module>"]]
    assert first.line.stream == third.line.stream != second.line.stream


def test_a_stream_of_one_rank_is_of_one_process() -> None:
    tagged = "".join(f"[default3]:{line}\n" for line in (MAIN + OTHER).splitlines())
    assert [(dump.line.stream, dump.line.local_rank) for dump in read(tagged)] == [("default3", 3)] * 2


def test_ranks_that_interleave_line_by_line() -> None:
    heads = [text.splitlines()[0] for text in (MAIN, OTHER)]
    bodies = [text.splitlines()[1:] for text in (OTHER, MAIN)]
    dumps = read("\n".join([*heads, *bodies[0], *bodies[1]]) + "\n")
    assert [functions(dump) for dump in dumps] == [
        [["all_reduce", "main", "<module>"]],
        [["barrier", "main", "<module>"]],
    ]


def test_a_module_that_is_being_imported_does_not_end_the_stack() -> None:
    text = """\
Current thread 0x00007fe58b01fb80 (most recent call first):
  File "/venv/torch/__init__.py", line 3 in <module>
  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed
  File "/workspace/train.py", line 1 in <module>
"""
    assert len(read_one(text).threads[0].frames) == 3
    assert len(read(text + OTHER)) == 2


def test_log_lines_in_between() -> None:
    text = MAIN.replace("  File", "step 3 loss 0.5\n  File", 2)
    assert functions(read_one(text)) == [["all_reduce", "main", "<module>"]]


def test_torn_dumps() -> None:
    assert functions(read_one(MAIN[: MAIN.index("line 28")])) == [["all_reduce"]]
    assert read(MAIN.split("\n", 1)[1]) == []
    assert read("Timeout (0:00:25)!\nFatal Python error: Aborted\n") == []


def test_carriage_returns() -> None:
    assert functions(read_one(MAIN.replace("\n", "\r\n"))) == [["all_reduce", "main", "<module>"]]


@pytest.mark.parametrize("dump", [MAIN, WORKER, PY_BT, PYSTACK, "~~~ Stack of M (12) ~~~\n", ONE])
def test_tracebacks_stay_tracebacks(dump: str) -> None:
    traceback = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\n    g()\nValueError: no\n'
    before, source = read(dump), parse(dump + traceback)
    [event] = [event for event in source.events if event.kind == "exception"]
    assert (event.fields["type"], event.fields["where_line"]) == ("ValueError", 3)
    assert [functions(found) for found in source.dumps] == [functions(found) for found in before]


def test_the_time_of_its_line() -> None:
    tagged = "".join(f"2026-11-29 16:14:0{n} {line}\n" for n, line in enumerate(MAIN.splitlines()))
    assert read_one(tagged).time == 1795968840.0


def test_lines_that_a_terminal_broke() -> None:
    broken = MAIN.replace("distributed_c10d.py", "distrib\nuted_c10d.py")
    frame = read_one(broken).threads[0].frames[0]
    assert (frame.function, frame.file) == ("all_reduce", "/venv/torch/distributed/distributed_c10d.py")
