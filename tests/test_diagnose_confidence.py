"""Confidence: what missing ranks, lost last lines and clocks that nobody compared take away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnose_samples import make_finding, make_rule
from hangscope.align.clocks import Clocks, Moment, compare_clocks
from hangscope.diagnose.confidence import Gaps, confidence_of, is_order_sure
from hangscope.diagnose.verdict import choose_verdict
from hangscope.facts.coverage import coverage
from hangscope.model import Evidence, Finding, Location
from nccl_logs import job_of, job_of_ranks, ranks

WHEN = {"all": [{"fact": "x"}]}
OOM, SIGNAL, DISK = "gpu-out-of-memory", "killed-by-signal", "disk-full"
RULES = [
    make_rule(WHEN, id="oom", weight=80),
    make_rule(WHEN, id="oom-too", weight=80),
    make_rule(WHEN, id="disk", weight=80),
    make_rule(WHEN, id="signal", weight=60),
]
MANY_HOSTS = Gaps(clocks=Clocks())
TRACE = ["Traceback (most recent call last):", '  File "/job/train.py", line 3, in main', "ValueError: no"]


def _oom(time: float | None, host: str = "node01", rank: int = 1) -> Finding:
    return make_finding("oom", OOM, ranks=(rank,), hosts=(host,), time=time)


def _disk(time: float | None, host: str = "node02") -> Finding:
    return make_finding("disk", DISK, ranks=(9,), hosts=(host,), time=time)


def _said(*findings: Finding, gaps: Gaps = MANY_HOSTS) -> tuple[str, float]:
    verdict = choose_verdict(findings, RULES, gaps=gaps).verdict
    return verdict.rule, verdict.confidence


def test_order_that_no_clock_vouches_for_lowers_confidence() -> None:
    # 0.8, times 0.8 for two causes that contradict each other, times 0.85 when their order is not sure
    assert _said(_oom(100), _disk(160)) == ("oom", 0.64)
    assert _said(_oom(100), _disk(103)) == ("oom", 0.54)
    assert _said(_oom(100), _disk(103, "node01")) == ("oom", 0.64)
    assert _said(_oom(100), _disk(103), gaps=Gaps()) == ("oom", 0.64)
    # nothing to order by: that is the contradiction itself
    assert _said(_oom(100), _disk(None)) == ("oom", 0.64)


def test_doubt_about_the_order_is_said() -> None:
    first = choose_verdict([_oom(100), _disk(103)], RULES, gaps=MANY_HOSTS).verdict
    assert first.explanation == (
        "Whether it came before disk-full on node02 is not certain: by the logs' clocks they are 3.0 s apart."
    )
    assert choose_verdict([_oom(100), _disk(160)], RULES, gaps=MANY_HOSTS).verdict.explanation == ""


def test_which_of_two_ranks_failed_first_needs_clocks_too() -> None:
    first, second = _oom(100), make_finding("oom-too", OOM, ranks=(9,), hosts=("node02",), time=102)
    assert _said(first, second) == ("oom", 0.68)
    assert _said(first, make_finding("oom-too", OOM, ranks=(9,), hosts=("node02",), time=162)) == ("oom", 0.8)


def test_a_deeper_cause_needs_no_clock() -> None:
    signal = make_finding("signal", SIGNAL, ranks=(9,), hosts=("node02",), time=99)
    assert _said(_oom(100), signal) == ("oom", 0.8)


def test_the_first_of_two_that_explain_each_other_needs_clocks() -> None:
    rules = [make_rule(WHEN, id="oom", explains=[DISK]), make_rule(WHEN, id="disk", explains=[OOM])]
    for later_s, confidence in ((60, 0.8), (2, 0.68)):
        found = choose_verdict([_oom(100), _disk(100 + later_s)], rules, gaps=MANY_HOSTS)
        assert (found.verdict.rule, found.verdict.confidence) == ("oom", confidence)


def test_a_corrected_clock_is_trusted_to_its_uncertainty() -> None:
    clocks = compare_clocks([Moment({"node01": 0.0, "node02": 500.0}, 20.0, "x")], [])
    assert not is_order_sure(_oom(100), _disk(115), clocks)
    assert is_order_sure(_oom(100), _disk(125), clocks)
    assert is_order_sure(_oom(100), _disk(115), Clocks())
    assert is_order_sure(_oom(100), _disk(101), None)


@pytest.mark.parametrize(("direct", "shares"), [(True, (0.8, 0.7, 0.6)), (False, (0.8, 0.6, 0.4))])
def test_missing_ranks_take_more_from_what_is_inferred(direct: bool, shares: tuple[float, ...]) -> None:
    said = [
        confidence_of(_oom(1), Gaps(share), direct=direct, machine=False, contradicted=False, order_unsure=False)
        for share in (1.0, 0.5, 0.0)
    ]
    assert tuple(said) == shares


def test_lost_last_lines_of_a_cited_file_take_some_unless_the_machine_speaks() -> None:
    for machine, cut, expected in ((False, "oom.log", 0.68), (False, "other.log", 0.8), (True, "oom.log", 0.8)):
        gaps = Gaps(cut=frozenset({cut}))
        said = confidence_of(_oom(1), gaps, direct=True, machine=machine, contradicted=False, order_unsure=False)
        assert said == expected


def test_several_jobs_in_one_folder_take_a_quarter() -> None:
    for mixed, expected in ((False, 0.8), (True, 0.6)):
        gaps = Gaps(mixed=mixed)
        said = confidence_of(_oom(1), gaps, direct=True, machine=True, contradicted=False, order_unsure=False)
        assert said == expected


def test_a_rank_whose_log_is_cut_counts_half() -> None:
    logs = {f"{log.rank}.log": "".join(f"{line}\n" for line in log.lines) for log in ranks(4)}
    assert coverage(job_of(logs)) == 1.0
    logs["3.log"] = logs["3.log"].rstrip("\n")[:-7]
    assert coverage(job_of(logs)) == 0.875
    del logs["3.log"]
    assert coverage(job_of(logs)) == 0.75
    assert coverage(job_of_ranks(ranks(4)[:1])) == 0.25


def test_cut_logs_are_trusted_less_though_nobody_says_how_many_ranks_there_are() -> None:
    whole = "".join(f"{line}\n" for line in TRACE)
    assert coverage(job_of({"rank0.log": whole, "rank1.log": whole})) == 1.0
    assert coverage(job_of({"rank0.log": whole, "rank1.log": whole[:-3]})) == 0.75


@pytest.mark.parametrize(
    ("line", "quotes"),
    [
        ("| `NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.` | drain the node |", True),
        ('3. "RuntimeError: CUDA error: uncorrectable ECC error encountered": replace the GPU', True),
        ('    raise RuntimeError("NCCL WARN Duplicate GPU detected : rank 6 and rank 4")', True),
        ("tests/test_errors.py::test_said[CUDA out of memory. Tried to allocate 2.00 GiB] PASSED", True),
        ("[171167.620236] NVRM: Xid (PCI:0000:dc:00): 79, pid=12, GPU has fallen off the bus.", False),
        ('[rank1]: RuntimeError: a module with "find_unused_parameters=True" and `forward` functions', False),
        ("|   0  NVIDIA H100 80GB HBM3   On  | 00000000:19:00.0 Off |                    0 |", False),
        ("- ERROR: [rank1]: torch.OutOfMemoryError: CUDA out of memory.", False),
        ("raise RuntimeError(message)", False),
    ],
)
def test_what_is_only_quoted_is_trusted_less_and_it_is_said(line: str, quotes: bool) -> None:
    finding = replace(_oom(1), evidence=(Evidence(Location("notes.md", 3, 0), line, ""),))
    verdict = choose_verdict([finding], RULES).verdict
    assert verdict.confidence == (0.48 if quotes else 0.8)
    assert ("quotes messages" in verdict.explanation) is quotes


def test_one_line_that_reports_what_others_quote_is_enough() -> None:
    row, report = (
        "| `torch.OutOfMemoryError: CUDA out of memory` | use less |",
        "torch.OutOfMemoryError: CUDA out of memory",
    )
    evidence = tuple(Evidence(Location("job.log", n, 0), text, "") for n, text in enumerate((row, report), 1))
    assert choose_verdict([replace(_oom(1), evidence=evidence)], RULES).verdict.confidence == 0.8


@pytest.mark.parametrize(("sure", "confidence"), [(0.9, 0.6), (0.5, 0.8)])
def test_a_job_that_ended_in_order_may_have_got_over_a_fault(sure: float, confidence: float) -> None:
    well = replace(make_rule(WHEN, id="well", weight=3), cause="no-fault-found")
    ended = replace(make_finding("well", "no-fault-found"), confidence=sure)
    verdict = choose_verdict([_oom(1), ended], [*RULES, well]).verdict
    assert (verdict.rule, verdict.confidence) == ("oom", confidence)
    assert ("got over" in verdict.explanation) is (sure > 0.75)
