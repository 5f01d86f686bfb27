"""Pods of kubectl, nodes and records of Slurm: who is not there, who was stopped and by what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.facts import host, pods, process
from nccl_logs import Rank, job_of, parse

HEAD = "NAME           READY   STATUS             RESTARTS      AGE   IP          NODE"


def row(pod: str, status: str, node: str = "node01") -> str:
    return f"{pod}   1/1     {status}   2 (20s ago)   5m    10.1.0.1    {node}"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("Pending", "pod_not_started"),
        ("Init:ImagePullBackOff", "pod_not_started"),
        ("CrashLoopBackOff", "pod_failed"),
        ("Terminating", "pod_deleted"),
        ("Completed", None),
    ],
)
def test_pod_stands_out_among_those_of_its_kind(status: str, kind: str | None) -> None:
    table = [HEAD, row("job-worker-0", "Running"), row("job-worker-1", status), row("other-x", "Pending")]
    logs = Rank(1, 2, host="job-worker-1").init().lines
    found = [(fact.kind, fact.hosts, fact.ranks) for fact in pods.find(job_of({"pods.txt": table, "a.log": logs}))]
    assert found == ([(kind, ("job-worker-1",), (1,))] if kind else [])


def test_killed_pod_of_the_table_is_a_memory_kill() -> None:
    (fact,) = host.find(job_of({"pods.txt": [HEAD, row("job-worker-0", "OOMKilled")]}))
    assert (fact.kind, fact.fields["how"]) == ("memory_kill", "Kubernetes reports OOMKilled")


@pytest.mark.parametrize(
    ("line", "reason", "told"),
    [
        ("4711|train|TIMEOUT|0:0|node01||", "the job's time limit", True),
        ("4711              train        gpu       acct         16 PREEMPTED        0:0", "preemption", True),
        ("4711|train|CANCELLED by 1000|0:0|node01||", "scancel", False),
        ("4711.batch|batch|CANCELLED|0:15|node01||", None, None),
        (
            "Normal  Killing  2m  kubelet  Container trainer failed liveness probe, will be restarted",
            "a failed liveness probe",
            True,
        ),
    ],
)
def test_record_tells_why_a_job_was_stopped(line: str, reason: str | None, told: object) -> None:
    found = [f.fields for f in process.find(job_of({"a.txt": [line]})) if f.kind == "stopped_from_outside"]
    assert [(f["reason"], f["told"]) for f in found] == ([(reason, told)] if reason else [])


def test_record_of_memory() -> None:
    facts = host.find(job_of({"a.txt": ["4711.0|python|OUT_OF_MEMORY|0:125|node02||"]}))
    assert [fact.kind for fact in facts] == ["memory_kill"]


@pytest.mark.parametrize(
    "lines",
    [
        ["NodeName=node02 Arch=x86_64 CoresPerSocket=32", "   State=DOWN* ThreadsPerCore=2 TmpDisk=0"],
        ["gpu*         up 1-00:00:00      1  down* node02"],
        ["Not responding       slurm     2026-11-30T08:00:00 node[02-03]"],
    ],
    ids=["scontrol", "sinfo", "sinfo-R"],
)
def test_node_that_is_down_is_gone(lines: list[str]) -> None:
    logs = Rank(0, 2, host="node02").init().lines
    facts = [fact for fact in host.find(job_of({"a.txt": lines, "rank.log": logs})) if fact.kind == "node_gone"]
    assert [fact.hosts[0] for fact in facts] == ["node02"]
    assert list(host.find(job_of({"a.txt": lines, "rank.log": Rank(0, 2, host="node09").init().lines}))) == []


def test_node_that_drains_is_there() -> None:
    lines = ["NodeName=node02 Arch=x86_64 CoresPerSocket=32", "   State=MIXED+DRAIN ThreadsPerCore=2 TmpDisk=0"]
    assert list(host.find(job_of({"a.txt": lines}))) == []


@given(st.lists(st.text(alphabet="NAMERDYSTUn-0123/ (ago)<>:", max_size=60), max_size=8))
def test_any_rows_of_pods_are_read(lines: list[str]) -> None:
    assert parse([HEAD, *lines]).record.error is None
