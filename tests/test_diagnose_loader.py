"""Rule files: what is read from them, and the exact complaint about each thing that can be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diagnose_samples import KINDS, SHM_RULE, TEXTS, make_rule, write_rule
from hangscope.diagnose.catalogue import read_causes
from hangscope.diagnose.check import check_rule
from hangscope.diagnose.loader import load_rule, load_rules
from hangscope.diagnose.rule import Condition, FieldTest, Operator, Status
from hangscope.diagnose.shipped import list_rules
from hangscope.errors import RuleError
from hangscope.model import Role

_ENTRY = '[a]\nfamily = "x"\nrole = "cause"\nmeans = "m"\nlooks = "l"\nwhy = "w"\nconfirm = ["c"]\n'


def test_every_key_is_read(tmp_path: Path) -> None:
    rule = load_rule(write_rule(tmp_path, SHM_RULE))
    assert (rule.id, rule.cause, rule.family, rule.role) == ("shm-extend-failed", "shm-exhausted", "host", Role.CAUSE)
    assert (rule.status, rule.weight, rule.confidence, rule.aliases) == (Status.STABLE, 80, 0.9, ("shm-full",))
    assert rule.when.all[1] == Condition(
        "host_full",
        "h",
        (FieldTest("mount", Operator.EQUALS, "/dev/shm"), FieldTest("free_bytes", Operator.MAX, 1048576)),
    )
    assert rule.when.none[0].same == "rank"
    assert rule.when.before == (("h", "f"),)
    assert [remedy.versions for remedy in rule.remedies] == ["", "nccl>=2.8,<2.20"]
    assert [case.fires for case in rule.cases] == [True, False]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "shm-extend-failed"', 'id = "shm"', "id: must be the name of the file, 'shm-extend-failed', is 'shm'"),
        ('id = "shm-extend-failed"', "", "id: is missing"),
        ('cause = "shm-exhausted"', 'cause = "shm-exausted"', "'shm-exausted' is no cause (did you mean shm-exhausted"),
        ('cause = "shm-exhausted"', 'cause = "dns-failure"', "is of the family 'network', the folder is 'host'"),
        ('role = "cause"', 'role = "culprit"', "role: must be one of cause, symptom, contributing, is 'culprit'"),
        ('status = "stable"', 'status = "old"', "status: must be one of preview, stable, deprecated, is 'old'"),
        ("weight = 80", "weigth = 80", "weigth: unknown key (did you mean weight?)"),
        ("weight = 80", 'weight = "80"', "weight: must be a number, is a string"),
        ("weight = 80", "weight = 80.5", "weight: must be a whole number, is 80.5"),
        ("confidence = 0.9", "confidence = 9", "confidence: must lie between 0 and 1, is 9"),
        ("confidence = 0.9", "confidence = true", "confidence: must be a number, is a boolean"),
        ('"watchdog-timeout"]', '"watchdog-timout"]', "explains: 'watchdog-timout' is no cause (did you mean watchdog"),
        (
            'full on {hosts}"',
            'full on {host}"',
            "title: {host} is none of ranks, hosts, group, affected, count, and no",
        ),
        ('full on {hosts}"', 'full on {hosts"', "title: expected '}' before end of string"),
        ('full on {hosts}"', 'full\\non"', "title: must be one line"),
        ("{f.path}", "{g.path}", "explanation: {g.path}: no fact is bound as 'g'"),
        ("{f.path}", "{f.path:yards}", "explanation: {f.path:yards} has no format 'yards' (there are named, bytes, s"),
        ('["The cuMem host fallback prints the same words and goes on."]', "[]", "false_positives: is empty"),
        ("references = [", "references = 1 #", "references: must be a list of strings, is a number"),
        ('fact = "host_full"', 'fakt = "host_full"', "when.all[1].fact: is missing"),
        ('as = "h"', 'as = "f"', "when.all: 'f' is bound twice"),
        ('as = "h"', 'as = "ranks"', "when.all[1].as: 'ranks' has a meaning of its own and cannot name a fact"),
        ('mount = "/dev/shm"', 'same = "host"', "when.all[1].same: is for entries of any and none"),
        ("free_bytes_max = 1048576", 'free_bytes_max = "1M"', "when.all[1].free_bytes_max: must be a number, is a str"),
        ('op_in = ["all_reduce", "broadcast"]', 'op_in = "x"', "when.any[1].op_in: must be a list that is not empty"),
        ("signal_exists = true", "signal_exists = 1", "when.none[0].signal_exists: must be true or false, is a number"),
        ('same = "rank"', 'same = "gpu"', "when.none[0].same: must be one of rank, host, group, is 'gpu'"),
        ('culprits = "f"', 'culprits = "g"', "when.culprits: 'g' is not bound"),
        ('before = [["h", "f"]]', 'before = ["h", "f"]', "when.before[0]: must be a pair of names, is 'h'"),
        ('before = [["h", "f"]]', 'before = [["h", "x"]]', "when.before[0]: 'x' is not bound in all"),
        ('before = [["h", "f"]]', "min_count = 0", "when.min_count: must lie between 1 and 1e+06, is 0"),
        ("nccl>=2.8,<2.20", "nccl=2.8", "remedies[1].versions: 'nccl=2.8' is no comparison such as nccl>=2.24"),
        ("nccl>=2.8,<2.20", ">=2.8", "remedies[1].versions: '>=2.8' must name one of torch, nccl, cuda, driver"),
        ("fires = false", "fires = true", "cases: needs a case that looks like it and does not fire it"),
        ("fires = true", "fires = false", "cases: needs a case that fires the rule"),
        (
            'lines = "cuMem host',
            'fixture = "a"\nlines = "cuMem host',
            "cases[1].lines: a case has either lines or a fix",
        ),
        ('"harmless fallback"', '"a full /dev/shm"', "cases[1].name: 'a full /dev/shm' is taken by another case"),
        ("[when]", "[when", "Expected ']' at the end of a table declaration"),
    ],
)
def test_a_wrong_file_is_one_clear_error(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SHM_RULE
    path = write_rule(tmp_path / "rules", SHM_RULE.replace(old, new, 1))
    with pytest.raises(RuleError) as caught:
        load_rule(path)
    assert re.match(r"rules/host/shm-extend-failed\.toml:\d+: ", str(caught.value))
    assert message in str(caught.value)


def test_a_rule_needs_something_to_find() -> None:
    with pytest.raises(RuleError, match=r"when\.all: is missing; a rule needs an entry in all or in any"):
        make_rule({"none": [{"fact": "x"}]})


def test_share_needs_two_entries() -> None:
    with pytest.raises(RuleError, match=r"when\.share: needs at least two entries in all"):
        make_rule({"all": [{"fact": "x"}], "share": ["rank"]})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('fact = "host_full"', 'fact = "host_ful"', "when.all[1].fact: no fact 'host_ful' (did you mean host_full?)"),
        ("free_bytes_max", "fre_bytes_max", "the fact 'host_full' has no field 'fre_bytes' (did you mean free_bytes?)"),
        ('share = ["host"]', 'share = ["path"]', "when.share: the fact 'host_full' has no field 'path'"),
        ("{f.path}", "{f.mount}", "explanation: {f.mount}: shm_extend_failed has no field 'mount'"),
        ("on {hosts} a larger", "on {h.host} a larger", "remedies[0].text: {h.host}: host_full has no field 'host'"),
    ],
)
def test_facts_and_fields_must_exist(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SHM_RULE
    rule = load_rule(write_rule(tmp_path, SHM_RULE.replace(old, new, 1)))
    with pytest.raises(RuleError) as caught:
        check_rule(rule, KINDS)
    assert message in str(caught.value)


def test_sample_rules_name_known_facts(tmp_path: Path) -> None:
    check_rule(load_rule(write_rule(tmp_path, SHM_RULE)), KINDS)
    check_rule(load_rule(write_rule(tmp_path, TEXTS["peer-closed"], "peer-closed", "network")), KINDS)


def test_a_field_may_not_read_as_a_test() -> None:
    rule = make_rule({"all": [{"fact": "x"}]})
    with pytest.raises(RuleError, match=r"the field x\.size_max has a name that reads as a test"):
        check_rule(rule, {"x": frozenset({"size_max"})})


def test_own_rules_come_on_top_and_ids_are_unique(tmp_path: Path) -> None:
    name = "a-rule-of-my-own"
    text = SHM_RULE.replace("shm-extend-failed", name).replace("shm-full", "shm-small")
    write_rule(tmp_path / "one", text, name)
    assert name in {rule.id for rule in load_rules([tmp_path / "one"])}
    assert [heading.title for heading in list_rules([tmp_path / "one"]) if heading.id == name] == [
        "/dev/shm is full on the host"
    ]
    write_rule(tmp_path / "two", text, name)
    with pytest.raises(
        RuleError, match=r"two/host/a-rule-of-my-own.toml:2: id: 'a-rule-of-my-own' is taken by one/host/a-rule"
    ):
        load_rules([tmp_path / "one", tmp_path / "two"])


def test_a_folder_of_rules_must_exist_and_be_laid_out(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no such folder"):
        load_rules([tmp_path / "none"])
    (tmp_path / "flat.toml").write_text(SHM_RULE, encoding="utf-8")
    with pytest.raises(RuleError, match=r"flat\.toml: lies outside of the folder of a family"):
        load_rules([tmp_path])


def test_a_heading_is_read_past_an_explanation_with_brackets(tmp_path: Path) -> None:
    text = SHM_RULE.replace('explanation = "', "explanation = '''\n[rank0]: ").replace('given}."', "given}.'''")
    write_rule(tmp_path, text.replace("shm-extend-failed", "bracketed"), "bracketed")
    assert "bracketed" in {heading.id for heading in list_rules([tmp_path], "host")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_ENTRY.replace('means = "m"\n', ""), r"a\.means: is missing"),
        (_ENTRY.replace('"cause"', '"reason"'), r"a\.role: must be one of"),
        (_ENTRY + "old = 1", r"a\.old: unknown key"),
        (_ENTRY.replace('["c"]', '"c"'), r"a\.confirm: must be a list of strings that is not empty"),
        (_ENTRY.replace('["c"]', "[]"), r"a\.confirm: must be a list of strings that is not empty"),
        (_ENTRY.replace('"l"', '""'), "a: its texts must be strings that are not empty"),
        ("a = 1", "a: must be a table"),
        ("[a", "causes.toml: "),
    ],
)
def test_a_wrong_catalogue_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "causes.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RuleError, match=message):
        read_causes(path)
