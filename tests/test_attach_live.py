"""The parts of attach on made-up input: /proc of other machines, what refusals say, sockets, watching."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.errors import InputError
from hangscope.live import bundle, capture, host, procfs, pyspy, ras, refusal, sockets, watch
from hangscope.live.bundle import HostBundle
from hangscope.live.choose import find_jobs
from hangscope.live.processes import look_around
from hangscope.live.tails import safe_name
from hangscope.live.targets import LiveJob, Target

MakeProcess = Callable[..., Path]
EXE = "/usr/bin/python3.11"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /proc."""
    folder = tmp_path / "proc"
    folder.mkdir()
    monkeypatch.setattr(procfs, "PROC", folder)
    return folder


@pytest.fixture
def process(proc: Path) -> MakeProcess:
    """Adds a process to it."""

    def make(
        pid: int,
        parent: int = 1,
        environment: dict[str, str] | None = None,
        command: str = "python train.py",
        *,
        exe: str | None = EXE,
        state: str = "S",
        cpu_s: int = 1,
        started: int = 100,
        libraries: str = "",
    ) -> Path:
        folder = proc / str(pid)
        folder.mkdir()
        ticks = procfs._TICKS_S
        stat = f"{state} {parent} {pid} {pid} 0 -1 0 0 0 0 0 {cpu_s * ticks} 0 0 0 20 0 2 0 {started * ticks} 0 0"
        (folder / "stat").write_text(f"{pid} (py (a) b) {stat}\n")
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        pairs = [f"{name}={value}" for name, value in (environment or {}).items()]
        (folder / "environ").write_bytes("\0".join([*pairs, ""]).encode())
        (folder / "maps").write_text(libraries)
        if exe:
            (folder / "exe").symlink_to(exe)
        return folder

    return make


def _env(rank: int, world: int = 2, local: int | None = None, port: int = 29500) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank if local is None else local),
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": str(port),
    }


def _found() -> list[tuple[str, list[tuple[int, str, int | None]]]]:
    return [(job.name, [(t.pid, t.role, t.rank) for t in job.targets]) for job in look_around().jobs]


# --- processes ------------------------------------------------------------------------------------------


def test_name_of_a_process_may_hold_anything(process: MakeProcess) -> None:
    process(7)
    found = procfs.read_stat(7)
    assert found is not None
    assert (found.name, found.state, found.parent, found.cpu_s, found.started, found.threads) == (
        "py (a) b",
        "S",
        1,
        1,
        100,
        2,
    )


@given(st.binary(max_size=300))
def test_any_stat_is_read_or_left(data: bytes) -> None:
    found = procfs._parse_stat(data.decode("utf-8", "replace"))
    assert found is None or found.pid >= 0


def test_shells_between_launcher_and_rank_do_not_part_them(process: MakeProcess) -> None:
    process(10, command="python /venv/bin/torchrun train.py")
    process(11, 10, _env(0), "bash run.sh", exe="/bin/bash")
    process(12, 11, _env(0))
    process(13, 12, _env(0), "python -c from multiprocessing.spawn import spawn_main --multiprocessing-fork")
    process(14, 10, _env(1))
    assert _found() == [
        ("10.0.0.1:29500", [(10, "launcher", None), (12, "rank", 0), (13, "child", 0), (14, "rank", 1)])
    ]


def test_a_child_that_outlived_its_rank_is_no_second_one(process: MakeProcess) -> None:
    process(10, command="python -m torch.distributed.run train.py")
    process(9, 1, _env(0), started=50)
    process(12, 10, _env(0), started=90)
    assert _found() == [("10.0.0.1:29500", [(10, "launcher", None), (12, "rank", 0)])]


@pytest.mark.parametrize(
    ("environment", "rank", "world"),
    [
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, 3, 8),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_JOB_ID": "77"}, 5, 16),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2),
    ],
)
def test_tasks_of_schedulers_are_ranks_if_they_train(
    process: MakeProcess, environment: dict[str, str], rank: int, world: int
) -> None:
    process(10, 1, environment, "python notebook.py")
    assert _found() == []
    process(11, 1, environment, libraries="7f00-7f01 r-xp 0 0:0 1 /venv/torch/lib/libtorch_cpu.so\n")
    (job,) = look_around().jobs
    assert [(t.pid, t.rank, t.world_size) for t in job.targets] == [(11, rank, world)]


def test_torchrun_under_slurm_is_the_launcher_of_its_node(process: MakeProcess) -> None:
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "77"}
    process(10, 1, slurm, "python torchrun train.py", libraries="0-1 r 0 0:0 1 /v/libtorch_cpu.so\n")
    process(11, 10, {**slurm, **_env(4, 8, 0)})
    assert _found() == [("10.0.0.1:29500", [(10, "launcher", None), (11, "rank", 4)])]


def test_what_is_no_python_or_gone_is_no_rank(process: MakeProcess) -> None:
    process(10, 1, _env(0), "sleep 9", exe="/bin/sleep")
    process(11, 1, _env(1), state="Z")
    assert _found() == []


def test_a_process_that_runs_no_python_is_refused_with_a_reason(process: MakeProcess) -> None:
    process(10, command="bash -l", exe="/bin/bash")
    process(11, command="python train.py")
    with pytest.raises(InputError, match=r"process 10 \(bash -l\) runs no Python") as nothing:
        find_jobs((10,))
    assert "11 (python train.py" in nothing.value.advice
    process(12, 10, command="python train.py")
    assert [job.name for job in find_jobs((10,))] == ["pid 10"]


def test_our_own_line_is_left_out(process: MakeProcess) -> None:
    """A shell in the container of a job has the environment of the job."""
    process(5, 1, _env(0), "bash", exe="/bin/bash")
    process(6, 5, _env(0), "python wrapper.py")
    process(os.getpid(), 6, _env(0), "python hangscope attach")
    assert _found() == []


def test_no_job_names_candidates(process: MakeProcess) -> None:
    process(10, command="python serve.py --password hush", cpu_s=900)
    process(11, command="python idle.py", cpu_s=2)
    with pytest.raises(InputError, match="no training process was found on this host") as nothing:
        find_jobs()
    assert "Python processes here: 10 (python serve.py --password ***; 900 s of CPU time); 11 (" in nothing.value.advice
    assert "--pid PID" in nothing.value.advice


def test_workers_of_another_user_are_found_by_their_launcher(
    process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(10, command="python torchrun train.py", exe=None)
    process(11, 10, exe=None)
    process(12, 10, exe=None)
    process(20, command="python other.py", exe=None)

    def refuse(pid: int) -> dict[str, str]:
        raise PermissionError(13, "Permission denied", str(pid))

    monkeypatch.setattr(procfs, "environment_of", refuse)
    assert _found() == [("pid 11", [(10, "launcher", None), (11, "rank", None), (12, "rank", None)])]
    assert [one.pid for one in look_around().refused] == [20]


def test_workers_that_wrote_a_title_over_their_environment_are_found(process: MakeProcess) -> None:
    process(10, command="python torchrun train.py")
    process(11, 10, command="llama-70b: step 12")
    process(12, 10, command="python -c from multiprocessing.resource_tracker import main")
    assert _found() == [("pid 11", [(10, "launcher", None), (11, "rank", None)])]


def test_workers_of_servers_are_found_by_their_titles(process: MakeProcess) -> None:
    process(20, command="python -m vllm serve")
    process(21, 20, command="VLLM::Worker_TP0")
    process(22, 20, command="VLLM::Worker_TP1")
    process(23, command="ray::IDLE")
    assert _found() == [("pid 21", [(21, "rank", None), (22, "rank", None)])]


def test_helpers_of_a_launcher_are_no_ranks_beside_true_ones(process: MakeProcess) -> None:
    process(10, command="python torchrun train.py")
    process(11, 10, _env(0))
    process(12, 10, command="python uploader.py")
    assert _found() == [("10.0.0.1:29500", [(10, "launcher", None), (11, "rank", 0)])]


def test_nothing_but_refusals_say_why(process: MakeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    process(20, command="python other.py", exe=None)
    monkeypatch.setattr(procfs, "environment_of", lambda _: (_ for _ in ()).throw(PermissionError()))
    monkeypatch.setattr(procfs, "user_of", lambda _: 1001)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError) as nothing:
        find_jobs()
    assert "1 Python process may not be looked into, such as 20 (python other.py): it belongs to user 1001" in (
        nothing.value.advice
    )


# --- refusals -------------------------------------------------------------------------------------------

NO_EXECUTABLE = "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n"
NO_CAPABILITIES, ALL = "CapEff:\t0000000000000000\n", "CapEff:\t000001ffffffffff\n"


@pytest.fixture
def machine(proc: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_up(own: int, owner: int, capabilities: str, scope: str | None = None, *, pod: bool = False) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: own)
        monkeypatch.setattr(procfs, "user_of", lambda _: owner)
        (proc / "self").mkdir()
        (proc / "self" / "status").write_text(capabilities)
        if scope is not None:
            (proc / "sys/kernel/yama").mkdir(parents=True)
            (proc / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr(refusal, "_MARKS", ())
        if pod:
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

    return set_up


@pytest.mark.parametrize(
    ("own", "owner", "capabilities", "scope", "pod", "words"),
    [
        (1000, 1001, NO_CAPABILITIES, "1", False, "belongs to user 1001, and hangscope runs as user 1000"),
        (1000, 1000, NO_CAPABILITIES, "1", False, "ptrace_scope is 1, so only a parent may look at its children"),
        (1000, 1000, NO_CAPABILITIES, "2", False, "ptrace_scope is 2, so only root may trace: run hangscope with sudo"),
        (0, 0, ALL, "3", False, "ptrace_scope is 3, which forbids tracing"),
        (1000, 1000, NO_CAPABILITIES, "0", False, "the kernel refuses to trace it"),
        (1000, 1000, NO_CAPABILITIES, None, False, "run hangscope with sudo"),
        (0, 1000, NO_CAPABILITIES, "1", False, "root lacks the capability SYS_PTRACE"),
        (0, 0, NO_CAPABILITIES, "1", True, "securityContext: {capabilities: {add: [SYS_PTRACE]}}"),
        (0, 0, NO_CAPABILITIES, "1", True, "--cap-add=SYS_PTRACE"),
        (0, 0, ALL, "1", True, "a security module or another debugger"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(  # noqa: PLR0917  (a column each of the table above)
    machine: Callable[..., None], own: int, owner: int, capabilities: str, scope: str | None, pod: bool, words: str
) -> None:
    machine(own, owner, capabilities, scope, pod=pod)
    assert words in refusal.explain_refusal(7)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ("Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'", True),
        (
            f"{NO_EXECUTABLE}    0: Permission denied (os error 13)",
            True,
        ),
        (
            f"{NO_EXECUTABLE}    0: No such file or directory (os error 2)",
            False,
        ),
        ("Error: Failed to find python version from target process", False),
        ("Error: Failed to suspend process\n\nCaused by:\n    EPERM: Operation not permitted", True),
    ],
)
def test_refusals_of_pyspy_are_known(error: str, refused: bool) -> None:
    assert refusal.is_refusal(error) == refused


def test_ranks_refused_for_one_reason_are_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = tuple(
        Target(os.getpid(), 1, "rank", rank, rank, 6, os.getpid() + rank, "python train.py", python=True, started=1.0)
        for rank in range(6)
    )
    monkeypatch.setattr(procfs, "user_of", lambda _: 1001)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    looking = capture._Capture(
        LiveJob("job", targets), HostBundle(tmp_path), "py-spy", capture.Options(), capture.say_nothing
    )
    for target in targets:
        looking._note_dump(target, pyspy.Dump(target.pid, "", "Permission Denied: Try running", paused=True), 1)
    (line,) = looking._troubles()
    pid = os.getpid()
    assert line.startswith(f"hangscope attach: not complete: stacks of rank 0 (pid {pid}), rank 1 (pid {pid}), ")
    assert " and 2 more: it belongs to user 1001" in line


def test_no_pyspy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="py-spy is not installed") as missing:
        pyspy.find_pyspy()
    assert "pip install py-spy" in missing.value.advice


def test_another_system_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(InputError, match="attaching needs Linux, and this is darwin"):
        pyspy.find_pyspy()


# --- sockets, RAS, host ---------------------------------------------------------------------------------

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0
   1: 0100007F:B168 0200000A:1F90 01 00000010:00000200 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1
   2: 0100007F:B169 0200000A:1F90 01 00000000:00000000 00:00000000 00000000     0        0 9999 1 0 20 4 30 10 -1
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr
   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:B16A 08 0:0 00:00000000 0 0 0 4244 1
"""


def test_sockets_of_the_processes_are_listed_as_ss_does(process: MakeProcess) -> None:
    folder = process(7)
    (folder / "net").mkdir()
    (folder / "net" / "tcp").write_text(TCP)
    (folder / "net" / "tcp6").write_text(TCP6)
    (folder / "fd").mkdir()
    for number, target in [(3, "socket:[4242]"), (4, "socket:[4243]"), (5, "socket:[4244]"), (6, "/dev/null")]:
        (folder / "fd" / str(number)).symlink_to(target)
    found = sockets.sockets_of({7: "python3"})
    assert [line.split() for line in sockets.format_sockets(found).splitlines()[1:]] == [
        ["LISTEN", "0", "0", "127.0.0.1:29500", "0.0.0.0:*", 'users:(("python3",pid=7,fd=3))'],
        ["ESTAB", "512", "16", "127.0.0.1:45416", "10.0.0.2:8080", 'users:(("python3",pid=7,fd=4))'],
        ["CLOSE-WAIT", "0", "0", "127.0.0.1:8080", "127.0.0.1:45418", 'users:(("python3",pid=7,fd=5))'],
    ]


@given(st.lists(st.text(alphabet="0123456789ABCDEF:xyz", max_size=40), max_size=14))
def test_any_line_of_a_socket_table_is_read_or_left(fields: list[str]) -> None:
    found = sockets._parse(fields)
    assert found is None or found.local[1] >= 0


def _target(**environment: str) -> Target:
    return Target(7, 1, "rank", 0, 0, 1, 7, "python", python=True, started=1.0, environment=environment)


def _listening(address: str, port: int, *owners: tuple[str, int, int]) -> sockets.Socket:
    return sockets.Socket("LISTEN", 0, 0, (address, port), ("0.0.0.0", 0), 1, owners)


@pytest.mark.parametrize(
    ("told", "listening", "address"),
    [
        ("10.0.0.5:1234", [], ("10.0.0.5", 1234)),
        ("[::1]:1234", [], ("::1", 1234)),
        ("", [_listening("127.0.0.1", 28028, ("python3", 7, 9))], ("127.0.0.1", 28028)),
        ("", [_listening("::", 28028, ("python3", 7, 9))], ("127.0.0.1", 28028)),
        ("", [_listening("127.0.0.1", 28029, ("python3", 7, 9))], None),
        ("", [_listening("127.0.0.1", 28028)], None),
        ("nonsense", [], None),
    ],
)
def test_ras_is_only_sought_where_the_job_has_it(
    told: str, listening: list[sockets.Socket], address: tuple[str, int] | None
) -> None:
    assert ras.address_of([_target(NCCL_RAS_ADDR=told)], listening) == address


@pytest.mark.parametrize("inside", [True, False])
def test_a_container_with_a_network_of_its_own_is_not_asked_through_ours(
    process: MakeProcess, proc: Path, tmp_path: Path, inside: bool
) -> None:
    for name, network in [("7", "a"), ("self", "a" if inside else "b")]:
        folder = process(7) if name == "7" else proc / "self"
        (folder / "ns").mkdir(parents=True)
        (tmp_path / network).touch()
        (folder / "ns" / "net").symlink_to(tmp_path / network)
    job = LiveJob("job", (_target(NCCL_RAS_ADDR="127.0.0.1:28028"),))
    looking = capture._Capture(job, HostBundle(tmp_path), "py-spy", capture.Options(), capture.say_nothing)
    assert looking._ras_address([]) == (("127.0.0.1", 28028) if inside else None)
    assert bool(list(looking._troubles())) != inside


def test_the_tightest_cgroup_counts(process: MakeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(7).joinpath("cgroup").write_text("0::/pod/container\n")
    inner = tmp_path / "cgroup" / "pod" / "container"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text("8589934592\n")
    (inner.parent / "memory.current").write_text("8589930496\n")
    (inner.parent / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (inner / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    monkeypatch.setattr(host, "CGROUPS", tmp_path / "cgroup")
    assert host.memory_of(7) == host.Memory(8589934592, 8589930496, 2, frozen=True)


def test_old_cgroups_are_read_too(process: MakeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(7).joinpath("cgroup").write_text("6:freezer:/job\n4:memory:/job\n0::/\n")
    for name, files in {
        "memory/job": {
            "memory.limit_in_bytes": "1048576",
            "memory.usage_in_bytes": "1000",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
        },
        "freezer/job": {"freezer.state": "FROZEN"},
    }.items():
        (tmp_path / "cgroup" / name).mkdir(parents=True)
        for file, text in files.items():
            (tmp_path / "cgroup" / name / file).write_text(f"{text}\n")
    monkeypatch.setattr(host, "CGROUPS", tmp_path / "cgroup")
    assert host.memory_of(7) == host.Memory(1048576, 1000, 1, frozen=True)


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "_.._etc_passwd"),
        (".hidden", "hidden"),
        ("a b\x1b[1m", "a_b__1m"),
        ("", "log"),
        ("..", "log"),
    ],
)
def test_names_in_a_bundle_lead_nowhere_else(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 8191])
def test_text_never_looks_as_if_its_end_were_lost(tmp_path: Path, length: int) -> None:
    HostBundle(tmp_path).write("x/y.txt", "a" * length)
    data = (tmp_path / "x" / "y.txt").read_bytes()
    assert data.rstrip(b"\n") == b"a" * length
    assert data.endswith(b"\n")
    assert len(data) % 4096


# --- watching -------------------------------------------------------------------------------------------


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[object]], bool]:
    """Watches a job that shows these signs, one after another, and then ends."""

    def watch_signs(signs: list[object]) -> bool:
        left = list(signs)
        monkeypatch.setattr(watch, "find_jobs", lambda _: (LiveJob("job", (_target(),)),))
        monkeypatch.setattr(watch, "CHECKS", 2)
        monkeypatch.setattr(pyspy, "find_pyspy", lambda: "py-spy")
        monkeypatch.setattr(watch, "_signs", lambda *_: left.pop(0))
        monkeypatch.setattr(procfs, "is_alive", lambda _: bool(left))
        return watch.wait_until_stuck((), 0.0, lambda *_: None)

    return watch_signs


@pytest.mark.parametrize(
    ("signs", "stuck"),
    [
        (["a", "a", "a", "a", "a"], True),
        (["a", "b", "b", "b", "b", "b", "c"], True),
        (["a", "a", "b", "b", "a", "a"], False),
        (["a", "a", "a", "b"], False),
        (["a", "a", "a", "a", "b", "a"], False),
        (["a", "a", "a", "b", "a", "a", "a", "a"], True),
        ([None, None, None, None], False),
        (["a", "a", None, "a", "a"], False),
    ],
)
def test_three_looks_alike_and_short_ones_behind_them_are_stuck(
    watching: Callable[[list[object]], bool], signs: list[object], *, stuck: bool
) -> None:
    assert watching(signs) == stuck


def test_signs_are_the_main_thread_whatever_it_spins(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter(
        f"Process 7: x\nPython v3\n\nThread 7 ({how})\n    f (a.py:{main})\n\nThread 8 (idle)\n    g (b.py:{other})\n"
        for how, main, other in [("idle", 1, 1), ("active+gil", 1, 2), ("idle", 2, 1)]
    )
    monkeypatch.setattr(pyspy, "take_dump", lambda *_, **__: pyspy.Dump(7, next(texts), "", paused=False))
    monkeypatch.setattr(procfs, "is_alive", lambda _: True)
    job = LiveJob("job", (_target(),))
    first, second, third = (watch._signs(job, "py-spy") for _ in range(3))
    assert first == second != third


def test_a_watch_that_may_see_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = pyspy.Dump(7, "", "Error: Permission denied (os error 13)", paused=False)
    monkeypatch.setattr(pyspy, "take_dump", lambda *_, **__: refused)
    monkeypatch.setattr(procfs, "is_alive", lambda _: True)
    with pytest.raises(InputError, match="cannot be watched: "):
        watch._signs(LiveJob("job", (_target(),)), "py-spy")


# --- files that a process only names --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "user", "opened"), [(0o600, "own", True), (0o600, "other", False), (0o644, "other", True)]
)
def test_nothing_is_fetched_that_the_user_of_the_job_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, user: str, *, opened: bool
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(mode)
    link = tmp_path / "trace_0"
    link.symlink_to(secret)
    monkeypatch.setattr(procfs, "user_of", lambda _: os.geteuid() + (user == "other"))
    stream = procfs.open_named(7, link)
    assert (stream is not None) == opened
    if stream is not None:
        stream.close()


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace_0")
    assert procfs.open_named(os.getpid(), tmp_path / "trace_0") is None


def test_a_service_that_answers_a_letter_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "_LIMIT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            link, _ = server.accept()
            with link, contextlib.suppress(OSError):
                while True:
                    link.sendall(b"S")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        begin = time.monotonic()
        assert ras.ask(server.getsockname()[:2]) == []
        assert time.monotonic() - begin < 30  # the service itself goes on for ever
        thread.join(5)


def test_a_bundle_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = bundle.make_folder(tmp_path / "deep" / "bundle")
    bundle.HostBundle(folder / "node01").write("logs/train.log", "step 1")
    assert folder.stat().st_mode & 0o077 == 0
    assert bundle.pack(folder).stat().st_mode & 0o177 == 0
    (tmp_path / "mine").mkdir(mode=0o755)
    assert bundle.make_folder(tmp_path / "mine").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(("user", "owners"), [("1234", {(1234, 5678)}), ("", {(0, 0)}), ("x", {(0, 0)})])
def test_what_is_written_under_sudo_is_given_to_who_called_it(
    user: str, owners: set[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {tmp_path / name: (0, 0) for name in ("", "node01", "node01/ps.1.txt")}
    (tmp_path / "node01").mkdir()
    (tmp_path / "node01" / "ps.1.txt").touch()

    def chown(path: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        given[path] = (user, group)

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.chown", chown)
    monkeypatch.setenv("SUDO_UID", user)
    monkeypatch.setenv("SUDO_GID", "5678")
    bundle.hand_over(tmp_path)
    assert set(given.values()) == owners
