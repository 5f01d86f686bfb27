"""The report quotes the printed lines of calls, which are kept as columns only."""

from __future__ import annotations

from pathlib import Path

from hangscope import api

INIT = (
    "node01:{pid}:{pid} [{r}] NCCL INFO comm 0x{r}1 rank {r} nranks 2 cudaDev {r} "
    "busId {r}a000 commId 0xab - Init COMPLETE"
)
CALL = (
    "node01:{pid}:{pid} [{r}] NCCL INFO AllReduce: opCount {n} sendbuff 0x1f recvbuff 0x2f count 64 datatype 7 op 0 "
    "root 0 comm 0x{r}1 [nranks=2] stream 0x5"
)


def rank(r: int, calls: int) -> str:
    lines = [INIT.format(r=r, pid=100 + r), *(CALL.format(r=r, pid=100 + r, n=n) for n in range(calls))]
    return "\n".join(lines) + "\n"


def test_evidence_of_a_call_is_the_printed_line(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(rank(0, 3))
    (tmp_path / "rank1.log").write_text(rank(1, 2))

    report = api.analyze(tmp_path)

    assert report.verdict.cause == "collective-skipped"
    for evidence in report.verdict.evidence:
        printed = (tmp_path / evidence.at.file).read_text().splitlines()
        assert evidence.at.line is not None
        assert evidence.text == printed[evidence.at.line - 1]
        assert not evidence.rebuilt


def test_a_file_that_was_written_anew_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(rank(0, 3))
    (tmp_path / "rank1.log").write_text(rank(1, 2))
    reading = api.read_job(tmp_path)
    for file in tmp_path.iterdir():
        file.write_text("a line more\n" + file.read_text())

    report = api.report_on(reading)

    assert report.verdict.cause == "collective-skipped"
    missing = next(evidence for evidence in report.verdict.evidence if evidence.at.file == "rank1.log")
    assert missing.rebuilt
    assert "AllReduce: opCount 1 ... count 64" in missing.text
    assert not missing.before
