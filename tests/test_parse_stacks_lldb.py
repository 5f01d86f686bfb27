"""lldb's backtraces: threads, frames with and without sources, several processes, and what only looks like them."""

from __future__ import annotations

from stack_dumps import functions, read, read_one

ABORT = """\
(lldb) process attach --pid 4242
Process 4242 stopped
* thread #1, name = 'python', stop reason = signal SIGSTOP
  * frame #0: 0x00007fb0b7f0792d libc.so.6`syscall + 29
    frame #1: 0x00007fb08faef142 libstdc++.so.6`std::__atomic_futex_unsigned_base::_M_futex_wait_until_steady\
(this=<unavailable>, __addr=0x00007fac98000b00, __has_timeout=true, __ns=(__r = 711393434)) at futex.cc:217:18
    frame #2: 0x00007fb090db1068 libtorch_cuda.so`c10d::ProcessGroupNCCL::abort() + 664
    frame #3: 0x00007fb090db1070
  thread #2, name = 'pt_nccl_watchdg'
    frame #0: 0x00007fb0b7f0792d libc.so.6`__poll(fds=0x0, nfds=1, timeout=100) at poll.c:29
(lldb) detach
"""


def test_threads_and_frames_of_a_process() -> None:
    dump = read_one(ABORT)
    assert (dump.tool, dump.pid) == ("lldb", 4242)
    assert [(thread.thread, thread.name) for thread in dump.threads] == [("1", "python"), ("2", "pt_nccl_watchdg")]
    assert functions(dump) == [
        ["syscall", "std::__atomic_futex_unsigned_base::_M_futex_wait_until_steady", "c10d::ProcessGroupNCCL::abort()"],
        ["__poll"],
    ]
    places = [(frame.file, frame.line, frame.at) for frame in dump.threads[0].frames]
    assert places == [("libc.so.6", None, 4), ("futex.cc", 217, 5), ("libtorch_cuda.so", None, 6)]
    assert all(frame.native for thread in dump.threads for frame in thread.frames)


def test_the_next_process_is_another_dump() -> None:
    dumps = read(ABORT + ABORT.replace("4242", "4243"))
    assert [dump.pid for dump in dumps] == [4242, 4243]


def test_inlined_function_counts() -> None:
    text = (
        "* thread #1\n  * frame #0: 0x00007fb0b7f0792d libnccl.so.2`foo [inlined] ncclCommPoll(comm=0x1) at init.cc:7:3"
    )
    assert functions(read_one(text)) == [["ncclCommPoll"]]


def test_words_about_threads_are_no_dump() -> None:
    assert read("thread #3 of the loader ended\n    frame #2: 0x12 lost\nProcess 7 stopped") == []
