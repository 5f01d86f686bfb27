"""gdb and its like, pystack, and stacks that Python code prints itself."""

from __future__ import annotations

import pytest

from hangscope.model import Frame
from hangscope.parse.stacks.native import split_native
from stack_dumps import functions, read, read_one

GDB = """\
[New LWP 8169]
[Thread debugging using libthread_db enabled]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
__futex_abstimed_wait_common64 (private=0, cancel=true) at ./nptl/futex-internal.c:57
57\t./nptl/futex-internal.c: No such file or directory.
warning: File "/usr/bin/python3.11-gdb.py" auto-loading has been declined by your setting.

Thread 2 (Thread 0x7f323e0276c0 (LWP 22782) "pt_gloo_runloop"):
#0  __futex_wait (private=..., op=..., futex_word=...) at ./nptl/futex-internal.c:57
#1  0x00007f in gloo::(anonymous namespace)::allreduce(gloo::Opts const&, std::function<void (int)>) ()
   from target:/venv/lib/libtorch_cpu.so
#2  <signal handler called>
#3  0x00007f in ?? () from /lib/x86_64-linux-gnu/libstdc++.so.6
Backtrace stopped: previous frame inner to this frame (corrupt stack?)

Thread 1 (Thread 0x7f325e5ccb80 (LWP 22750) "python3"):
#0  0x00007f in c10d::Work::wait(std::chrono::duration<long, std::ratio<1l> >) () from /venv/lib/libtorch_cpu.so
#1  _PyEval_EvalFrameDefault (f=Frame 0x55d0, for file /workspace/train.py, line 16, in reduce_grads (x=")"))
    at Python/ceval.c:4769
(More stack frames follow...)
[Inferior 1 (process 22750) detached]
"""
PY_BT = """\
Traceback (most recent call first):
  Waiting for the GIL
  <built-in method wait of Work object at remote 0x7f3241be89b0>
  File "/venv/torch/distributed/distributed_c10d.py", line 3252, in all_reduce
    work.wait()
  File "/workspace/train.py", line 51, in <module>
    main()
"""
PYSTACK = """\
Traceback for thread 8170 (pt_data (pin)) [Waiting for the GIL,Garbage collecting] (most recent call last):
    (Python) File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap
        self._bootstrap_inner()
    (Python) File "/workspace/train.py", line 6, in worker

The frame stack for thread 8171 is empty

Traceback for thread 8167 (python) [Has the GIL] (most recent call last):
    (C) File "???", line 0, in _start (/usr/bin/python3.11)
    (Python) File "/workspace/train.py", line 10, in <module>
        main()
      Arguments:
        rank: 3
      Locals:
        step: 17
    (Python) File "/venv/torch/distributed/distributed_c10d.py", line 3252, in all_reduce
        work.wait()
    (C) File "Modules/main.c", line 710, in c10d::Work::wait(std::ratio<1l, 2l> >) (inlined) (/venv/lib/libtorch_cpu.so)
* - Unable to merge native stack due to insufficient native information - *
"""


def test_all_threads_of_gdb() -> None:
    dump = read_one(GDB)
    assert (dump.tool, dump.pid, dump.line.pid, dump.line.number) == ("gdb", 22750, 22750, 8)
    assert [(t.thread, t.name) for t in dump.threads] == [("22782", "pt_gloo_runloop"), ("22750", "python3")]
    gloo, main = (thread.frames for thread in dump.threads)
    assert [frame.function for frame in gloo] == [
        "__futex_wait",
        "gloo::(anonymous namespace)::allreduce(gloo::Opts const&, std::function<void (int)>)",
        "<signal handler called>",
        "??",
    ]
    assert (gloo[0].file, gloo[0].line) == ("./nptl/futex-internal.c", 57)
    assert (gloo[1].file, gloo[1].line, gloo[1].native) == ("/venv/lib/libtorch_cpu.so", None, True)
    assert (main[1].function, main[1].file, main[1].line) == ("_PyEval_EvalFrameDefault", "Python/ceval.c", 4769)
    assert (main[2].function, main[2].file, main[2].line, main[2].native) == (
        "reduce_grads",
        "/workspace/train.py",
        16,
        False,
    )


def test_one_session_after_another() -> None:
    bt = "#0  0x00007f in poll () from /lib/libc.so.6\n" * 2 + "#1  0x01 in main ()\n"
    session = bt + PY_BT + "[Inferior 1 (process {}) detached]\n"
    dumps = read(session.format(11) + session.format(12))
    assert [(dump.tool, dump.pid) for dump in dumps] == [("gdb", 11), ("py-bt", 11), ("gdb", 12), ("py-bt", 12)]
    assert [len(thread.frames) for thread in dumps[0].threads] == [2]


def test_a_header_holds_for_the_whole_session() -> None:
    noise = "".join(f"[New LWP {number}]\n" for number in range(30))
    session = GDB.replace("[Inferior", PY_BT + "[Inferior")
    dumps = read(f"=== rank 3 (node02) ===\n{noise}{session}\n=== rank 4 (node03) ===\n{noise}{session}")
    assert [(dump.tool, dump.line.rank, dump.line.host) for dump in dumps] == [
        ("gdb", 3, "node02"),
        ("py-bt", 3, "node02"),
        ("gdb", 4, "node03"),
        ("py-bt", 4, "node03"),
    ]


def test_py_bt() -> None:
    dump = read_one(PY_BT)
    [thread] = dump.threads
    assert (dump.tool, thread.notes) == ("py-bt", ("Waiting for the GIL",))
    assert [(f.function, f.line, f.native, f.source) for f in thread.frames] == [
        ("<built-in method wait>", None, True, ""),
        ("all_reduce", 3252, False, "work.wait()"),
        ("<module>", 51, False, "main()"),
    ]


def test_py_bt_of_all_threads() -> None:
    text = (
        '\nThread 2 (Thread 0x7f01 (LWP 12) "pt_data_pin"):\n'
        'Traceback (most recent call first):\n  File "q.py", line 3, in get\n    x()\n'
        '\nThread 1 (Thread 0x7f02 (LWP 11) "python"):\n'
        'Traceback (most recent call first):\n  File "t.py", line 9, in <module>\n'
    )
    dump = read_one(text)
    assert (dump.tool, dump.pid, functions(dump)) == ("py-bt", 11, [["get"], ["<module>"]])
    assert [thread.name for thread in dump.threads] == ["pt_data_pin", "python"]


def test_other_heads_of_threads() -> None:
    old = "Thread 13 (Thread 0x7f04fc93f700 (LWP 135326)):\n#0  0x00007f in ?? () from /usr/lib/libcuda.so\n"
    assert [(t.thread, t.name) for t in read_one(old).threads] == [("135326", "")]
    lwp = 'Thread 1 (LWP 7 "python"):\n#0  0x00007f in read () from /lib/libc.so.6\n'
    assert [(t.thread, t.name) for t in read_one(lwp).threads] == [("7", "python")]


def test_eu_stack() -> None:
    text = (
        "PID 4711 - process\nTID 4711:\n#0  0x00007fb2f8e0f4fd __poll - /usr/lib64/libc.so.6\n"
        "#1  0x0000563e main\n"
        "TID 4712:\n#0  0x00007fb2f8e0f4fd epoll_wait\n    ../sysdeps/epoll_wait.c:30:10\n"
    )
    dump = read_one(text)
    assert (dump.pid, [t.thread for t in dump.threads]) == (4711, ["4711", "4712"])
    assert functions(dump) == [["__poll", "main"], ["epoll_wait"]]
    assert dump.threads[0].frames[0].file == "/usr/lib64/libc.so.6"
    assert (dump.threads[1].frames[0].file, dump.threads[1].frames[0].line) == ("../sysdeps/epoll_wait.c", 30)


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        (
            "$ gdb -p 99 -batch\nCould not attach to process.  If your uid\nptrace: Operation not permitted.\n",
            99,
        ),
        ("warning: process 812 is already traced by process 7\nptrace: Operation not permitted.\n", 812),
    ],
)
def test_gdb_refused(text: str, pid: int) -> None:
    dump = read_one(text)
    assert (dump.tool, dump.pid, dump.threads) == ("gdb", pid, [])
    assert dump.error.endswith("ptrace: Operation not permitted.")


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (
            "0x7f in ncclKernel<<<(16,1,1),(512,1,1)>>> (args=...) at a.cu:3",
            Frame("ncclKernel<<<(16,1,1),(512,1,1)>>>", "a.cu", 3, native=True),
        ),
        ("main (argc=1, argv=0x7f) at /src/main.c:12", Frame("main", "/src/main.c", 12, native=True)),
        ("0x00007f in ?? ()", Frame("??", native=True)),
        ("f(int) (x=<optimized out>", Frame("f(int)", native=True)),
    ],
)
def test_native_frames(text: str, frame: Frame) -> None:
    assert split_native(text) == frame


def test_pystack() -> None:
    dump = read_one(PYSTACK)
    assert (dump.tool, dump.pid, dump.values) == ("pystack", 8167, {"rank": "3", "step": "17"})
    pin, empty, main = dump.threads
    assert (pin.name, pin.gil, pin.notes) == ("pt_data (pin)", False, ("Waiting for the GIL", "Garbage collecting"))
    assert [frame.function for frame in pin.frames] == ["worker", "_bootstrap"]
    assert (empty.thread, empty.frames, main.gil) == ("8171", (), True)
    assert [frame.function for frame in main.frames] == [
        "c10d::Work::wait(std::ratio<1l, 2l> >)",
        "all_reduce",
        "<module>",
        "_start",
    ]
    assert (main.frames[1].source, main.frames[2].source) == ("work.wait()", "main()")
    assert (main.frames[3].file, main.frames[3].line, main.frames[3].native) == ("/usr/bin/python3.11", None, True)


def test_pystack_of_two_processes() -> None:
    dumps = read(PYSTACK + "\n" + PYSTACK.replace("8167", "8267"))
    assert [(dump.pid, len(dump.threads)) for dump in dumps] == [(8167, 3), (8267, 3)]


def test_pystack_of_a_core() -> None:
    text = (
        "Using executable found in the core file: /usr/bin/python3\n\nCore file information:\n"
        "state: t zombie: True niceness: 0\npid: 570 ppid: 1 sid: 1\nuid: 0 gid: 0 pgrp: 570\n"
        "executable: python3.8 arguments: python3.8 train.py\n\nThe process died due to receiving signal SIGBUS\n"
        + PYSTACK
    )
    dump = read_one(text)
    assert (dump.pid, dump.parent_pid, dump.command) == (570, 1, "python3.8 train.py")
    assert dump.reason == "The process died due to receiving signal SIGBUS"


def test_pystack_refused() -> None:
    dump = read_one("$ pystack remote 812\n\U0001f480 Engine error: Operation not permitted \U0001f480\n")
    assert (dump.tool, dump.pid, dump.error) == ("pystack", 812, "Engine error: Operation not permitted")


def test_pytest_timeout() -> None:
    text = """\
+++++++++++++++++++++++++++++++++++ Timeout ++++++++++++++++++++++++++++++++++++
~~~~~~~~~~~~~~~~~ Stack of MainThread (140003) ~~~~~~~~~~~~~~~~~
  File "t.py", line 9, in <module>
    main()
  File "t.py", line 3, in main
    lock.acquire()
    ~~~~~~~~~~~~^^
~~~~~~~~~~~~~~~~~ Stack of Thread-1 (run) (140009) ~~~~~~~~~~~~~~~~~
  File "q.py", line 4, in run
+++++++++++++++++++++++++++++++++++ Timeout ++++++++++++++++++++++++++++++++++++
"""
    dump = read_one(text)
    assert [(t.thread, t.name) for t in dump.threads] == [("140003", "MainThread"), ("140009", "Thread-1 (run)")]
    assert functions(dump) == [["main", "<module>"], ["run"]]
    assert dump.threads[0].frames[0].source == "lock.acquire()"


def test_the_recipe_over_current_frames() -> None:
    text = (
        '# Thread: MainThread(140003)\nFile: "t.py", line 9, in <module>\n  main()\n'
        'File: "t.py", line 3, in main\n  wait()\n'
    )
    dump = read_one(text)
    assert (dump.threads[0].name, functions(dump)) == ("MainThread", [["main", "<module>"]])
