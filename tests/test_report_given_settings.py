"""Settings in the evidence that have no effect, an old name, or a name that nobody reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangscope.align.versions import Versions
from hangscope.diagnose.verdict import choose_verdict
from hangscope.report.build import build_report
from hangscope.report.given_settings import remarks_on_settings
from nccl_logs import job_of

LAUNCH = "launch.py:207: FutureWarning: The module torch.distributed.launch is deprecated"
OLD = "+ python -m torch.distributed.launch --nproc_per_node=2 --use_env train.py"
WARNED = "[W] Environment variable NCCL_BLOCKING_WAIT is deprecated; use TORCH_NCCL_BLOCKING_WAIT instead"
OLD_NAME = "(job.log:1) is an old name, read with a warning until it is dropped: PyTorch 2.2 and later call it"
NO_EFFECT = "(job.log:1) has no effect:"
NOBODYS = "(job.log:1) is a name that neither NCCL nor PyTorch reads;"
REPLACED = "(job.log:1) starts the job; torchrun replaced it in PyTorch 1.10"


def _warnings(lines: list[str], **seen: str) -> list[str]:
    job = replace(job_of({"job.log": lines}), versions=Versions(torch=seen.get("torch"), nccl=seen.get("nccl")))
    return [remark.warning for remark in remarks_on_settings(job)]


@pytest.mark.parametrize(
    ("line", "seen", "warning"),
    [
        ("export NCCL_ASYNC_ERROR_HANDLING=1", {"torch": "2.5.1"}, f"{OLD_NAME} TORCH_NCCL_ASYNC_ERROR_HANDLING."),
        ("export NCCL_ASYNC_ERROR_HANDLING=1", {"torch": "2.1.2"}, None),
        ("export NCCL_ASYNC_ERROR_HANDLING=1", {}, None),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING=1", {"torch": "2.5.1"}, None),
        (
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
            {"torch": "2.1.2"},
            f"{NO_EFFECT} PyTorch reads it from 2.2 on; this one is older and calls it NCCL_ASYNC_ERROR_HANDLING.",
        ),
        (
            "TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
            {"torch": "2.0.1"},
            f"{NO_EFFECT} PyTorch reads it from 2.2 on, and this one is older.",
        ),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE=2000", {"torch": "2.9.0"}, None),
        (
            "TORCH_NCCL_AVOID_RECORD_STREAMS=1",
            {"torch": "2.9.0"},
            "=1 (job.log:1) is not needed any more: it is the default now.",
        ),
        (WARNED, {}, f"{OLD_NAME} TORCH_NCCL_BLOCKING_WAIT."),
        (
            "NCCL_IB_CUDA_SUPPORT=1",
            {"nccl": "2.18.3"},
            "NCCL does not read it from 2.4 on. NCCL_NET_GDR_LEVEL says how far GPU Direct RDMA may reach.",
        ),
        ("NCCL_IB_CUDA_SUPPORT=1", {"nccl": "2.3.7"}, None),
        ("NCCL_IB_CUDA_SUPPORT=1", {}, None),
        ("NCCL_CUMEM_ENABLE=0", {"nccl": "2.14.3"}, f"{NO_EFFECT} NCCL reads it from 2.18 on, and this one is older."),
        ("NCCL_SOCKET_IF_NAME=eth0", {}, f"{NOBODYS} NCCL_SOCKET_IFNAME was probably meant."),
        ("NCCL_P2P_DISABLED=1", {}, f"{NOBODYS} NCCL_P2P_DISABLE was probably meant."),
        ("NCCL_OFI_TUNER_TYPE=1", {}, None),
        ("NCCL_MY_OWN_THING=1", {}, None),
        ("NCCL_IB_HCA=mlx5_0", {}, None),
        ("NCCL_VERSION=2.18.3", {}, None),
        (LAUNCH, {}, f"{REPLACED}."),
        (OLD, {"torch": "2.1"}, f"{REPLACED}; torchrun always does what --use_env asks for."),
        (OLD, {"torch": "1.8.1"}, None),
    ],
)
def test_settings_are_measured_by_the_versions_seen(line: str, seen: dict[str, str], warning: str | None) -> None:
    found = _warnings([line], **seen)
    assert len(found) == (warning is not None)
    assert all(text.endswith(warning or "") for text in found), found


def test_no_file_at_the_level_version() -> None:
    file = "NCCL_DEBUG_FILE=/tmp/n.%h.%p"
    (found,) = _warnings(["NCCL_DEBUG=VERSION", file])
    assert found == "NCCL_DEBUG_FILE (job.log:2) has no effect with NCCL_DEBUG=VERSION: NCCL opens it from WARN on."
    assert _warnings(["NCCL_DEBUG=INFO", file]) == _warnings([file]) == []


def test_one_remark_a_setting_and_those_without_effect_first() -> None:
    lines = ["NCCL_ASYNC_ERROR_HANDLING=1", "NCCL_P2P_DISABLED=1", "NCCL_P2P_DISABLED=1"]
    found = _warnings(lines, torch="2.5.1")
    assert [text.split(" ")[0] for text in found] == ["NCCL_P2P_DISABLED", "NCCL_ASYNC_ERROR_HANDLING=1"]


def test_what_nccl_reads_is_not_misspelt() -> None:
    line = "node01:11:11 [0] NCCL INFO NCCL_NEW_P2P_DISABLE set by environment to 1."
    assert _warnings([line]) == []


def test_the_report_warns_and_says_what_to_do() -> None:
    job = job_of({"job.log": ["export NCCL_P2P_DISABLED=1"]})
    report = build_report(job, choose_verdict((), ()))
    assert any(warning.startswith("NCCL_P2P_DISABLED (job.log:1)") for warning in report.warnings)
    assert report.next_steps[-1].command == "export NCCL_P2P_DISABLE=1"
    assert report.next_steps[-1].decides == "whether it helps when it is read"
    assert len(report.next_steps) <= 8


@pytest.mark.parametrize("value", ["$(reboot)", "1;reboot", "`reboot`", "a&b", "1|sh"])
def test_values_of_the_evidence_never_become_shell_code(value: str) -> None:
    job = job_of({"job.log": [f"export NCCL_P2P_DISABLED={value}", f"NCCL_ASYNC_ERROR_HANDLING={value}"]})
    remarks = remarks_on_settings(replace(job, versions=Versions(torch="2.5.1")))
    assert [(remark.step.command or "").partition("export ")[2] for remark in remarks] == [
        "NCCL_P2P_DISABLE=...",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=...",
    ]
