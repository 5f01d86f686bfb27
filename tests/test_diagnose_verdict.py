"""The verdict: what explains what, which finding is the root cause, and how sure it is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from diagnose_samples import make_finding, make_rule
from hangscope.diagnose.confidence import Gaps
from hangscope.diagnose.rule import Rule
from hangscope.diagnose.verdict import Diagnosis, Edge, choose_verdict
from hangscope.model import Consequence, Finding, Role

WHEN = {"all": [{"fact": "x"}]}
OOM, SIGNAL, PEER, WATCHDOG = "gpu-out-of-memory", "killed-by-signal", "peer-lost", "watchdog-timeout"


def _rule(name: str, weight: int = 60, explains: Sequence[str] = (), **changes: object) -> Rule:
    return make_rule(WHEN, id=name, weight=weight, explains=list(explains), **changes)


RULES = [
    _rule("oom", 80, [SIGNAL, PEER, WATCHDOG]),
    _rule("oom-weak", 40, ["store-lost"]),
    _rule("signal", 60, [PEER, WATCHDOG]),
    _rule("peer", 20, [WATCHDOG]),
    _rule("watchdog", 20),
    _rule("dns", 60),
    _rule("env", 40),
    _rule("kernel", 90, [OOM, PEER], explains_late=True),
    _rule("well", 5),
    _rule("unknown", 5),
    _rule("note", 8),
]


def _oom(rank: int = 5, *, time: float | None = None) -> Finding:
    return make_finding("oom", OOM, ranks=(rank,), time=time)


def _peer(*, time: float | None = None) -> Finding:
    return make_finding("peer", PEER, role=Role.SYMPTOM, ranks=(0, 1), time=time)


def _watchdog(*, time: float | None = None) -> Finding:
    return make_finding("watchdog", WATCHDOG, role=Role.SYMPTOM, ranks=(2,), time=time)


def _choose(*findings: Finding, rules: Sequence[Rule] = RULES, coverage: float = 1.0) -> Diagnosis:
    return choose_verdict(findings, rules, gaps=Gaps(coverage))


def _rules(diagnosis: Diagnosis) -> list[str]:
    return [finding.rule for finding in diagnosis.findings]


def test_symptoms_are_explained_away() -> None:
    signal = make_finding("signal", SIGNAL, ranks=(3,), time=2)
    diagnosis = _choose(_watchdog(time=4), _peer(time=3), signal, _oom(time=1))
    assert diagnosis.verdict.rule == "oom"
    assert diagnosis.verdict is diagnosis.findings[0]
    assert _rules(diagnosis) == ["oom", "signal", "peer", "watchdog"]
    assert [finding.explained_by for finding in diagnosis.findings] == [None, OOM, OOM, OOM]
    assert Edge(0, 1) in diagnosis.edges
    assert Edge(1, 2) in diagnosis.edges
    assert all(edge.cause < edge.effect for edge in diagnosis.edges)


def test_a_finding_tells_what_it_explains_and_how_much_later_that_was() -> None:
    diagnosis = _choose(_watchdog(), _peer(time=253), _oom(time=1))
    assert diagnosis.verdict.explains == (
        Consequence(PEER, "peer", (0, 1), 252),
        Consequence(WATCHDOG, "watchdog", (2,), None),
    )
    assert [len(finding.explains) for finding in diagnosis.findings] == [2, 1, 0]
    # every edge is told, by its cause
    assert sum(len(finding.explains) for finding in diagnosis.findings) == len(diagnosis.edges)


def test_a_clearly_later_finding_explains_nothing() -> None:
    assert _choose(_oom(time=100), _peer(time=96)).findings[1].explained_by == OOM
    late = _choose(_oom(time=100), _peer(time=94))
    assert (late.verdict.rule, late.findings[1].explained_by) == ("oom", None)
    assert _choose(_oom(), _peer(time=1)).findings[1].explained_by == OOM


def test_another_clock_may_be_late() -> None:
    kernel = make_finding("kernel", "gpu-fell-off-bus", time=9_000)
    assert _choose(kernel, _peer(time=1)).findings[1].explained_by == "gpu-fell-off-bus"


def test_what_a_rank_says_of_itself_is_not_explained_by_an_inference_about_others() -> None:
    rules = [_rule("dns", 60, [OOM]), _rule("oom", 80), _rule("signal", 60)]
    # GIVEN a cause that is inferred, and ranks elsewhere that suffer from it
    elsewhere = replace(make_finding("dns", "dns-failure"), affected_ranks=(6, 7))
    assert _choose(elsewhere, _oom(3), rules=rules).verdict.rule == "oom"
    assert _choose(elsewhere, _oom(3), rules=rules).findings[1].explained_by is None
    # it explains what its own ranks say, and what anybody says when it names nobody
    for dns in (replace(elsewhere, affected_ranks=(3, 7)), make_finding("dns", "dns-failure")):
        assert _choose(dns, _oom(3), rules=rules).verdict.rule == "dns"
    # so does a cause of the same host, or one that a rank or the kernel states
    shared = replace(elsewhere, hosts=("node01",))
    oom = make_finding("oom", OOM, ranks=(3,), hosts=("node01",))
    assert _choose(shared, oom, rules=rules).verdict.rule == "dns"
    assert _choose(elsewhere, _oom(3), rules=[_rule("dns", 80, [OOM]), _rule("oom", 80)]).verdict.rule == "dns"


def test_a_stated_fault_goes_before_a_deeper_one_that_came_later_elsewhere() -> None:
    rules = [_rule("kernel", 90, [OOM]), _rule("oom", 80)]

    def kernel(time: float | None, host: str = "node02") -> Finding:
        return make_finding("kernel", "gpu-fell-off-bus", hosts=(host,), time=time)

    oom = make_finding("oom", OOM, ranks=(5,), hosts=("node01",), time=1000)
    first = _choose(oom, kernel(1300), rules=rules)
    assert (first.verdict.rule, first.verdict.confidence, first.edges) == ("oom", 0.8, ())
    # what is deeper wins where it came first, or at about the same time, or at the same place, or nobody knows when
    for other in (kernel(1030), kernel(700), kernel(1300, "node01"), kernel(None)):
        assert _choose(oom, other, rules=rules).verdict.rule == "kernel"
    # hours between a kernel's clock and another one may be a time zone
    rules = [_rule("kernel", 90, [OOM], explains_late=True), _rule("oom", 80)]
    assert _choose(oom, kernel(1000 + 3 * 3600), rules=rules).verdict.rule == "kernel"
    assert _choose(oom, kernel(1300), rules=rules).verdict.rule == "oom"
    # an inferred cause does not come first by time
    rules = [_rule("kernel", 90, [OOM]), _rule("dns", 60)]
    dns = make_finding("dns", "dns-failure", hosts=("node01",), time=1)
    assert _choose(dns, kernel(1300), rules=rules).verdict.rule == "kernel"


def test_another_clock_is_no_excuse_for_explaining_an_earlier_fault_elsewhere() -> None:
    rules = [_rule("kernel", 90, [OOM, PEER], explains_late=True), _rule("oom", 80), _rule("peer", 20)]
    kernel = make_finding("kernel", "gpu-fell-off-bus", hosts=("node02",), time=1300)
    oom = make_finding("oom", OOM, ranks=(5,), hosts=("node01",), time=1000)
    # the symptom may have been logged by another clock; what rank 5 says of itself is its own fault
    diagnosis = _choose(kernel, oom, _peer(time=1000), rules=rules)
    assert [finding.explained_by for finding in diagnosis.findings] == [None, None, "gpu-fell-off-bus"]


def test_a_rank_s_own_fault_explains_what_it_says_without_one_elsewhere() -> None:
    rules = [_rule("kernel", 90, [SIGNAL]), _rule("oom", 80, [SIGNAL]), _rule("signal", 60)]
    signal = make_finding("signal", SIGNAL, ranks=(5,), hosts=("node01",))
    oom = make_finding("oom", OOM, ranks=(5,), hosts=("node01",))
    kernel = make_finding("kernel", "gpu-fell-off-bus", hosts=("node02",))
    diagnosis = _choose(signal, oom, kernel, rules=rules)
    assert [finding.explained_by for finding in diagnosis.findings] == [None, None, OOM]
    assert [len(finding.explains) for finding in diagnosis.findings] == [0, 1, 0]
    # a fault of the same place, or of none, stays a reason as well
    same = make_finding("kernel", "gpu-fell-off-bus", hosts=("node01",))
    assert len(_choose(signal, oom, same, rules=rules).edges) == 2
    assert len(_choose(signal, oom, make_finding("kernel", "gpu-fell-off-bus"), rules=rules).edges) == 2


def test_of_two_that_explain_each_other_the_heavier_wins() -> None:
    rules = [_rule("oom", 80, [SIGNAL]), _rule("signal", 60, [OOM])]
    for findings in itertools.permutations([_oom(), make_finding("signal", SIGNAL, ranks=(3,))]):
        diagnosis = _choose(*findings, rules=rules)
        assert diagnosis.verdict.rule == "oom"
        assert diagnosis.edges == (Edge(0, 1),)


def test_longer_circles_are_broken_too() -> None:
    rules = [_rule("oom", 80, [SIGNAL]), _rule("signal", 60, [PEER]), _rule("peer", 60, [OOM])]
    diagnosis = _choose(_peer(), _oom(), make_finding("signal", SIGNAL), rules=rules)
    assert _rules(diagnosis) == ["oom", "signal", "peer"]
    assert diagnosis.edges == (Edge(0, 1), Edge(1, 2))


def test_the_first_of_one_cause_can_explain_the_others() -> None:
    rules = [_rule("oom", 80, [OOM])]
    diagnosis = _choose(_oom(1, time=20), _oom(2, time=3), rules=rules)
    assert diagnosis.verdict.ranks == (2,)
    assert diagnosis.findings[1].explained_by == OOM


def test_a_cause_goes_before_a_symptom_of_any_weight() -> None:
    rules = [_rule("watchdog", 90), _rule("dns", 40)]
    assert _choose(_watchdog(), make_finding("dns", "dns-failure"), rules=rules).verdict.rule == "dns"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # the better tier, whatever the time
        (make_finding("oom", OOM, time=9), make_finding("dns", "dns-failure", time=1), "oom"),
        # in one tier, the earlier time; an unknown time is last
        (make_finding("signal", SIGNAL, time=9), make_finding("dns", "dns-failure", time=1), "dns"),
        (make_finding("signal", SIGNAL, time=9), make_finding("dns", "dns-failure"), "signal"),
        # then the name, so that the answer is always the same
        (make_finding("signal", SIGNAL), make_finding("dns", "dns-failure"), "dns"),
    ],
)
def test_what_decides_between_two_causes(first: Finding, second: Finding, expected: str) -> None:
    assert _choose(first, second).verdict.rule == expected
    assert _choose(second, first).verdict.rule == expected


def test_in_one_tier_the_one_that_explains_more_wins() -> None:
    dns = make_finding("dns", "dns-failure", time=1)
    diagnosis = _choose(dns, make_finding("signal", SIGNAL, time=2), _peer(time=3))
    assert _rules(diagnosis) == ["signal", "dns", "peer"]


def test_verdicts_that_blame_nobody_come_last() -> None:
    well = make_finding("well", "no-fault-found")
    unknown = make_finding("unknown", "insufficient-evidence")
    contributing = make_finding("env", "env-mismatch", role=Role.CONTRIBUTING)
    assert _choose(well, unknown).verdict.rule == "well"
    assert _choose(well, _watchdog()).verdict.rule == "watchdog"
    assert _choose(unknown, contributing).verdict.rule == "env"
    assert _choose(well, contributing).verdict.rule == "well"
    assert _choose(well, contributing, _watchdog()).verdict.rule == "env"


def test_a_light_contributing_condition_is_a_note_and_no_verdict() -> None:
    note = make_finding("note", "gpu-memory-fault", role=Role.CONTRIBUTING)
    assert _rules(_choose(note, make_finding("unknown", "insufficient-evidence"))) == ["unknown", "note"]
    assert _choose(note).verdict.cause == "insufficient-evidence"


def test_a_warning_of_the_same_cause_makes_no_fault_older() -> None:
    note = make_finding("note", OOM, role=Role.CONTRIBUTING, ranks=(5,), time=1)
    assert _choose(_oom(time=9), note).verdict.time == 9


def test_rules_that_see_the_same_fault_become_one_finding() -> None:
    weak = make_finding("oom-weak", OOM, time=1, confidence=0.95)
    store = make_finding("watchdog", "store-lost", role=Role.SYMPTOM)
    diagnosis = _choose(weak, _oom(time=3), store)
    assert _rules(diagnosis) == ["oom", "watchdog"]
    verdict = diagnosis.verdict
    assert (verdict.ranks, verdict.time, verdict.confidence) == ((5,), 1, 0.95)
    assert [evidence.at.file for evidence in verdict.evidence] == ["oom.log", "oom-weak.log"]
    assert diagnosis.findings[1].explained_by == OOM


@pytest.mark.parametrize(
    ("one", "two", "count"),
    [
        ({"ranks": (1, 2)}, {"ranks": (2, 3)}, 1),
        ({"ranks": (1,)}, {"ranks": (2,)}, 2),
        ({"ranks": (1,), "hosts": ("a",)}, {"hosts": ("a", "b")}, 1),
        ({"ranks": (1,), "hosts": ("a",)}, {"hosts": ("b",)}, 2),
        ({"ranks": (1,), "hosts": ("a",)}, {}, 1),
    ],
)
def test_when_two_findings_are_the_same_fault(
    one: dict[str, tuple[int, ...]], two: dict[str, tuple[int, ...]], count: int
) -> None:
    findings = [make_finding("oom", OOM, **one), make_finding("oom-weak", OOM, **two)]  # type: ignore[arg-type]
    assert len(_choose(*findings).findings) == count


def test_confidence_falls_with_missing_evidence() -> None:
    assert [_choose(_oom(), coverage=share).verdict.confidence for share in (1.0, 0.5, 0.0)] == [0.8, 0.7, 0.6]
    inferred = make_finding("dns", "dns-failure")
    assert [_choose(inferred, coverage=share).verdict.confidence for share in (1.0, 0.5, 0.0)] == [0.8, 0.6, 0.4]


def test_confidence_falls_when_another_cause_contradicts() -> None:
    signal, dns = make_finding("signal", SIGNAL), make_finding("dns", "dns-failure")
    assert _choose(signal, dns).verdict.confidence == 0.64
    assert _choose(signal, _peer()).verdict.confidence == 0.8
    assert _choose(_oom(), dns).verdict.confidence == 0.8


def test_confidence_stays_within_bounds() -> None:
    assert _choose(make_finding("dns", "dns-failure", confidence=1.0)).verdict.confidence == 0.99
    assert _choose(make_finding("dns", "dns-failure", confidence=0.0)).verdict.confidence == 0.05


def test_without_findings_the_evidence_is_insufficient() -> None:
    assert _choose().verdict.cause == "insufficient-evidence"
    fallback = make_finding("well", "no-fault-found")
    assert choose_verdict([], RULES, fallback=fallback).findings == (fallback,)


def test_the_order_of_findings_does_not_matter() -> None:
    findings = [_oom(time=3), _peer(), _watchdog(time=9), make_finding("signal", SIGNAL, ranks=(1,), time=3)]
    answers = {str(_choose(*order)) for order in itertools.permutations(findings)}
    assert len(answers) == 1
