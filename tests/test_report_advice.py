"""What to do next: remedies with the job's own names in them, and what to collect, each with what it decides."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.align.job import Job
from hangscope.align.launch import Launch
from hangscope.api import analyze
from hangscope.diagnose.catalogue import causes
from hangscope.diagnose.loader import load_rules
from hangscope.model import Finding, NextStep, Remedy, Role
from hangscope.report.advice import advise
from hangscope.report.pieces import Piece, piece_of
from hangscope.report.reach import Reach
from nccl_logs import job_of

TORCH_LINE = "[rank{rank}]:[W1115 16:42:37.768057301 ProcessGroupNCCL.cpp:1936] hello"
_OF_NAMES = frozenset(string.ascii_letters + string.digits + "._-")
SRUN = "slurmstepd: error: *** STEP 1234.0 ON node01 CANCELLED AT 2021-05-24T09:50:34 ***"


class _Diagnosis:
    def __init__(self, verdict: Finding) -> None:
        self.verdict = verdict
        self.findings = (verdict,)


def _finding(cause: str, confidence: float = 0.6, *remedies: Remedy, **more: object) -> Finding:
    plain = Finding(
        cause=cause,
        role=causes()[cause].role,
        title="title",
        ranks=(),
        affected_ranks=(),
        hosts=(),
        confidence=confidence,
        explanation="",
        remedies=remedies,
        evidence=(),
        rule="rule",
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def _job(world: int = 4, launch: Launch | None = None, extra: Mapping[str, list[str]] | None = None) -> Job:
    """Two hosts, two ranks each, of which torch's lines are there, and nothing else."""
    files = {
        f"rank{rank}.log": [
            f"[rank{rank}]: node0{rank // 2 + 1} RANK={rank} WORLD_SIZE={world} MASTER_ADDR=node01 MASTER_PORT=29500",
            TORCH_LINE.format(rank=rank),
        ]
        for rank in range(world)
    }
    job = job_of({**files, **(extra or {})})
    for rank, process in job.ranks.items():
        process.pid = 4700 + rank
    return job if launch is None else replace(job, launch=launch)


def _commands(job: Job, verdict: Finding) -> list[str]:
    return [step.command for step in advise(job, _Diagnosis(verdict)) if step.command]


def _step(job: Job, verdict: Finding, piece: Piece) -> NextStep:
    return next(step for step in advise(job, _Diagnosis(verdict)) if piece_of(step.command, step.text) is piece)


def test_job_of_these_tests_is_what_they_think() -> None:
    job = _job()
    assert {rank: (p.host, p.pid) for rank, p in job.ranks.items()} == {
        0: ("node01", 4700),
        1: ("node01", 4701),
        2: ("node02", 4702),
        3: ("node02", 4703),
    }


@pytest.mark.parametrize(
    ("launch", "command"),
    [
        (Launch("torchrun"), "ssh node02 py-spy dump --pid 4703"),
        (Launch("torchrun", "slurm", "1234"), "srun --jobid=1234 --overlap -w node02 py-spy dump --pid 4703"),
        (Launch("srun", "slurm"), "srun --jobid=JOBID --overlap -w node02 py-spy dump --pid 4703"),
        (Launch(None, "kubernetes"), "kubectl exec node02 -- py-spy dump --pid 4703"),
        (Launch("ray", "ray"), "ssh node02 py-spy dump --pid 4703"),
    ],
)
def test_stack_of_the_suspect_is_taken_through_the_launcher(launch: Launch, command: str) -> None:
    step = _step(_job(launch=launch), _finding("collective-skipped", ranks=(3,), hosts=("node02",)), Piece.STACKS)
    assert step.command == command
    assert step.decides == "whether rank 3 is in the collective or elsewhere, and at which line"
    assert step.text.startswith("While it still hangs, take the stack of rank 3")


def test_stacks_of_all_suspects_of_a_host_are_one_command() -> None:
    step = _step(_job(), _finding("collective-skipped", ranks=(1, 2, 3)), Piece.STACKS)
    assert step.command == "ssh node01 py-spy dump --pid 4701"
    assert step.text == "While it still hangs, take the stack of rank 1 first, then of ranks 2,3."
    both = _step(_job(), _finding("collective-skipped", ranks=(2, 3)), Piece.STACKS)
    assert both.command == 'ssh node02 "py-spy dump --pid 4702; py-spy dump --pid 4703"'


@pytest.mark.parametrize(
    ("launch", "start"),
    [
        (Launch("torchrun"), "for host in node01 node02; do ssh $host 'for p in $(pgrep -f python)"),
        (Launch("deepspeed", pdsh=True), "pdsh -w node01,node02 'for p in $(pgrep -f python)"),
        (Launch("srun", "slurm", "77"), "srun --jobid=77 --overlap --ntasks-per-node=1 bash -c 'for p in"),
        (Launch(None, "kubernetes"), "for pod in node01 node02; do kubectl exec $pod -- sh -c 'for p in"),
        (Launch("ray", "ray"), "for host in node01 node02; do ssh $host ray stack; done"),
    ],
)
def test_stacks_of_everybody_are_taken_when_nobody_is_suspected(launch: Launch, start: str) -> None:
    step = _step(_job(launch=launch), _finding("insufficient-evidence", 0.3), Piece.STACKS)
    assert (step.command or "").startswith(start)
    assert step.decides == "which ranks are in the collective, and which are elsewhere and at which line"


def test_who_is_gone_is_looked_for_in_records_and_not_by_stacks() -> None:
    verdict = _finding("rank-vanished", ranks=(3,), hosts=("node02",))
    job = _job(launch=Launch("srun", "slurm", "1234"))
    commands = _commands(job, verdict)
    assert commands[:2] == [
        "sacct -j 1234 --format=JobID,NodeList,State,ExitCode,MaxRSS,Elapsed",
        'ssh node02 "dmesg -T | tail -n 200"',
    ]
    assert not any(piece_of(command) is Piece.STACKS for command in commands)
    in_pods = _step(_job(launch=Launch(None, "kubernetes")), verdict, Piece.RECORD)
    assert in_pods.command == "kubectl describe pod node02; kubectl logs --previous node02"
    assert in_pods.decides == "what ended rank 3: a limit, preemption, an operator, or the program itself"


def test_kernel_log_of_a_pod_is_that_of_its_node() -> None:
    verdict = _finding("rank-vanished", ranks=(3,), hosts=("node02",))
    known = _step(_job(launch=Launch(None, "kubernetes", pods={"node02": "machine7"})), verdict, Piece.KERNEL)
    assert (known.command or "").startswith("kubectl debug node/machine7 -it --image=busybox -- chroot /host sh -c ")
    unknown = _step(_job(launch=Launch(None, "kubernetes")), verdict, Piece.KERNEL)
    assert "node/$(kubectl get pod node02 -o jsonpath={.spec.nodeName})" in (unknown.command or "")


@pytest.mark.parametrize(
    ("launcher", "start"),
    [
        ("torchrun", "export NCCL_DEBUG=INFO "),
        ("srun", "export NCCL_DEBUG=INFO "),
        ("mpirun", "mpirun -x NCCL_DEBUG=INFO -x NCCL_DEBUG_SUBSYS="),
        ("deepspeed", "printf '%s\\n' NCCL_DEBUG=INFO "),
        ("ray", 'ray.init(runtime_env={"env_vars": {"NCCL_DEBUG": "INFO", '),
    ],
)
def test_settings_are_passed_on_as_the_launcher_does(launcher: str, start: str) -> None:
    step = _step(_job(launch=Launch(launcher)), _finding("insufficient-evidence", 0.3), Piece.NCCL)
    assert (step.command or "").startswith(start)


@pytest.mark.parametrize(
    ("launcher", "start"),
    [
        ("torchrun", "torchrun --log_dir"),
        ("accelerate", "accelerate launch --log_dir"),
        ("srun", "srun --output=logs/"),
        ("mpirun", "mpirun --output-filename"),
        ("deepspeed", "deepspeed --enable_each_rank_log"),
    ],
)
def test_logs_are_kept_as_the_launcher_does(launcher: str, start: str) -> None:
    job = replace(_job(launch=Launch(launcher)), world_size=6)
    step = next(s for s in advise(job, _Diagnosis(_finding("insufficient-evidence", 0.3))) if "logs of" in s.text)
    assert step.text == "Add the logs of ranks 4,5; none was given."
    assert (step.command or "").startswith(start)
    assert step.decides == "whether ranks 4,5 started, how far they came and how they ended"


def test_what_is_there_is_not_asked_for() -> None:
    info = [
        f"node0{rank // 2 + 1}:{4700 + rank}:{4700 + rank} [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>"
        for rank in range(4)
    ]
    verdict = _finding("insufficient-evidence", 0.3)
    asked = {piece_of(command) for command in _commands(_job(), verdict)}
    assert {Piece.NCCL, Piece.STACKS, Piece.RECORDER} <= asked
    asked = {piece_of(command) for command in _commands(_job(extra={"job.log": info}), verdict)}
    assert Piece.NCCL not in asked
    sacct = {"sacct.txt": ["1234.0|python|OUT_OF_MEMORY|0:125|node02||"]}
    gone = _finding("rank-vanished", ranks=(3,))
    assert Piece.RECORD not in {piece_of(command) for command in _commands(_job(extra=sacct), gone)}
    assert Piece.RECORD in {piece_of(c) for c in _commands(_job(extra={"a.log": [SRUN]}), gone)}


def test_a_job_on_gloo_is_asked_nothing_about_nccl() -> None:
    line = "RuntimeError: [/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:3095."
    job = job_of({f"rank{rank}.log": [f"[rank{rank}]: {line}"] for rank in range(2)})
    assert job.without_nccl
    for cause in ("insufficient-evidence", "watchdog-timeout", "peer-lost", "network-unreachable", "env-mismatch"):
        for step in advise(job, _Diagnosis(_finding(cause, 0.4))):
            assert "NCCL" not in step.text + (step.command or "") + (step.decides or ""), step
            assert "nccl" not in (step.command or "")


def test_remedies_of_a_likely_cause_come_first_and_of_an_unlikely_one_last() -> None:
    remedy = Remedy("Repair it.", "repair")
    likely = advise(_job(), _Diagnosis(_finding("collective-skipped", 0.6, remedy, ranks=(3,))))
    unlikely = advise(_job(), _Diagnosis(_finding("collective-skipped", 0.4, remedy, ranks=(3,))))
    assert likely[0] == unlikely[-1] == NextStep("Repair it.", "repair")
    assert {step.text for step in likely} == {step.text for step in unlikely}


@pytest.mark.parametrize("cause", sorted(causes()))
def test_every_verdict_below_high_says_what_to_collect_and_what_it_decides(cause: str) -> None:
    steps = advise(_job(), _Diagnosis(_finding(cause, 0.6, ranks=(3,), hosts=("node02",))))
    if cause == "no-fault-found":
        assert steps == ()
        return
    assert any(step.command and step.decides for step in steps)
    assert all(step.decides for step in steps)


def test_sure_verdicts_ask_for_nothing_more() -> None:
    remedy = Remedy("Look at it.", "dmesg -T | tail")
    steps = advise(_job(), _Diagnosis(_finding("gpu-fell-off-bus", 0.9, remedy, hosts=("node02",))))
    assert steps == (NextStep("Look at it.", 'ssh node02 "dmesg -T | tail"'),)


@pytest.mark.parametrize(
    ("command", "ready"),
    [
        (
            "df -h /dev/shm; ls -l /dev/shm",
            'srun --jobid=1234 --overlap -w node02 bash -c "df -h /dev/shm; ls -l /dev/shm"',
        ),
        ("sacct -j JOBID --format=JobID,State", "sacct -j 1234 --format=JobID,State"),
        ("nc -vz MASTER_ADDR MASTER_PORT", "nc -vz node01 29500"),
        ("ping HOST", "ping node02"),
        ("scontrol update nodename=NODE state=drain", "scontrol update nodename=node02 state=drain"),
        ("ss -ltnp | grep PORT", 'srun --jobid=1234 --overlap -w node02 bash -c "ss -ltnp | grep 29511"'),
        ("docker run --shm-size=8g ...", "docker run --shm-size=8g ..."),
        ("kill -CONT PID", "srun --jobid=1234 --overlap -w node02 kill -CONT 4703"),
        ("torchrun --rdzv_endpoint=HOST:29500 t.py", "torchrun --rdzv_endpoint=HOST:29500 t.py"),
    ],
)
def test_remedies_name_the_hosts_pids_and_ids_of_this_job(command: str, ready: str) -> None:
    job = _job(launch=Launch("srun", "slurm", "1234"))
    title = "Port 29511 is taken"
    verdict = _finding("process-frozen", 0.9, Remedy("Do.", command), ranks=(3,), hosts=("node02",), title=title)
    assert _commands(job, verdict) == [ready]


def test_the_pid_that_only_a_title_tells_is_filled_in() -> None:
    title = "Rank 9 sleeps uninterruptibly (pid 4242, state Dl)"
    verdict = _finding("checkpoint-stall", 0.9, Remedy("Do.", "ps -p PID"), ranks=(9,), hosts=("node02",), title=title)
    assert _commands(replace(_job(), stuck=()), verdict) == ["ssh node02 ps -p 4242"]


@pytest.mark.parametrize(
    ("cause", "ready"), [("master-unreachable", "nc -vz node01 29500"), ("network-unreachable", "nc -vz HOST 29511")]
)
def test_port_that_is_tried_for_a_rendezvous_is_that_of_the_job(cause: str, ready: str) -> None:
    assert _commands(_job(), _finding(cause, 0.9, Remedy("Try it.", "nc -vz HOST 29511"))) == [ready]


@pytest.mark.parametrize(
    ("title", "command", "ready"),
    [
        ("Nothing answers at the store's address node07:29511", "nc -vz HOST 29500", "nc -vz node07 29511"),
        ("Nothing answers at the store's address node07:?", "nc -vz HOST 29500", "nc -vz HOST 29500"),
        ("Connections to 10.2.0.5 do not come about", "nc -zv HOST 45000", "nc -zv 10.2.0.5 45000"),
        ("Connections to ? do not come about", "nc -zv HOST 45000", "nc -zv HOST 45000"),
        ("10.2.0.5 refuses connections of NCCL", "nc -vz HOST 45000", "nc -vz 10.2.0.5 45000"),
        ("Ranks cannot connect to 10.2.0.5: No route to host", "nc -vz HOST 34194", "nc -vz 10.2.0.5 34194"),
        ("Ranks cannot connect to 10.2.0.5: No route to host", "nc -l 34194", "ssh 10.2.0.5 nc -l 34194"),
        ("Error 12 between node02 and node01", "ib_write_bw -d DEVICE HOST", "ib_write_bw -d DEVICE node01"),
        ("Error 12", "ib_write_bw -d DEVICE HOST", "ib_write_bw -d DEVICE HOST"),
        ("No address", "nslookup MASTER_ADDR", "nslookup node01"),
        ("No address", "nc -vz MASTER_ADDR MASTER_PORT", "nc -vz node01 29500"),
        ("No address", "export MASTER_ADDR=HOST", "export MASTER_ADDR=HOST"),
        ("Connections to a$(id) do not come about", "nc -zv HOST 45000", "nc -zv HOST 45000"),
        ("Connections to -e.id do not come about", "nc -zv HOST 45000", "nc -zv HOST 45000"),
    ],
)
def test_the_address_that_the_verdict_names_is_the_one_to_try(title: str, command: str, ready: str) -> None:
    verdict = _finding("network-unreachable", 0.9, Remedy("Try it.", command), title=title)
    assert _commands(_job(), verdict) == [ready]


BOOTSTRAP = "node0{0}:10{0}:10{0} [0] NCCL INFO Bootstrap : Using {1}:10.0.0.{0}<0>"


@pytest.mark.parametrize(
    ("interfaces", "ready"),
    [
        (("ens3", "ens3"), "NCCL_SOCKET_IFNAME=ens3"),
        (("ens3", "ens4"), "NCCL_SOCKET_IFNAME=IFNAME"),
        (("ens3",), "NCCL_SOCKET_IFNAME=IFNAME"),
        (("docker0", "docker0"), "NCCL_SOCKET_IFNAME=IFNAME"),
        ((), "NCCL_SOCKET_IFNAME=IFNAME"),
    ],
)
def test_only_an_interface_that_all_hosts_have_is_named(interfaces: tuple[str, ...], ready: str) -> None:
    lines = [BOOTSTRAP.format(at, name) for at, name in enumerate(interfaces, 1)]
    job = _job(extra={"nccl.log": lines})
    assert _commands(job, _finding("network-unreachable", 0.9, Remedy("Name it.", "NCCL_SOCKET_IFNAME=IFNAME"))) == [
        ready
    ]


def test_no_rule_names_an_interface_that_nobody_saw_or_a_command_behind_a_comment() -> None:
    for rule in load_rules():
        for remedy in rule.remedies:
            assert not re.search(r"IFNAME=(?:eth|ens|ib)|# *t?here\b|hosts \$MASTER", remedy.command or ""), rule.id


def test_slurm_is_not_asked_about_a_job_that_runs_without_it() -> None:
    sacct = Remedy("Ask the scheduler.", "sacct -j JOBID")
    verdict = _finding("rank-vanished", 0.9, sacct, Remedy("Look.", "dmesg -T"), hosts=("node02",))
    assert _commands(_job(launch=Launch("torchrun")), verdict) == ["ssh node02 dmesg -T"]
    assert _commands(_job(launch=Launch()), verdict)[0] == "sacct -j JOBID"
    assert _commands(_job(launch=Launch("torchrun", "slurm", "7")), verdict)[0] == "sacct -j 7"


def test_what_looks_at_a_machine_says_at_which() -> None:
    look = Remedy("See it.", "ibstat")
    assert _commands(_job(), _finding("ib-transport-error", 0.9, look, ranks=(3,))) == ["ssh node02 ibstat"]
    both = "for host in node01 node02; do ssh $host ibstat; done"
    assert _commands(_job(), _finding("ib-transport-error", 0.9, look, hosts=("node01", "node02"))) == [both]
    assert _commands(_job(), _finding("ib-transport-error", 0.9, look)) == [both]
    told = _finding("ib-transport-error", 0.9, look, title="Error 12: no answer between node02 and 10.2.0.5")
    assert _commands(_job(), told) == ["for host in node02 10.2.0.5; do ssh $host ibstat; done"]
    both_ends = replace(told, remedies=(Remedy("Look at the ports of both hosts.", "ibstat"),))
    assert _commands(_job(), both_ends) == _commands(_job(), told)
    listed = replace(told, remedies=(Remedy("Look.", "ibstat; show_gids"), Remedy("Do.", "ibstat; reboot")))
    assert _commands(_job(), listed) == [
        'for host in node02 10.2.0.5; do ssh $host "ibstat; show_gids"; done',
        "ibstat; reboot",
    ]


@pytest.mark.parametrize("host", ["job-worker-0", "job-master-0", "train-0-x7k2p", "train-7d4b9c6f5d-x7k2p"])
def test_nobody_is_sent_by_ssh_into_what_may_be_a_pod(host: str) -> None:
    assert Reach(Launch()).on(host, "ip -br addr") == f"ip -br addr   # on {host}"
    assert Reach(Launch(platform="kubernetes")).on(host, "ip -br addr") == f"kubectl exec {host} -- ip -br addr"
    several = Reach(Launch(pdsh=True)).everywhere([host, "node01"], "ip -br addr")
    assert several == f"ip -br addr   # on each of {host}, node01"
    assert Reach(Launch()).on("node-01", "ip -br addr") == "ssh node-01 ip -br addr"


def test_remedies_about_all_hosts_run_on_all_hosts() -> None:
    look, do = (
        Remedy("Compare all hosts.", "ip -br addr; ip route"),
        Remedy("Do it on all hosts.", "modprobe nvidia_peermem"),
    )
    assert _commands(_job(), _finding("env-mismatch", 0.9, look, do)) == [
        'for host in node01 node02; do ssh $host "ip -br addr; ip route"; done',
        "modprobe nvidia_peermem",
    ]


@given(host=st.text(max_size=20), command=st.sampled_from(["py-spy dump --pid 7", "dmesg -T | tail", "a $(b) 'd'"]))
def test_names_of_the_evidence_never_become_shell_code(host: str, command: str) -> None:
    is_plain = bool(host) and set(host) <= _OF_NAMES and host[0].isalnum()
    for launch in (Launch(), Launch("srun", "slurm", "1"), Launch(None, "kubernetes", pods={host: host})):
        on = Reach(launch).on(host, command)
        assert is_plain or on == command
        if not is_plain:
            assert "node01" not in Reach(launch).everywhere([host, "node01"], command), "nor some of the hosts only"


def test_fixtures_with_open_verdicts_tell_what_to_collect(checkout: Path) -> None:
    seen = 0
    for case in sorted((checkout / "fixtures").glob("*/case.yaml")):
        logs = case.parent / "logs"
        if sum(path.stat().st_size for path in logs.rglob("*") if path.is_file()) > 40_000:
            continue
        report = analyze(logs, jobs=1)
        verdict = report.verdict
        is_open = verdict.confidence < 0.8 or verdict.role is Role.SYMPTOM or verdict.cause == "insufficient-evidence"
        if is_open and verdict.cause != "no-fault-found":
            seen += 1
            assert any(step.command and step.decides for step in report.next_steps), (case.parent.name, verdict.rule)
    assert seen > 5
