"""How processes ended, and why, is read out of what supervisors and the processes themselves say."""

from __future__ import annotations

import io

import pytest

from hangscope.align.job import Job, align
from hangscope.diagnose.kinds import known_kinds
from hangscope.facts import exceptions, gpu, host, process
from hangscope.facts.abort_reasons import REASON_KINDS
from hangscope.facts.death import Death, expand_hosts, expand_numbers, signal_name, signal_of_code
from hangscope.facts.deaths import find_deaths
from hangscope.model import Fact
from hangscope.parse.reader import read_stream

TABLE = """\
W1129 15:54:12.252000 8087 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 8095 closing signal SIGTERM
E1129 15:54:12.538000 8087 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: 2 (pid: 8097) of binary: /venv/bin/python3
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-29_15:54:12
  host      : node01
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 8095)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 8095
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_15:54:12
  host      : node01
  rank      : 2 (local_rank: 2)
  exitcode  : {code} (pid: 8097)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""  # noqa: E501, W291  (as printed)


def job_of(**files: str) -> Job:
    """A job of these files ("job" becomes job.log)."""
    return align([read_stream(f"{name}.log", io.BytesIO(text.encode())) for name, text in files.items()])


def kinds(facts: list[Fact]) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(fact.kind, []).append(fact)
    return found


def traceback(error: str, rank: int | None = None) -> str:
    tag = f"[rank{rank}]: " if rank is not None else ""
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 2, in main', "    go()", error]
    return "".join(f"{tag}{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node01", ["node01"]),
        ("node[01-03,07],login1", ["node01", "node02", "node03", "node07", "login1"]),
        ("gpu-a[9-10]-ib", ["gpu-a9-ib", "gpu-a10-ib"]),
    ],
)
def test_node_lists(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


def test_task_lists() -> None:
    assert expand_numbers("0-2,5") == [0, 1, 2, 5]
    assert expand_numbers("x") == []


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("9", "SIGKILL"),
        (15, "SIGTERM"),
        ("Signals.SIGTERM", "SIGTERM"),
        ("Killed", "SIGKILL"),
        ("nothing", ""),
        (None, ""),
    ],
)
def test_signal_names(said: object, name: str) -> None:
    assert signal_name(said) == name


def test_exit_codes() -> None:
    assert [signal_of_code(code) for code in (-9, 137, 143, 1, 0, None)] == [
        "SIGKILL",
        "SIGKILL",
        "SIGTERM",
        "",
        "",
        "",
    ]


def test_a_table_and_the_agents_line_are_one_death() -> None:
    deaths = find_deaths(job_of(job=TABLE.format(code=-9)))
    assert [(d.rank, d.signal, d.first, d.victim, d.pid, d.host) for d in deaths] == [
        (0, "SIGTERM", False, True, 8095, "node01"),
        (2, "SIGKILL", True, False, 8097, "node01"),
    ]
    assert [event.line.number for event in deaths[1].evidence] == [21, 20, 2]


def test_tasks_are_ranks_unless_torchrun_runs_inside() -> None:
    line = "srun: error: node02: tasks 2-3: Killed\n"
    assert [d.rank for d in find_deaths(job_of(job=line))] == [2, 3]
    assert all(d.rank in (None, 0, 2) for d in find_deaths(job_of(job=line + TABLE.format(code=1))))


def test_terminated_peers_of_a_failed_task_are_victims() -> None:
    text = "srun: error: node02: task 3: Segmentation fault (core dumped)\nsrun: error: node01: tasks 0-1: Terminated\n"
    found: list[Death] = find_deaths(job_of(job=text))
    assert [(d.rank, d.victim) for d in found] == [(0, True), (1, True), (3, False)]


@pytest.mark.parametrize(
    ("error", "category"),
    [
        ("ValueError: bad batch", "ordinary"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "gpu"),
        ("OSError: [Errno 24] Too many open files: 'x'", "resource"),
        ("MemoryError", "memory"),
        ("ValueError: host not found: Name or service not known", "launch"),
        ("RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running", "collective"),
    ],
)
def test_reasons(error: str, category: str) -> None:
    [fact] = kinds(list(exceptions.find(job_of(job=traceback(error, 1)))))["raised"]
    assert (fact.fields["category"], fact.ranks, fact.fields["uncaught"]) == (category, (1,), True)
    assert fact.fields["where"] == "/w/train.py:2 main"


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [/__w/pytorch/third_party/gl",
        "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.1]:10668.",
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited",
        "torch.distributed.DistStoreError: wait timeout after 15000ms, keys: /default_pg/0",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 20000ms for recv operation to complete",
    ],
)
def test_echoes(error: str) -> None:
    found = kinds(list(exceptions.find(job_of(job=traceback(error, 1)))))
    assert list(found) == ["raised_consequence"]


def test_the_one_exception_without_a_rank_is_the_first_failures() -> None:
    [fact] = kinds(list(exceptions.find(job_of(job=traceback("ValueError: x") + TABLE.format(code=1)))))["raised"]
    assert fact.ranks == (2,)


def test_a_watchdogs_abort_is_no_crash() -> None:
    watchdog = (
        "[rank2]:[E1129 15:54:12.123456789 ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
        "ran for 600045 milliseconds before timing out.\n"
    )
    assert "crashed" in kinds(list(process.find(job_of(job=TABLE.format(code=-6)))))
    assert "crashed" not in kinds(list(process.find(job_of(job=watchdog + TABLE.format(code=-6)))))


def test_the_kernel_names_the_ranks_pid() -> None:
    kernel = (
        "[Sun Nov 29 15:56:51 2026] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n"
        "[Sun Nov 29 15:56:51 2026] Out of memory: Killed process 8097 (python3) total-vm:2kB, anon-rss:1kB\n"
    )
    [fact] = kinds(list(host.find(job_of(job=TABLE.format(code=-9), dmesg=kernel))))["memory_kill"]
    assert (fact.ranks, fact.hosts, fact.fields["anon_rss_kb"]) == ((2,), ("node01",), 1)
    assert [evidence.at.file for evidence in fact.evidence[:2]] == ["dmesg.log", "dmesg.log"]


def test_ping_names_the_host_as_the_user_does() -> None:
    text = (
        "$ ping -c 3 node02\nPING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.\n\n"
        "3 packets transmitted, 0 received, 100% packet loss, time 2041ms\n"
    )
    [fact] = kinds(list(host.find(job_of(ping=text))))["node_gone"]
    assert fact.hosts == ("node02",)


def test_space_on_shm_is_not_a_full_disk() -> None:
    facts = kinds(
        list(
            host.find(
                job_of(
                    job="OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'\n"
                    "OSError: [Errno 28] No space left on device: '/ckpt/a'\n"
                )
            )
        )
    )["space_exhausted"]
    assert [fact.fields["place"] for fact in facts] == ["shm", "disk"]


def xid(number: int, text: str, bus: str = "0000:61:00") -> str:
    return f"[Fri Mar  3 04:23:22 2023] NVRM: Xid (PCI:{bus}): {number}, pid=77, name=python3, {text}\n"


def test_the_first_serious_xid_is_primary() -> None:
    text = (
        xid(74, "NVLink: fatal error detected on link 8")
        + xid(119, "Timeout after 45s", "0000:0b:00")
        + xid(45, "Ch 1")
    )
    facts = kinds(list(gpu.find(job_of(dmesg=text))))["gpu_fault"]
    assert [(f.fields["xid"], f.fields["cause"], f.fields["primary"]) for f in facts] == [
        (74, "nvlink-error", True),
        (119, "gpu-hardware-error", False),
    ]


def test_the_aftermath_names_the_missing_first_event() -> None:
    [fact] = kinds(list(gpu.find(job_of(dmesg=xid(45, "Ch 00000001 caused by previous Xid 149")))))["gpu_fault"]
    assert (fact.fields["xid"], fact.fields["cause"], fact.fields["weak"]) == (149, "nvlink-error", True)


def test_a_bus_id_leads_to_the_rank() -> None:
    nccl = (
        "node01:12:12 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 3b000 "
        "commId 0xab - Init COMPLETE\n"
    )
    job = align(
        [
            read_stream("job.log", io.BytesIO(nccl.encode())),
            read_stream("node01-dmesg.log", io.BytesIO(xid(79, "GPU has fallen off the bus.", "0000:3b:00").encode())),
        ]
    )
    [fact] = kinds(list(gpu.find(job)))["gpu_fault"]
    assert fact.ranks == (1,)


def test_torn_and_hostile_lists_cost_only_themselves() -> None:
    digits = "9" * 5000
    assert expand_hosts(f"n[,-],m[-3],k[{digits}-{digits}],node[1-2]") == ["node1", "node2"]
    assert expand_numbers(f"{digits},1-{digits},5") == [5]


# --- who leaves early -------------------------------------------------------------------------------------


def last_words(*words: str, agent: str = "") -> list[tuple[int, ...]]:
    """Ranks that are said to have ended before rank 3, which lost a peer; rank 0, with pid 8095, said these words."""
    init = "node01:8095:8095 [0] NCCL INFO comm 0x55 rank 0 nranks 4 cudaDev 0 busId 1a000 - Init COMPLETE"
    lost = traceback("torch.distributed.DistNetworkError: Connection reset by peer", 3)
    job = job_of(rank0="".join(f"{line}\n" for line in (init, *words)), rank3=lost, agent=agent)
    return [fact.ranks for fact in kinds(list(process.find(job))).get("ended_before_others", [])]


def test_rank_whose_last_words_are_a_farewell_left_early() -> None:
    assert last_words("model saved, leaving") == [(0,)]


def test_nccl_completes_an_init_and_says_no_farewell() -> None:
    assert last_words() == []


def test_rank_that_the_launcher_ends_does_not_leave() -> None:
    assert last_words("model saved, leaving", agent=TABLE.format(code=1).splitlines(keepends=True)[0]) == []


@pytest.mark.parametrize(
    ("line", "crashed"),
    [
        ("Added key: store_based_barrier_key:1 to store for rank: 2", True),
        ("node01:8097:8097 [2] NCCL INFO cudaDriverVersion 12040", True),
        ("[rank2]: CUDA error: device-side assert triggered", False),
        ("[Rank 2] Got error while waiting for tensors: [/w/pair.cc:9] Connection closed by peer [10.0.0.1]:9", False),
    ],
)
def test_only_a_fault_is_a_reason_to_abort(line: str, *, crashed: bool) -> None:
    found = kinds(list(process.find(job_of(job=f"{line}\n{TABLE.format(code=-6)}"))))
    assert ("crashed" in found) is crashed


def test_reasons_to_abort_are_kinds_of_events() -> None:
    assert known_kinds().keys() >= REASON_KINDS
