"""Names: what files and folders tell about rank, host, process and attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.sources.origin import FileHints, hints


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank3.log", FileHints(rank=3)),
        ("rank_3.out", FileHints(rank=3)),
        ("train-rank-12.txt", FileHints(rank=12)),
        ("global_rank=5.log.gz", FileHints(rank=5)),
        ("rank0/stdout.log", FileHints(rank=0)),
        ("fr/nccl_trace_rank_2", FileHints(rank=2)),
        ("fr/nccl_trace_rank_1023", FileHints(rank=1023)),
        ("local_rank_3.log", FileHints(local_rank=3)),
        ("none_n1km/attempt_1/2/stderr.log", FileHints(local_rank=2, attempt=1)),
        ("slurm-123_3.out", FileHints(rank=3)),
        ("slurm-4242.out", FileHints()),
        ("job-3.log", FileHints()),
        ("proc0.log", FileHints()),
        ("train-run1.log", FileHints()),
        ("gpu-burn.log", FileHints()),
        ("worker-3.log", FileHints(host="worker-3")),
        ("job-worker-0.log", FileHints(host="job-worker-0")),
        ("ip-10-0-0-3.log", FileHints(host="ip-10-0-0-3")),
        ("gpu0001.log", FileHints(host="gpu0001")),
        ("node01.cluster.log", FileHints(host="node01")),
        ("node01-rank1.txt", FileHints(rank=1, host="node01")),
        ("node01/rank0-pyspy.txt", FileHints(rank=0, host="node01")),
        ("node01-nvidia-smi-procs.txt", FileHints(host="node01")),
        ("pyspy-node49.txt", FileHints(host="node49")),
        ("pyspy/node01-18968.txt", FileHints(host="node01", pid=18968)),
        ("pyspy-33550.txt", FileHints()),
        ("nccl.node01.29643.log", FileHints(host="node01", pid=29643)),
        ("nccl.somehost.77", FileHints(host="somehost", pid=77)),
        ("bundle.tar.gz/node07/train.log", FileHints(host="node07")),
        # a word in the name of a scenario's folder is no statement about its files
        ("tokenizing-on-rank0/torchrun.log", FileHints()),
        ("", FileHints()),
    ],
)
def test_hints(name: str, expected: FileHints) -> None:
    assert hints(name) == expected


@given(st.text(max_size=200))
def test_any_name_is_accepted(name: str) -> None:
    hints(name)


def test_number_that_python_refuses_is_no_hint() -> None:
    digits = "9" * 5000
    assert hints(f"attempt_{digits}/0/stderr.log").attempt is None
    assert hints(f"nccl.node01.{digits}.log").pid is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("stacks/stack_node01_3.txt", FileHints(local_rank=3, host="node01")),
        ("py-spy-node02-1.txt", FileHints(local_rank=1, host="node02")),
        ("node01-gpu5.txt", FileHints(local_rank=5, host="node01")),
        ("stack_node01.txt", FileHints(host="node01")),
        ("node01_2.txt", FileHints(host="node01_2")),
        ("pyspy/rank1-native.txt", FileHints(rank=1)),
        ("pyspy/node01-rank1.txt", FileHints(rank=1, host="node01")),
        ("py-spy-rank0.txt", FileHints(rank=0)),
        ("node02-agent.txt", FileHints(host="node02")),
        ("node01-18967.txt", FileHints(host="node01", pid=18967)),
        ("rank2.before.txt", FileHints(rank=2)),
    ],
)
def test_names_of_stack_dumps(name: str, expected: FileHints) -> None:
    assert hints(name) == expected
