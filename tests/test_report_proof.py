"""Which lines of evidence say the same: those that differ in who wrote them, when, and where in memory."""

from __future__ import annotations

import pytest

from hangscope.model import Evidence, Location
from hangscope.report.proof import fold_alike


def evidence(rank: int, text: str) -> Evidence:
    return Evidence(Location(f"rank{rank}.log", 1), text, f"rank {rank} waits")


@pytest.mark.parametrize(
    "text",
    [
        "node{n}:10{n}:10{n} [{n}] NCCL INFO AllReduce: opCount 5 sendbuff 0x7f{n} count 64",
        "12:00:0{n} a step of 0xab{n}f took {n}s",
        # a run of digits that no word ends costs no more than its length
        "{n}" + "9" * 60_000 + "x",
    ],
)
def test_lines_that_differ_in_numbers_alone_are_folded(text: str) -> None:
    proofs = fold_alike([evidence(n, text.format(n=n)) for n in range(4)])
    assert [proof.ranks_alike for proof in proofs] == [(1, 2, 3)]


@pytest.mark.parametrize("text", ["count {n} datatype 7", "root {n}", "{word} failed"])
def test_what_is_called_is_no_detail(text: str) -> None:
    proofs = fold_alike([evidence(n, text.format(n=n, word=["feed", "face", "cafe", "babe"][n])) for n in range(4)])
    assert len(proofs) == 4
