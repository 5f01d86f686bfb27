"""Which jobs talk over gloo alone."""

from __future__ import annotations

import pytest

from hangscope.align.backends import talks_over_gloo_alone
from hangscope.align.stacks import Stacks
from nccl_logs import Rank, job_of

GLOO = "RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:3095."
WATCHDOG = "[E1115 16:42:37.768057301 ProcessGroupNCCL.cpp:1936] [PG ID 0 PG GUID 0 Rank 1] Exception"


@pytest.mark.parametrize(
    ("lines", "alone"),
    [
        ([GLOO], True),
        ([], False),
        (["loss 0.1"], False),
        ([GLOO, *Rank(1, 2).init().lines], False),
        ([GLOO, WATCHDOG + " hit NCCL watchdog thread terminated with exception: x"], False),
        ([GLOO, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB."], False),
    ],
    ids=["gloo", "nothing", "neither", "nccl beside it", "torch's nccl beside it", "a gpu beside it"],
)
def test_lines_tell_what_a_job_talks_over(lines: list[str], alone: bool) -> None:
    assert job_of({"a.log": lines}).without_nccl is alone


@pytest.mark.parametrize(
    ("call", "alone"),
    [
        ('dist.init_process_group(backend="gloo", init_method="env://")', True),
        ("dist.init_process_group('gloo')", True),
        ("init_process_group(init_method=url, backend='cpu:gloo')", True),
        ('dist.init_process_group("cpu:gloo,cuda:nccl")', False),
        ('dist.init_process_group(backend="nccl")', False),
        ('dist.init_process_group(backend="nccl" if on_gpu else "gloo")', False),
        ("dist.init_process_group(backend=args.backend)", False),
        ('dist.new_group(backend="gloo")', False),
        ("dist.init_process_group(init_method='tcp://gloo:1')", False),
    ],
)
def test_the_call_in_a_traceback_names_the_backend(call: str, alone: bool) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/workspace/train.py", line 10, in setup',
        f"    {call}",
        "torch.distributed.DistStoreError: Timed out after 13 seconds waiting for clients. 3/4 clients joined.",
    ]
    assert job_of({"a.log": lines}).without_nccl is alone
    assert not job_of({"a.log": [*lines, *Rank(1, 2).init().lines]}).without_nccl


@pytest.mark.parametrize(
    ("recorded", "alone"), [("gloo", True), ("cpu:gloo,cuda:nccl", False), ("nccl", False), ("", False)]
)
def test_recordings_tell_what_a_job_talks_over(recorded: str, alone: bool) -> None:
    assert talks_over_gloo_alone([], Stacks(), recorded) is alone
