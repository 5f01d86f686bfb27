"""Looking at processes that only sleep: who is found, what the bundle holds, and what is left as it was."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hangscope.api import analyze, attach
from hangscope.cli.main import main
from hangscope.errors import InputError
from hangscope.live import host, procfs, pyspy, recorder, records
from hangscope.live.bundle import host_name
from hangscope.live.capture import Options, capture
from hangscope.live.choose import find_jobs
from hangscope.live.processes import look_around

PROGRAM = Path(__file__).resolve().parent / "programs" / "sleeper.py"
QUICK = Options(interval_s=0.2)
_PORTS = itertools.count(40_000 + os.getpid() % 10_000)
"""MASTER_PORTs that nobody listens to; jobs are told apart by them."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="attaching needs Linux")

Start = Callable[..., list[int]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the ranks of a job; all of them are gone after the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(ranks: int, *wishes: str, log: Path | None = None, **environment: str) -> list[int]:
        port = str(next(_PORTS))
        pids = []
        for rank in range(ranks):
            settings = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_PORT": port}
            with log.open("ab") if log else open(os.devnull, "wb") as output:  # noqa: PTH123  (a device is no path of ours)
                process = subprocess.Popen(
                    [sys.executable, str(PROGRAM), str(tmp_path), *wishes],
                    env={**os.environ, "MASTER_ADDR": "node01", **settings, **environment},
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            running.append(process)
            pids.append(process.pid)
        deadline = time.monotonic() + 20
        while not all((tmp_path / f"ready-{pid}").exists() and _state(pid) == "S" for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return pids

    yield start
    for process in running:
        # the children die with it: daemons are ended by a parent that ends, so the whole session is
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _look(pid: int, folder: Path, options: Options = QUICK) -> Path:
    """The host's part of a bundle."""
    return capture(find_jobs([pid]), folder, options).folder / host_name()


def _state(pid: int) -> str:
    found = procfs.read_stat(pid)
    assert found is not None
    return found.state


# --- who is found ---------------------------------------------------------------------------------------


def test_ranks_of_a_job_are_found_by_their_environment(start: Start) -> None:
    pids = start(2)
    jobs = [job for job in look_around().jobs if any(target.pid in pids for target in job.targets)]
    assert len(jobs) == 1
    assert [(t.pid, t.rank, t.local_rank, t.world_size, t.role) for t in jobs[0].targets] == [
        (pids[0], 0, 0, 2, "rank"),
        (pids[1], 1, 1, 2, "rank"),
    ]
    assert jobs[0].name.startswith("node01:")


@pytest.mark.parametrize("asked", ["rank", "child"])
def test_any_process_of_a_job_stands_for_the_job(start: Start, asked: str) -> None:
    pids = start(2, "loader")
    (child,) = (t.pid for t in find_jobs([pids[1]])[0].targets if t.role == "child" and t.owner == pids[1])
    (job,) = find_jobs([pids[1] if asked == "rank" else child])
    assert [(t.role, t.rank) for t in job.targets] == [("rank", 0), ("child", 0), ("rank", 1), ("child", 1)]


def test_two_jobs_are_two(start: Start) -> None:
    first, second = start(1)[0], start(1)[0]
    jobs = find_jobs([first, second])
    assert [[target.pid for target in job.targets] for job in jobs] == [[first], [second]]
    with pytest.raises(InputError, match=r"2 jobs run on this host: node01:\d+ \(1 rank, first pid") as refused:
        find_jobs([first, second], several=False)
    assert "--pid" in refused.value.advice


def test_a_launcher_is_no_rank_although_its_environment_says_so(tmp_path: Path) -> None:
    """Kubernetes gives the launcher RANK and WORLD_SIZE of its pod; its workers get others."""
    script = tmp_path / "torchrun"
    script.write_text(
        "import os, subprocess, sys, time\n"
        # the worker itself says that it is there: for a moment after its start it has no environment
        "work = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
        "child = subprocess.Popen([sys.executable, '-c', work],"
        " env={**os.environ, 'RANK': '0', 'LOCAL_RANK': '0', 'WORLD_SIZE': '1'})\n"
        "child.wait()\n"
    )
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": str(next(_PORTS))}
    launcher = subprocess.Popen(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert launcher.stdout is not None
        worker = int(launcher.stdout.readline())
        (job,) = find_jobs([launcher.pid])
        assert [(t.pid, t.role) for t in job.targets] == [(launcher.pid, "launcher"), (worker, "rank")]
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.communicate()


def test_a_process_of_no_job_is_one_by_itself() -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        (job,) = find_jobs([sleeper.pid])
        assert [(t.pid, t.role, t.rank) for t in job.targets] == [(sleeper.pid, "rank", None)]
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_process_that_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="there is no process 4194305 on this host"):
        find_jobs([4194305])


# --- what the bundle holds ------------------------------------------------------------------------------


def test_bundle_has_two_stacks_of_each_rank_with_its_children(start: Start, tmp_path: Path) -> None:
    pids = start(2, "loader")
    seen = _look(pids[0], tmp_path / "bundle")
    names = {path.name for path in (seen / "stacks").iterdir()}
    assert names == {f"rank{rank}-pid{pid}.{number}.txt" for rank, pid in enumerate(pids) for number in (1, 2)}
    text = (seen / "stacks" / f"rank1-pid{pids[1]}.2.txt").read_text()
    assert "main (sleeper.py:" in text
    assert f"\n{'-' * 80}\nProcess " in text
    assert f"\nParent Process {pids[1]}: {sys.executable} {PROGRAM} {tmp_path} loader\n\nThread " in text
    assert "read_sample (sleeper.py:" in text


def test_bundle_tells_who_is_who_and_how_they_are(start: Start, tmp_path: Path) -> None:
    pids = start(2)
    seen = _look(pids[0], tmp_path / "bundle")
    said = (seen / "attach.txt").read_text()
    assert (
        f"hangscope attach: process pid={pids[1]} parent={os.getpid()} role=rank rank=1 local_rank=1 world_size=2"
        in said
    )
    assert re.search(
        rf"use round=2 pid={pids[1]} state=[SR] cpu_s=\d\.\d\d .*open_files=\d+ open_files_limit=\d+", said
    )
    # on a busy machine a process comes to sleep again only after a while when it was paused
    assert re.search(rf"progress pid={pids[0]} cpu_s=0\.0\d over_s=\d+\.\d switches=[01]\b", said)
    assert re.search(r"shm pid=\d+ size_bytes=\d+ used_bytes=\d+", said)
    table = (seen / "ps.1.txt").read_text().splitlines()
    assert table[0].split() == ["PID", "PPID", "STAT", "WCHAN", "ELAPSED", "TIME", "COMMAND"]
    assert table[1].split()[:3] == [str(pids[0]), str(os.getpid()), "Ss"]
    assert table[1].endswith(f"{PROGRAM} {tmp_path}")


def test_a_process_that_sleeps_makes_no_progress(start: Start) -> None:
    (pid,) = start(1)
    targets = find_jobs([pid])[0].targets
    before = records.read_paces(targets)
    (line,) = records.describe_progress(before, records.read_paces(targets), over_s=0.25)
    assert line == f"hangscope attach: progress pid={pid} cpu_s=0.00 over_s=0.2 switches=0"


def test_only_settings_of_the_job_are_written_down(start: Start, tmp_path: Path) -> None:
    hidden = {
        "WANDB_API_KEY": "hush1",
        "AWS_SECRET_ACCESS_KEY": "hush2",
        "PASSWORD": "hush3",
        "TORCH_HUB_TOKEN": "hush4",
    }
    (pid,) = start(1, NCCL_DEBUG="INFO", TORCH_DISTRIBUTED_DEBUG="DETAIL", MY_NAME="hush5", **hidden)
    seen = _look(pid, tmp_path / "bundle")
    shown = dict(line.split("=", 1) for line in (seen / f"proc/rank0-pid{pid}.env.txt").read_text().splitlines())
    assert shown["NCCL_DEBUG"] == "INFO"
    assert shown["TORCH_DISTRIBUTED_DEBUG"] == "DETAIL"
    assert shown["WORLD_SIZE"] == "1"
    everything = b"".join(path.read_bytes() for path in seen.rglob("*") if path.is_file())
    assert b"hush" not in everything
    assert b"PATH=" not in everything


def test_secrets_of_the_command_line_are_left_out() -> None:
    hidden = procfs.hide_secrets(
        "python train.py --api-key abc --hub_token=def --lr 0.1 auth_token=ghi --tokens-per-batch 5"
    )
    assert hidden == "python train.py --api-key *** --hub_token=*** --lr 0.1 auth_token=*** --tokens-per-batch ***"
    dump = "Process 7: python t.py --password=abc\nPython v3.11.7 (python)\n\nThread 7 (idle)\n    token = (t.py:1)\n"
    assert procfs.hide_secrets_in_head(dump) == dump.replace("abc", "***")


def test_the_end_of_a_log_is_copied_in_whole_lines(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {step}\n" for step in range(60_000)))
    pids = start(2, log=log)
    copied = (_look(pids[0], tmp_path / "bundle") / "logs" / "train.log").read_text().splitlines()
    assert copied[-1] == "step 59999"
    assert all(re.fullmatch(r"step \d{5}", line) for line in copied)
    assert 200 << 10 < len("\n".join(copied)) < 256 << 10
    assert log.stat().st_size == sum(len(f"step {step}\n") for step in range(60_000))


def test_a_log_of_one_rank_has_its_name(start: Start, tmp_path: Path) -> None:
    (pid,) = start(1, log=tmp_path / "out.txt")
    (tmp_path / "out.txt").write_text("hello\n")
    assert (_look(pid, tmp_path / "bundle") / "logs" / f"rank0-pid{pid}.stdout.log").read_text() == "hello\n"


def test_ras_is_asked_twice_in_both_forms(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (pid,) = start(1, "ras", NCCL_RAS_ADDR=f"127.0.0.1:{port}")
    seen = _look(pid, tmp_path / "bundle")
    assert {path.name for path in (seen / "ras").iterdir()} == {
        f"ras.{n}.{form}" for n in (1, 2) for form in ("txt", "json")
    }
    assert (seen / "ras" / "ras.1.txt").read_text().startswith("NCCL version 2.28.9")
    assert json.loads((seen / "ras" / "ras.2.json").read_text()) == {"nccl_version": "2.28.9"}
    assert f"127.0.0.1:{port}" in (seen / "sockets.1.txt").read_text()


def test_a_job_without_ras_is_not_missed(start: Start, tmp_path: Path) -> None:
    (pid,) = start(1)
    seen = _look(pid, tmp_path / "bundle")
    assert not (seen / "ras").exists()
    assert "not complete" not in (seen / "attach.txt").read_text()


@pytest.mark.parametrize("wanted", [True, False])
def test_recorder_is_dumped_through_its_pipe(start: Start, tmp_path: Path, *, wanted: bool) -> None:
    dump = tmp_path / "fr_trace_rank_"
    (pid,) = start(
        1, "recorder", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "fr"), TORCH_FR_DUMP_TEMP_FILE=str(dump)
    )
    seen = _look(pid, tmp_path / "bundle", Options(interval_s=0.2, recorder=wanted))
    copied = seen / "recorder" / "fr_trace_rank_0"
    assert copied.exists() == wanted
    assert Path(f"{dump}0").exists() == wanted
    if wanted:
        assert copied.read_bytes() == b"\x80\x02}q\x00."


def test_a_pipe_that_nobody_reads_holds_nobody_up(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "fr0.pipe")
    (pid,) = start(1, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "fr"))
    waited_for = []
    monkeypatch.setattr(recorder, "wait_for_dumps", lambda asked, _since: waited_for.append(list(asked)))
    seen = _look(pid, tmp_path / "bundle")
    assert waited_for == [[]]
    assert (seen / "attach.txt").exists()


def test_what_is_no_pipe_is_not_written_to(start: Start, tmp_path: Path) -> None:
    (tmp_path / "fr0.pipe").write_text("precious")
    (pid,) = start(1, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "fr"))
    _look(pid, tmp_path / "bundle")
    assert (tmp_path / "fr0.pipe").read_text() == "precious"


@pytest.mark.parametrize("age_s", [0, 3600])
def test_only_dumps_that_this_process_wrote_are_copied(start: Start, tmp_path: Path, age_s: int) -> None:
    dump = tmp_path / "trace_0"
    dump.write_bytes(b"\x80\x02]q\x00.")
    (pid,) = start(1, TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(tmp_path / "trace_"))
    moment = time.time() - age_s
    os.utime(dump, (moment, moment))
    seen = _look(pid, tmp_path / "bundle")
    assert (seen / "recorder" / "trace_0").exists() == (age_s == 0)


# --- nothing is changed ---------------------------------------------------------------------------------


def test_a_stopped_process_is_looked_at_and_stays_stopped(start: Start, tmp_path: Path) -> None:
    pids = start(2)
    os.kill(pids[1], signal.SIGSTOP)
    seen = _look(pids[0], tmp_path / "bundle")
    assert (_state(pids[0]) != "T", _state(pids[1])) == (True, "T")
    assert "main (sleeper.py:" in (seen / "stacks" / f"rank1-pid{pids[1]}.1.txt").read_text()
    assert f"unpaused pid={pids[1]} because it is stopped (state T)" in (seen / "attach.txt").read_text()
    assert (seen / "ps.2.txt").read_text().splitlines()[2].split()[2].startswith("T")


@pytest.mark.parametrize(
    ("root", "switch", "on", "off"),
    [
        ("freezer", "freezer.state", "FROZEN", "THAWED"),
        ("unified", "cgroup.freeze", "1", "0"),
        ("", "cgroup.freeze", "1", "0"),
    ],
)
def test_a_frozen_cgroup_is_the_verdict(  # noqa: PLR0917  (a column each of the table above)
    start: Start, tmp_path: Path, root: str, switch: str, on: str, off: str
) -> None:
    (pid,) = start(1)
    cgroup = host.CGROUPS / root / f"hangscope-test-{pid}"
    if not (cgroup.parent / "cgroup.procs").exists():
        pytest.skip(f"no cgroups below {cgroup.parent}")
    try:
        cgroup.mkdir()
        (cgroup / "cgroup.procs").write_text(str(pid))
        (cgroup / switch).write_text(on)
    except OSError:
        if cgroup.exists():
            cgroup.rmdir()
        pytest.skip(f"no cgroup can be frozen here with {switch}")
    try:
        time.sleep(0.2)
        attached = attach(pid, output=tmp_path / "bundle", interval_s=0.2)
        still_frozen = host.is_frozen(pid)
    finally:
        (cgroup / switch).write_text(off)
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (cgroup / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        cgroup.rmdir()
    assert still_frozen
    assert attached is not None
    assert (attached.report.verdict.cause, attached.report.verdict.ranks) == ("process-frozen", (0,))
    assert "main (sleeper.py:" in (tmp_path / "bundle" / host_name() / "stacks" / f"rank0-pid{pid}.1.txt").read_text()


@pytest.mark.parametrize("states", ["SD", "DS", "ST"])
def test_what_waits_uninterruptibly_is_not_paused(monkeypatch: pytest.MonkeyPatch, states: str) -> None:
    """The pause is a SIGSTOP that would arrive when the wait is over, and stop the process for good."""
    threads = [procfs.Stat(7 + n, "python3", state, 1, 7, 0.0, 0.0, len(states)) for n, state in enumerate(states)]
    monkeypatch.setattr(procfs, "read_threads", lambda _: threads)
    monkeypatch.setattr(procfs, "read_stat", lambda _: threads[0])
    commands: list[list[str]] = []

    def run(command: list[str]) -> tuple[str, str]:
        commands.append(command)
        return "Process 7: python\n", ""

    monkeypatch.setattr(pyspy, "_run", run)
    dump = pyspy.take_dump("py-spy", 7, native=True)
    assert not dump.paused
    assert dump.why_not
    assert commands == [["py-spy", "dump", "--pid", "7", "--nonblocking"]]


def test_a_pyspy_that_hangs_is_ended_and_nothing_else(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pid,) = start(1)
    slow = tmp_path / "py-spy"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(pyspy, "LIMIT_S", 0.3)
    dump = pyspy.take_dump(str(slow), pid)
    assert (dump.text, dump.error) == ("", "py-spy gave no answer within 0 s")
    assert _state(pid) != "T"


def test_a_process_that_moves_on_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([("", "Error: Failed to copy PyFrameObject"), ("Process 7: python\n", "")])
    monkeypatch.setattr(pyspy, "_run", lambda _: next(answers))
    assert pyspy.take_dump("py-spy", 7, nonblocking=True).text == "Process 7: python\n"


def test_a_rank_that_ends_meanwhile_is_said_and_the_rest_is_kept(start: Start, tmp_path: Path) -> None:
    pids = start(2)
    jobs = find_jobs([pids[0]])
    os.kill(pids[1], signal.SIGKILL)
    time.sleep(0.2)
    seen = capture(jobs, tmp_path / "bundle", QUICK).folder / host_name()
    assert f"not complete: rank 1 (pid {pids[1]}): it ended while it was looked at" in (seen / "attach.txt").read_text()
    assert [path.name for path in sorted((seen / "stacks").iterdir())] == [
        f"rank0-pid{pids[0]}.{n}.txt" for n in (1, 2)
    ]
    report = analyze(seen.parent)
    assert f"not seen: rank 1 (pid {pids[1]}): it ended while it was looked at" in report.warnings


# --- the whole ------------------------------------------------------------------------------------------


def test_attach_knows_ranks_hosts_and_processes(start: Start, tmp_path: Path) -> None:
    pids = start(2, "loader")
    attached = attach(pids[0], output=tmp_path / "bundle", interval_s=0.2)
    assert attached is not None
    assert attached.bundle == tmp_path / "bundle"
    assert [(r.rank, r.pid, r.host) for r in attached.report.ranks] == [
        (0, pids[0], host_name()),
        (1, pids[1], host_name()),
    ]
    assert attached.report.job.world_size == 2
    again = analyze(tmp_path / "bundle")
    assert (again.verdict.cause, again.ranks) == (attached.report.verdict.cause, attached.report.ranks)


def test_bundles_of_several_hosts_are_analyzed_together(tmp_path: Path) -> None:
    """Process ids repeat between hosts; what tells them apart is the folder's attach.txt."""
    for number, name in enumerate(["alpha", "beta"]):
        folder = tmp_path / name
        (folder / "stacks").mkdir(parents=True)
        (folder / "attach.txt").write_text(
            f"hangscope attach: process pid=77 parent=70 role=rank rank={number} world_size=2 host={name}\n"
        )
        for look in (1, 2):
            (folder / "stacks" / f"rank{number}-pid77.{look}.txt").write_text(
                "Process 77: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
                'Thread 77 (idle): "MainThread"\n    train (train.py:9)\n    <module> (train.py:12)\n'
            )
    report = analyze(tmp_path)
    assert [(r.rank, r.pid, r.host) for r in report.ranks] == [(0, 77, "alpha"), (1, 77, "beta")]


def test_archive_holds_the_bundle_and_is_read_as_well(start: Start, tmp_path: Path) -> None:
    (pid,) = start(1)
    attached = attach(pid, output=tmp_path / "bundle", interval_s=0.2, archive=True)
    assert attached is not None
    assert attached.bundle == tmp_path / "bundle.tar.gz"
    with tarfile.open(attached.bundle) as packed:
        assert f"bundle/{host_name()}/attach.txt" in packed.getnames()
    assert analyze(attached.bundle).ranks == attached.report.ranks


def test_command_prints_the_verdict_and_where_the_bundle_is(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pid,) = start(1)
    folder = str(tmp_path / "bundle")
    assert main(["attach", "--pid", str(pid), "--interval", "0.2", "--output", folder, "--format", "json"]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["job"]["world_size"] == 1
    assert streams.err.splitlines()[-1] == f"hangscope: what was collected lies in {folder}"
    assert "hangscope: stacks, first look" in streams.err.splitlines()


def test_watching_attaches_when_the_job_stands_still(start: Start, tmp_path: Path) -> None:
    (pid,) = start(1)
    said: list[str] = []
    attached = attach(
        pid, output=tmp_path / "bundle", interval_s=0.2, watch_s=0.1, say=lambda what, *_: said.append(what)
    )
    assert attached is not None
    assert attached.report.ranks[0].pid == pid
    assert "watching, looks alike" in said


def test_watching_ends_with_the_job(start: Start, tmp_path: Path) -> None:
    (pid,) = start(1)

    def end(_what: str, looks: int, _of: int) -> None:
        # behind the first look, so that no third one is alike
        if looks == 1:
            os.kill(pid, signal.SIGKILL)

    assert attach(pid, output=tmp_path / "bundle", watch_s=0.1, say=end) is None
    assert not (tmp_path / "bundle").exists()


def test_interrupting_a_watch_is_polite_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    (pid,) = start(1)
    watch = subprocess.Popen(
        [sys.executable, "-m", "hangscope.cli.main", "attach", "--pid", str(pid), "--watch", "60"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stderr is not None
    assert watch.stderr.readline() == "hangscope: watching, looks alike\n"
    watch.send_signal(signal.SIGINT)
    assert watch.communicate()[1] == "hangscope: interrupted\n"
    assert watch.returncode == 130
    assert list(tmp_path.glob("hangscope-attach-*")) == []


def test_two_jobs_give_two_reports_as_text_and_none_as_json(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = [str(start(1)[0]), str(start(1)[0])]
    asked = ["attach", "--pid", *pids, "--interval", "0.2", "--output"]
    assert main([*asked, str(tmp_path / "json"), "--format", "json"]) == 2
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "2 jobs run on this host" in refused.err
    assert main([*asked, str(tmp_path / "quiet"), "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main([*asked, str(tmp_path / "text")]) == 0
    page = capsys.readouterr().out
    assert [line[:10] for line in page.splitlines() if line.startswith("Job ")] == ["Job 1 of 2", "Job 2 of 2"]


def test_a_folder_that_is_not_empty_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "mine").touch()
    with pytest.raises(InputError, match="is not an empty folder") as error:
        attach(os.getpid(), output=tmp_path / "bundle")
    assert "--bundle" in error.value.advice, "the option of the command that it is given with"
    assert [path.name for path in (tmp_path / "bundle").iterdir()] == ["mine"]


def test_an_archive_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "bundle.tar.gz").write_text("mine")
    with pytest.raises(InputError, match=r"bundle\.tar\.gz is there already"):
        attach(os.getpid(), output=tmp_path / "bundle", archive=True)
    assert (tmp_path / "bundle.tar.gz").read_text() == "mine"


@pytest.mark.parametrize(
    "wrong", [["--native", "--nonblocking"], ["--pid", "0"], ["--pid"], ["--interval", "never"], ["--watch", "-1"]]
)
def test_wrong_usage_is_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["attach", *wrong])
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_native_frames_need_the_pause() -> None:
    with pytest.raises(InputError, match="native frames can only be read while the process is paused"):
        attach(native=True, nonblocking=True)
