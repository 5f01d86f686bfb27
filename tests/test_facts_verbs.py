"""Completion errors of InfiniBand and RoCE: statuses and vendors' numbers in words, and mlx5's own dumps."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hangscope.api import analyze_text
from hangscope.facts.codes import verbs as codes
from hangscope.facts.codes.verbs import mlx5_status, status_of, vendor_words

TABLE = tomllib.loads(Path(codes.__file__).with_name("verbs.toml").read_text(encoding="utf-8"))
ERROR = (
    "node01:101:110 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> "
    "with error {}, opcode 0, len 0, vendor err {}"
)
DUMP = """\
mlx5: node02: got completion with error:
00000000 00000000 00000000 00000000
00000000 00000000 00000000 00000000
0000001a 00000000 00000000 00000000
00000000 {} 10000123 0001e4d2
"""


def test_every_status_of_the_table_says_all() -> None:
    for row in TABLE["status"]:
        status = status_of(row["number"])
        assert all((status.name, status.meaning, status.usual, status.check))
        assert status.accuses in ("own", "peer", "path", "nobody")
    assert status_of(77).name == ""


@pytest.mark.parametrize(
    ("code", "status", "device", "expected"),
    [
        (129, 12, "mlx5_3", "retries are used up"),
        (129, 12, "", "If this is an mlx5 adapter"),
        (129, 11, "", ""),
        (129, 12, "efa_0", ""),
        (9, 15, "rdmap16s27", "its process is gone"),
        (249, 4, "mlx5_0", "should come with status 5"),
        (129, 12, "bnxt_re0", ""),
        (12345678, 12, "irdma0", ""),
    ],
)
def test_a_vendors_number_is_read_by_its_own_table(code: int, status: int, device: str, expected: str) -> None:
    words = vendor_words(code, status, device)
    assert expected in words
    assert bool(words) is bool(expected)


def test_twelve_and_129_are_explained() -> None:
    [finding] = [found for found in analyze_text(ERROR.format(12, 129)) if found.cause == "ib-transport-error"]
    for words in (
        "status 12 (IBV_WC_RETRY_EXC_ERR)",
        "no acknowledgement",
        "adapter, vendor error 129 means",
    ):
        assert words in finding.explanation


def test_the_device_is_taken_from_lines_that_name_it() -> None:
    device = "node01:101:110 [0] NCCL INFO NET/IB : Using [0]efa_0:1/IB [RO]; OOB eth0:10.2.0.4<0>\n"
    [finding] = [found for found in analyze_text(device + ERROR.format(15, 9)) if found.cause == "ib-transport-error"]
    assert "9 of EFA adapters means: the queue pair at the other end" in finding.explanation
    other = device.replace("[RO]", "[1]mlx5_1:1/IB [RO]")
    [finding] = [found for found in analyze_text(other + ERROR.format(15, 9)) if found.cause == "ib-transport-error"]
    assert "error 9 is the adapter's own number" in finding.explanation


@pytest.mark.parametrize(
    ("word", "cause", "status"), [("00008914", "ib-transport-error", 11), ("00005104", "gpudirect-missing", 4)]
)
def test_a_dump_of_mlx5_is_an_error_by_itself(word: str, cause: str, status: int) -> None:
    [finding] = [found for found in analyze_text(DUMP.format(word)) if found.cause == cause]
    assert f"status {status}" in finding.explanation
    assert "got completion with error" in finding.evidence[0].text


def test_a_dump_that_is_cut_says_nothing() -> None:
    rows = DUMP.format("00008914").splitlines()
    assert {finding.cause for finding in analyze_text("\n".join(rows[:4]))} == {"insufficient-evidence"}
    assert mlx5_status(0x77) == 21


def test_a_peer_that_reports_no_error_is_named_beside_the_path() -> None:
    using = "node0{}:10{}:110 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.{}<0>\n"
    both = using.format(1, 1, 1) + using.format(2, 2, 2)
    [finding] = [found for found in analyze_text(both + ERROR.format(12, 129)) if found.cause == "ib-transport-error"]
    assert "or node02, where no such error is reported" in finding.explanation
    answer = ERROR.format(12, 129).replace("node01:101", "node02:102").replace("10.0.0.2", "10.0.0.1")
    log = f"{both}{ERROR.format(12, 129)}\n{answer}"
    [finding] = [found for found in analyze_text(log) if found.cause == "ib-transport-error"]
    assert "where no such error" not in finding.explanation
