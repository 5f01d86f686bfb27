"""Known defects: which versions have them, what an unknown version makes of them, and what a wrong file is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangscope.align.versions import Inferred, Versions
from hangscope.api import analyze_text
from hangscope.diagnose.defects import Affected
from hangscope.diagnose.loader import load_rule, load_rules, rule_files
from hangscope.diagnose.versions import Fit
from hangscope.errors import RuleError
from hangscope.model import Finding, Role

UDS = (
    "node01:33:105 [2] misc/ipcsocket.cc:57 NCCL WARN UDS: Binding to socket /tmp/nccl-socket-2-e6 failed : "
    "Address already in use (98)"
)
ABORT = (
    "[rank1]:[E1129 10:00:00.123456789 ProcessGroupNCCL.cpp:1300] [PG ID 0 PG GUID 0(default_pg) Rank 1] "
    "Future for ProcessGroup abort timed out after 600000 ms"
)
DEFECT = """
id = "nccl-breaks"
affected = "nccl>=2.20,<2.20.5"
fixed_in = "2.20.5"
since = "0.1.0"
effect = "cause"
title = "NCCL breaks"
what = "It breaks ({u.error|no reason})."
references = ["NVIDIA/nccl#1"]

[when]
all = [{ fact = "uds_failed", as = "u" }]

[[cases]]
name = "it does"
fires = true
lines = "x"

[[cases]]
name = "it does not"
fires = false
lines = "y"
"""


def version(number: str) -> str:
    return f"node01:33:105 [2] NCCL INFO NCCL version {number}+cuda12.2\n"


def found(text: str, rule: str) -> Finding | None:
    return next((finding for finding in analyze_text(text) if finding.rule == rule), None)


def load_defect(folder: Path, text: str) -> object:
    path = folder / "version" / "defects" / "nccl-breaks.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return load_rule(path)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Versions(nccl="2.20.3"), Fit.YES),
        (Versions(nccl="2.20.5"), Fit.NO),
        (Versions(nccl=("2.19.4", "2.20.3")), Fit.YES),
        (Versions(), Fit.MAYBE),
        (Versions(inferred={"nccl": Inferred(("2.20.3",), False, False, "", (), 0)}), Fit.YES),
        (Versions(inferred={"nccl": Inferred(("2.20.3", "2.20.5"), False, False, "", (), 0)}), Fit.MAYBE),
        (Versions(inferred={"nccl": Inferred(("2.21.5",), False, True, "", (), 0)}), Fit.NO),
    ],
)
def test_versions_that_have_a_defect(seen: Versions, expected: Fit) -> None:
    assert Affected("nccl", ("nccl>=2.20,<2.20.5",), "2.20.5").covers(seen) is expected


def test_defect_of_a_known_version_is_the_cause() -> None:
    finding = found(version("2.20.3") + UDS, "nccl-uds-name-reused")
    assert finding is not None
    assert (finding.cause, finding.role) == ("nccl-bug", Role.CAUSE)
    assert "NCCL 2.20.3; 2.20.5 is without it." in finding.explanation
    assert finding.remedies[0].text == "Use NCCL 2.20.5 or later."


def test_defect_of_an_unknown_version_is_a_note_and_never_the_verdict() -> None:
    findings = analyze_text(UDS)
    note = next(finding for finding in findings if finding.rule == "nccl-uds-name-reused")
    assert (note.role, note.confidence <= 0.2) == (Role.CONTRIBUTING, True)
    assert "is not known" in note.explanation
    assert findings[0].rule != note.rule
    assert note.title.startswith("Perhaps a known defect")


def test_defect_that_contributes_needs_a_known_version() -> None:
    assert found(ABORT, "nccl-abort-hangs") is None
    assert found(version("2.25.1") + ABORT, "nccl-abort-hangs") is not None


def test_defect_of_another_version_is_silent() -> None:
    assert found(version("2.27.5") + UDS, "nccl-uds-name-reused") is None


def test_two_defects_stay_two_findings() -> None:
    text = version("2.25.1") + "PyTorch version: 2.6.0\n" + ABORT
    text += (
        "\n[rank1]:[E1019 01:04:03.356947152 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=57, OpType=SEND, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600045 "
        "milliseconds before timing out."
    )
    rules = {finding.rule for finding in analyze_text(text) if finding.cause == "nccl-bug"}
    assert {"nccl-abort-hangs", "torch-aborts-communicators-one-by-one"} <= rules


def test_there_are_defects_of_every_product_and_each_has_its_own_file() -> None:
    rules = [rule for rule in load_rules(family="version") if rule.affected is not None]
    assert {rule.affected.product for rule in rules if rule.affected} == {"nccl", "torch", "driver", "ofi"}
    assert {rule.id for rule in rules} == {path.stem for path in rule_files() if path.parent.name == "defects"}
    assert len(rules) >= 25


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('affected = "nccl>=2.20,<2.20.5"', 'affected = "2.20"', "affected: '2.20' is no comparison"),
        ('affected = "nccl>=2.20,<2.20.5"', 'affected = ["nccl<2.1", "torch<2.1"]', "affected: names several products"),
        ('affected = "nccl>=2.20,<2.20.5"', 'affected = "mpi<2.1"', "affected: 'mpi<2.1' must name one of"),
        ('fixed_in = "2.20.5"', 'fixed_in = "2.20.4"', "fixed_in: 2.20.4 lies in the range that is affected"),
        ('fixed_in = "2.20.5"', 'fixed_in = "soon"', "fixed_in: 'soon' is no version"),
        ('effect = "cause"', 'effect = "symptom"', "effect: must be one of cause, contributing"),
        ('effect = "cause"', "", "effect: is missing"),
        ('what = "It', 'whatever = "It', "whatever: unknown key"),
        ("{u.error|no reason}", "{w.error}", "no fact is bound as 'w'"),
        ('fixed_in = "2.20.5"', "", "workaround: is missing"),
    ],
)
def test_wrong_file_is_told_what_is_wrong(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in DEFECT
    with pytest.raises(RuleError) as told:
        load_defect(tmp_path, DEFECT.replace(old, new))
    assert "version/defects/nccl-breaks.toml:" in str(told.value)
    assert message in str(told.value)
