"""Takes the stacks of one process with py-spy, with a time limit, and never in a way that could leave it stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hangscope.errors import InputError
from hangscope.live import host, procfs
from hangscope.records import dataclass

LIMIT_S = 10.0
"""Longer than any dump takes; py-spy itself is ended then, nothing else."""

_TRIES = 3
_MOVED_ON = ("Failed to copy", "Failed to get stack traces", "Failed to merge native", "Failed to get thread")
"""What py-spy says when the process ran on while it read (only without pausing it): the next try may succeed."""

_WAITS_UNINTERRUPTIBLY = frozenset("D")
_STOPPED = frozenset("Tt")


@dataclass(frozen=True, slots=True)
class Dump:
    """What py-spy said about one process.

    Attributes:
        pid: the process.
        text: the dump; "" when it could not be taken.
        error: what py-spy said instead, else "".
        paused: whether the process stood still for it; a dump of a running process may be inconsistent.
        why_not: why it was not paused although that was wanted, else "".
    """

    pid: int
    text: str
    error: str
    paused: bool
    why_not: str = ""


def find_pyspy() -> str:
    """The program: the one installed beside hangscope, else that of PATH.

    Raises:
        InputError: there is none, or this is not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise InputError(
            f"attaching needs Linux, and this is {sys.platform}",
            "Run it on the host of the job, or analyze what was collected there: hangscope analyze PATH.",
        )
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise InputError("py-spy is not installed", "Install it beside hangscope: pip install py-spy.")
    return found


def take_dump(pyspy: str, pid: int, *, native: bool = False, nonblocking: bool = False) -> Dump:
    """The stacks of one process.

    Pausing a process means to stop it with ptrace and to let it go. One that is stopped already cannot be paused, and
    one that waits uninterruptibly would be stopped by the very attempt as soon as its wait is over; of these a dump
    is taken without pausing.
    """
    why_not = "" if nonblocking else _why_not_pause(pid)
    paused = not nonblocking and not why_not
    arguments = [pyspy, "dump", "--pid", str(pid)]
    if paused:
        done = _run([*arguments, "--native"] if native else arguments)
        return Dump(pid, procfs.hide_secrets_in_head(done[0]), done[1], paused=True)
    text, error = "", ""
    for _ in range(_TRIES):
        text, error = _run([*arguments, "--nonblocking"])
        if not error or not any(words in error for words in _MOVED_ON):
            break
    return Dump(pid, procfs.hide_secrets_in_head(text), error, paused=False, why_not=why_not)


def _why_not_pause(pid: int) -> str:
    states = {one.state for one in procfs.read_threads(pid)}
    main = procfs.read_stat(pid)
    if main is not None and main.state in _STOPPED:
        return f"it is stopped (state {main.state})"
    if states & _STOPPED:
        return "one of its threads is stopped"
    if host.is_frozen(pid):
        return "its cgroup is frozen"
    if states & _WAITS_UNINTERRUPTIBLY:
        return "it waits uninterruptibly in the kernel (state D)"
    return ""


def _run(command: list[str]) -> tuple[str, str]:
    """Standard output, and what is wrong ("" when nothing is)."""
    environment = {**os.environ, "RUST_BACKTRACE": "0", "NO_COLOR": "1"}
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return "", f"{command[0]} cannot be started: {error.strerror or error}"
    try:
        out, err = child.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        try:
            child.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            # it waits in the kernel as the process does; whoever reaps it later, we do not wait for it
            for stream in (child.stdout, child.stderr):
                if stream is not None:
                    stream.close()
        return "", f"py-spy gave no answer within {LIMIT_S:.0f} s"
    text, said = out.decode("utf-8", "replace"), err.decode("utf-8", "replace").strip()
    if child.returncode == 0:
        return text, ""
    return text, said or f"py-spy ended with status {child.returncode}"
