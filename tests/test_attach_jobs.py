"""`hangscope attach` on real torchrun jobs that are really stuck: the verdict, the line, and that the job goes on."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hangscope.errors import InputError
from hangscope.live.pyspy import find_pyspy, take_dump

PROGRAM = Path(__file__).resolve().parent / "programs" / "train.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
SECRET = "correct-horse-battery"  # noqa: S105  (no password, but it must not leak either)
START_S = 90
STUCK_AT = {"skip": 2, "locks": 2, "worker": 2, "checkpoint": 2, "frozen": 3, "healthy": 3, "slow": 1}
"""The last step that both ranks of a job complete; of the others, one that they reach."""


def _reason_to_skip() -> str:
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed, and these tests start real torchrun jobs (pip install torch)"
    try:
        program = find_pyspy()
    except InputError as error:
        return str(error)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        time.sleep(0.5)
        dump = take_dump(program, sleeper.pid)
    finally:
        sleeper.kill()
        sleeper.wait()
    return f"py-spy may not trace here: {dump.error}" if dump.error else ""


# asked once: the answer costs a process
_SKIP = _reason_to_skip()
pytestmark = pytest.mark.skipif(bool(_SKIP), reason=_SKIP)


@dataclass
class Job:
    """One job of two ranks under torchrun, and what attaching to it gave."""

    fault: str
    folder: Path
    launcher: subprocess.Popen[bytes]
    report: dict[str, Any] = field(default_factory=dict)
    complaint: str = ""
    status: int | None = None
    states: dict[int, str] = field(default_factory=dict)

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    def progress(self, rank: int) -> tuple[int, int]:
        """The last step of a rank and its process id."""
        try:
            step, pid = (self.folder / f"step-{rank}").read_text().split()
        except (OSError, ValueError):
            return -1, 0
        return int(step), int(pid)

    def pids(self) -> list[int]:
        return [self.launcher.pid, *(self.progress(rank)[1] for rank in (0, 1))]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _tracer(pid: int) -> int:
    found = re.search(r"^TracerPid:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def _start(fault: str, folder: Path) -> Job:
    folder.mkdir()
    os.mkfifo(folder / "checkpoint.fifo")
    with (folder / "job.log").open("wb") as log:
        launcher = subprocess.Popen(
            [sys.executable, *TORCHRUN, str(PROGRAM), fault, str(folder), f"--hub-token={SECRET}"],
            cwd=folder,
            env={**os.environ, "HUB_TOKEN": SECRET, "TORCH_HUB_TOKEN": SECRET, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Job(fault, folder, launcher)


def _wait_until_stuck(job: Job) -> None:
    deadline = time.monotonic() + START_S
    while min(job.progress(0)[0], job.progress(1)[0]) < STUCK_AT[job.fault]:
        assert job.launcher.poll() is None, (job.folder / "job.log").read_text()
        assert time.monotonic() < deadline, (job.folder / "job.log").read_text()
        time.sleep(0.1)


def _end(job: Job) -> None:
    for pid in filter(None, job.pids()):
        # torchrun's workers lead sessions of their own, and a stuck loader would outlive its rank
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    job.launcher.wait()


def _attach(job: Job) -> subprocess.Popen[str]:
    options = ("--interval", "2", "--output", str(job.bundle), "--format", "json")
    return subprocess.Popen(
        [sys.executable, "-m", "hangscope.cli.main", "attach", "--pid", str(job.progress(0)[1]), *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Job]]:
    """All jobs, started together; each is attached to once, while all of them run."""
    base = tmp_path_factory.mktemp("jobs")
    started: dict[str, Job] = {}
    try:
        for fault in STUCK_AT:
            started[fault] = _start(fault, base / fault)
        for job in started.values():
            _wait_until_stuck(job)
        os.kill(started["frozen"].progress(1)[1], signal.SIGSTOP)
        # the two threads of "locks" and the reader of "worker" get to where they stay
        time.sleep(1)
        for job in started.values():
            job.states = {pid: _state(pid) for pid in job.pids()}
        attaching = [(job, _attach(job)) for job in started.values()]
        for job, process in attaching:
            out, job.complaint = process.communicate(timeout=120)
            job.status = process.returncode
            job.report = json.loads(out) if out else {}
        yield started
    finally:
        for job in started.values():
            _end(job)


def line_of(mark: str) -> int:
    """Number of the line of the program that carries this comment."""
    lines = PROGRAM.read_text().splitlines()
    (number,) = (number for number, text in enumerate(lines, 1) if text.endswith(f"# {mark}"))
    return number


def _where(job: Job, rank: int) -> str:
    return next(str(one["where"]) for one in job.report["ranks"] if one["rank"] == rank)


@pytest.mark.parametrize(
    ("fault", "causes", "place"),
    [
        ("skip", {"data-loading-stall", "compute-stall"}, "slow_storage"),
        ("locks", {"python-deadlock"}, "main_waits"),
        ("frozen", {"process-frozen"}, ""),
        ("worker", {"data-loading-stall"}, "next_batch"),
        ("checkpoint", {"checkpoint-stall"}, "open_checkpoint"),
    ],
)
def test_verdict_names_the_cause_the_rank_and_the_line(
    jobs: dict[str, Job], fault: str, causes: set[str], place: str
) -> None:
    job = jobs[fault]
    assert job.status == 0, job.complaint
    verdict = job.report["verdict"]
    assert (verdict["cause"] in causes, verdict["ranks"]) == (True, [1]), verdict
    if place:
        assert f"train.py:{line_of(place)}" in _where(job, 1)
    assert "train.py" in _where(job, 0)


def test_the_line_of_a_stuck_loader_is_shown(jobs: dict[str, Job]) -> None:
    shown = json.dumps(jobs["worker"].report["verdict"])
    assert f"train.py:{line_of('read_remote_sample')}" in shown


def test_both_ends_of_a_deadlock_are_shown(jobs: dict[str, Job]) -> None:
    shown = json.dumps(jobs["locks"].report["verdict"])
    assert f"train.py:{line_of('main_waits')}" in shown
    assert f"train.py:{line_of('flusher_waits')}" in shown


@pytest.mark.parametrize("fault", ["healthy", "slow"])
def test_a_job_that_goes_on_is_accused_of_nothing(jobs: dict[str, Job], fault: str) -> None:
    """Both looks at the slow job show the same lines: one rank loads, the other waits for it."""
    assert jobs[fault].status == 0, jobs[fault].complaint
    verdict = jobs[fault].report["verdict"]
    assert verdict["cause"] in {"no-fault-found", "insufficient-evidence"}, verdict
    assert verdict["ranks"] == []


@pytest.mark.parametrize("fault", STUCK_AT)
def test_all_ranks_are_seen_with_their_processes(jobs: dict[str, Job], fault: str) -> None:
    job = jobs[fault]
    assert job.status == 0, job.complaint
    assert job.report["job"]["world_size"] == 2
    assert {one["rank"]: one["pid"] for one in job.report["ranks"]} == {rank: job.progress(rank)[1] for rank in (0, 1)}


@pytest.mark.parametrize("fault", STUCK_AT)
def test_processes_are_as_they_were(jobs: dict[str, Job], fault: str) -> None:
    job = jobs[fault]
    assert job.launcher.poll() is None
    now = {pid: _state(pid) for pid in job.pids()}
    assert [pid for pid in now if (now[pid] == "T") != (job.states[pid] == "T")] == []
    assert {_tracer(pid) for pid in now} == {0}


def test_a_stopped_process_stays_stopped_and_goes_on_when_told(jobs: dict[str, Job]) -> None:
    job = jobs["frozen"]
    step, pid = job.progress(1)
    assert _state(pid) == "T"
    os.kill(pid, signal.SIGCONT)
    _wait_for_step(job, step + 3)


def test_a_healthy_job_goes_on(jobs: dict[str, Job]) -> None:
    _wait_for_step(jobs["healthy"], jobs["healthy"].progress(0)[0] + 3)


def _wait_for_step(job: Job, step: int) -> None:
    deadline = time.monotonic() + 20
    while min(job.progress(0)[0], job.progress(1)[0]) < step:
        assert time.monotonic() < deadline, f"{job.fault} stands at {job.progress(0)}, {job.progress(1)}"
        time.sleep(0.1)


@pytest.mark.parametrize("fault", ["skip", "locks", "worker", "checkpoint"])
def test_a_bundle_gives_the_same_verdict_again(jobs: dict[str, Job], fault: str, tmp_path: Path) -> None:
    from hangscope.api import analyze  # noqa: PLC0415  (pandas, which a skipped module need not load)

    job = jobs[fault]
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    job.bundle.rename(moved / "node")
    again = analyze(moved / "node")
    (moved / "node").rename(job.bundle)
    assert (again.verdict.cause, list(again.verdict.ranks)) == (
        job.report["verdict"]["cause"],
        job.report["verdict"]["ranks"],
    )


def test_no_secret_gets_into_a_bundle(jobs: dict[str, Job]) -> None:
    files = [path for job in jobs.values() for path in job.bundle.rglob("*") if path.is_file()]
    assert len(files) > 6 * 8
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_loader_processes_stand_beside_their_rank(jobs: dict[str, Job]) -> None:
    (stacks,) = jobs["worker"].bundle.glob("*/stacks/rank1-*.1.txt")
    text = stacks.read_text()
    assert f"\nParent Process {jobs['worker'].progress(1)[1]}: " in text
    assert f"(train.py:{line_of('read_remote_sample')})" in text


def test_the_log_of_the_job_is_in_the_bundle(jobs: dict[str, Job]) -> None:
    (log,) = jobs["skip"].bundle.glob("*/logs/job.log")
    assert "rank 0 step 2" in log.read_text()
