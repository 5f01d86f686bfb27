"""Tables of processes and files of /proc: any columns, rows with blanks, and lines that only look like a table."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.model import Event, Value
from hangscope.parse.reader import read_stream

Rows = list[dict[str, Value]]


def events(text: str, name: str = "ps.txt") -> list[Event]:
    return read_stream(name, io.BytesIO(text.encode())).events


def rows(text: str, *names: str) -> list[tuple[Value, ...]]:
    return [tuple(event.fields.get(name) for name in names) for event in events(text) if event.kind == "process_state"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            (
                "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
                "me          4431  117  4.6 17517200480 24494736 ? Dl  00:36 291:14 python train.py\n"
            ),
            (4431, None, "Dl", None, "291:14", "python train.py"),
        ),
        (
            (
                "UID          PID    PPID  C STIME TTY          TIME CMD\n"
                "me          4431    4400 99 08:30 pts/0    00:10:03 python -u train.py Killed\n"
            ),
            (4431, 4400, None, None, "00:10:03", "python -u train.py Killed"),
        ),
        (
            (
                "  PID  PPID STAT WCHAN                    ELAPSED     TIME COMMAND         COMMAND\n"
                " 4431  4400 Ssl  futex_do_wait              00:22 00:00:09 pt main thread  python -u train.py\n"
            ),
            (4431, 4400, "Ssl", "futex_do_wait", "00:00:09", "pt"),
        ),
        (
            (
                "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n\n"
                "   4431 me        20   0   30.1g   1.2g 300000 D  99.9   4.0  10:03.21 python\n"
            ),
            (4431, None, "D", None, "10:03.21", "python"),
        ),
        (
            (
                "COMMAND                      STARTED S   PID  PPID WCHAN\n"
                "pt main thread Mon Nov 30 08:34:00 2026 T 4431 4400 do_signal_stop\n"
            ),
            (4431, 4400, "T", "do_signal_stop", None, "pt main thread"),
        ),
    ],
    ids=["aux", "ef", "eo", "top", "any-order"],
)
def test_row_of_any_table(table: str, expected: tuple[Value, ...]) -> None:
    (found,) = rows(table, "process", "parent", "process_state", "wchan", "cpu_time", "command")
    assert found[:5] == expected[:5]
    assert str(found[5]).startswith(str(expected[5]))


def test_threads_have_ids_of_their_own() -> None:
    table = "    PID     LWP STAT WCHAN  COMMAND\n   4431    4455 Dl   nfs4_w python\n"
    assert rows(table, "process", "thread") == [(4431, 4455)]


def test_table_ends_where_other_lines_begin() -> None:
    table = "PID PPID STAT COMMAND\n77 70 Rl python\nKilled\n88 70 Rl python\n"
    found = events(table)
    assert [event.kind for event in found] == ["process_state", "shell_signal_word"]


@pytest.mark.parametrize(
    "head",
    ["COMMAND PID TID USER FD TYPE DEVICE NAME", "PID: 4431 COMMAND", "|  GPU   GI   CI        PID   Type   COMMAND |"],
    ids=["lsof", "prose", "nvidia-smi"],
)
def test_other_tables_are_none_of_processes(head: str) -> None:
    assert rows(f"{head}\n4431 4400 Rl python x y z a b\n", "process") == []


def test_state_file_of_proc() -> None:
    text = "Name:\tpython3\nUmask:\t0022\nState:\tT (stopped)\nTgid:\t77\nNgid:\t0\nPid:\t77\nPPid:\t70\nThreads:\t9\n"
    assert rows(text, "process", "parent", "process_state") == [(77, 70, "T")]


def test_kernel_stack_names_where_a_process_is_held() -> None:
    text = "# cat /proc/77/stack\n[<0>] nfs_wait_bit_killable+0x1e/0x80 [nfs]\n[<0>] do_syscall_64+0x5c/0x90\nend\n"
    (event,) = events(text)
    assert (event.fields["process"], event.fields["wchan"]) == (77, "nfs_wait_bit_killable")
    assert event.fields["functions"] == ("nfs_wait_bit_killable", "do_syscall_64")


@given(st.lists(st.text(alphabet="PIDSTAWCHNOM %0123456789:/-.\tabc[]<>", max_size=60), max_size=12))
def test_any_rows_below_a_header_are_read_without_a_traceback(lines: list[str]) -> None:
    for head in ("PID PPID STAT COMMAND TIME", "State:\tT (stopped)", "Kernel stack of 7:", "UID PID C TIME CMD"):
        source = read_stream("ps.txt", io.BytesIO("\n".join([head, *lines]).encode()))
        assert source.record.error is None


def test_long_rows_cost_no_more_than_short_ones() -> None:
    table = "COMMAND PID STAT TIME\n" + ("x " * 30000 + "\n") * 20
    assert rows(table, "process") == []
