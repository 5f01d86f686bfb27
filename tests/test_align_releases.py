"""Releases that no line states: what lines of one release, of two, and of none let infer."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from check_releases import check_case
from hangscope.align.job import Job
from hangscope.align.releases import _Table
from hangscope.align.versions import Inferred, Versions
from hangscope.api import analyze
from hangscope.diagnose.versions import Fit, fit
from hangscope.report.formats.text import render
from hangscope.report.options import RenderOptions
from hangscope.report.serialize import to_dict
from hangscope.resources import grammars_dir
from nccl_logs import job_of
from score_fixtures import FIXTURES

CASES = sorted(folder for folder in FIXTURES.iterdir() if (folder / "logs").is_dir())


DIGIT = re.compile(r"\d")


def job_of_text(text: str) -> Job:
    return job_of({"job.log": text})


def inferred(text: str, product: str = "torch") -> str | None:
    """What is inferred of a job, in words."""
    found = job_of_text(text).versions.inferred.get(product)
    return None if found is None else f"{found} by {found.by}"


TIMEOUT = "WorkNCCL(SeqNum=57, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600045 milliseconds"
CAUGHT = f"[Rank 3] Watchdog caught collective operation timeout: {TIMEOUT} before timing out."


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"[rank3]:[E ProcessGroupNCCL.cpp:563] {CAUGHT}", "2.3"),
        (f"[rank3]:[E1019 01:04:03.356947152 ProcessGroupNCCL.cpp:629] {CAUGHT}", "2.6"),
        (f"[rank3]:[E1019 01:04:03.356947152 ProcessGroupNCCL.cpp:632] {CAUGHT}", "2.7"),
    ],
)
def test_source_line_of_a_message_tells_the_release(line: str, expected: str) -> None:
    assert inferred(line) == f"{expected} by source line numbers"


def test_line_number_of_another_message_tells_nothing_of_this_one() -> None:
    # 629 is the line of the timeout in 2.6, not of the stack's heading
    text = "[rank3]:[E1019 01:04:03.356947152 ProcessGroupNCCL.cpp:629] Stack trace of the failed collective: "
    assert inferred(text) == "2.6 or newer by the wording of its messages"


def test_header_without_time_and_wording_narrow_together() -> None:
    counters = "last enqueued NCCL work: 19, last completed NCCL work: 18."
    text = f"[rank3]:[E ProcessGroupNCCL.cpp:1] [PG 1 Rank 3] Timeout at NCCL work: 19, {counters}"
    found = job_of_text(text).versions.inferred["torch"]
    assert (str(found), found.first, found.last) == ("2.3", "2.3", "2.3")
    assert [evidence.at.line for evidence in found.evidence] == [1, 1]


def test_lines_of_two_releases_in_one_process_tell_nothing() -> None:
    header = "[rank3]:[E1019 01:04:03.356947152 ProcessGroupNCCL.cpp:2]"
    later = f"{header} [PG ID 0 PG GUID 0(default_pg) Rank 3] First PG on this rank to signal dumping."
    assert inferred(later) == "2.7 or newer by the wording of its messages"
    assert inferred(f"[rank3]:[E ProcessGroupNCCL.cpp:563] {CAUGHT}\n{later}") is None


def test_end_of_a_later_text_is_not_taken_for_an_earlier_one() -> None:
    whole = "To avoid data inconsistency, we are taking the entire process down."
    assert inferred(f"[E ProcessGroupNCCL.cpp:1] {whole}") == "1.13 to 2.0 by the wording of its messages"
    assert inferred(f"[rank3]:[E ProcessGroupNCCL.cpp:1] [Rank 3] {whole}") is not None
    # the same line of a later release, whose beginning another writer's line took
    assert inferred(f"k 3] {whole}") is None


def test_lines_of_a_vendors_build_tell_nothing() -> None:
    text = f"E0927 12:07:22.643702 1012209 ProcessGroupNCCL.cpp:563] {CAUGHT}"
    assert inferred(text) is None


def test_frames_of_a_traceback_tell_the_release() -> None:
    text = """[rank0]: Traceback (most recent call last):
[rank0]:   File "/opt/train.py", line 24, in main
[rank0]:     dist.all_reduce(x)
[rank0]:   File "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2050, in all_reduce
[rank0]:     work = group.allreduce([tensor], opts)
[rank0]: RuntimeError: boom
"""
    found = job_of_text(text).versions.inferred["torch"]
    assert found.by == "source line numbers"
    assert len(found.releases) <= 2


def test_nccl_is_inferred_from_words_and_header() -> None:
    old = "node01:41:41 [0] NCCL INFO comm 0x7f10 rank 0 nranks 8 cudaDev 0 busId 1a000 - Init COMPLETE"
    assert inferred(old, "nccl") == "2.5.6 to 2.15.5 by the wording of its messages"
    new = "node01:41:41 [0] init.cc:12 (commAlloc) NCCL WARN Cuda failure 999 'unknown error'"
    assert inferred(new, "nccl") == "2.30.7 or newer by the form of its line headers"
    assert inferred(new.replace(" (commAlloc)", ""), "nccl") == "2.19.1 or newer by the wording of its messages"


def test_report_says_what_is_inferred_and_by_what(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"[rank3]:[E ProcessGroupNCCL.cpp:563] {CAUGHT}\n", encoding="utf-8")
    report = analyze(log, jobs=1)
    told = to_dict(report)["job"]
    assert told["torch_version"] is None
    inferred = told["inferred"]["torch"]
    assert (inferred["first"], inferred["last"], inferred["by"]) == ("2.3", "2.3", "source line numbers")
    assert [(item["file"], item["line"]) for item in inferred["evidence"]] == [("job.log", 1)]
    page = io.StringIO()
    render(report, page, RenderOptions())
    assert "torch 2.3 (inferred from source line numbers)" in page.getvalue()


def test_stated_version_is_not_inferred() -> None:
    text = "node01:41:41 [0] NCCL INFO NCCL version 2.14.3+cuda11.7\n"
    text += "node01:41:41 [0] NCCL INFO comm 0x7f10 rank 0 nranks 8 cudaDev 0 busId 1a000 - Init COMPLETE"
    job = job_of_text(text)
    assert job.versions.nccl == "2.14.3"
    assert "nccl" not in job.versions.inferred


def test_version_of_a_package_counts_where_no_line_says_what_runs() -> None:
    package = "[pip3] nvidia-nccl-cu12==2.21.5\n"
    assert job_of_text(package).versions.nccl == "2.21.5"
    assert job_of_text(package + "node01:41:41 [0] NCCL INFO NCCL version 2.14.3+cuda11.7").versions.nccl == "2.14.3"


def test_recorder_names_nccls_version_and_tells_torchs() -> None:
    dump = '{"version": "2.9", "nccl_version": "2.27.3", "pg_config": {}, "entries": []}'
    versions = job_of({"nccl_trace_rank_0.json": dump}).versions
    assert versions.nccl == "2.27.3"
    assert str(versions.inferred["torch"]) == "2.8"
    assert versions.inferred["torch"].by == "the format of its flight recorder"


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_no_case_contradicts_what_it_states(folder: Path) -> None:
    assert [check for check in check_case(folder) if check.right is False] == []


def _seen(*releases: str, older: bool = False, newer: bool = False) -> Versions:
    return Versions(inferred={"torch": Inferred(releases, older, newer, "", (), 0)})


@pytest.mark.parametrize(
    ("requirement", "seen", "expected"),
    [
        ("torch>=2.2", _seen("2.3", "2.4"), Fit.YES),
        ("torch>=2.4", _seen("2.3", "2.4"), Fit.MAYBE),
        ("torch>=2.5", _seen("2.3", "2.4"), Fit.NO),
        ("torch>=2.5", _seen("2.3", "2.4", newer=True), Fit.MAYBE),
        ("torch<2.2", _seen("2.3", older=True), Fit.MAYBE),
        ("torch>=2.2,<2.6.1", _seen("2.6"), Fit.MAYBE),
        ("torch==2.6.1", _seen("2.6"), Fit.MAYBE),
        ("torch==2.6.1", _seen("2.5"), Fit.NO),
        ("torch>=2.2", Versions(), Fit.MAYBE),
        ("torch>=2.2,nccl>=2.30", _seen("2.1"), Fit.NO),
        (
            "torch>=2.2",
            Versions(torch="2.1.0", inferred={"torch": Inferred(("2.4",), False, False, "", (), 0)}),
            Fit.NO,
        ),
    ],
)
def test_requirement_against_inferred_releases(requirement: str, seen: Versions, expected: Fit) -> None:
    assert fit(requirement, seen) is expected


def test_what_is_known_of_texts_alike_but_for_their_numbers_holds_for_each_of_them() -> None:
    """Every template of NCCL, filled with other numbers in other orders, tells what it tells by itself."""
    templates = json.loads((grammars_dir() / "releases" / "nccl.json").read_text(encoding="utf-8"))["texts"]
    fills = ("7", "128", "0x5581ab", "0xabc", "5x", "3c")
    texts = [
        "".join(piece if at % 2 == 0 else fill for at, piece in enumerate(pieces))
        for fill in fills
        for found in templates.values()
        for pieces, *_ in found
    ]
    texts += [DIGIT.sub(other, text) for text in texts[: len(texts) // len(fills)] for other in ("0", "1", "9")]
    together = _Table("nccl")
    told = {text: together.of_text(text, headed=True) for text in texts}
    assert len(set(told.values())) > 100
    for text, mask in told.items():
        together._outlines.clear()
        assert together._of_whole_text(text, headed=True) == mask, text
