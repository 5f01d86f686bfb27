"""What people read about rules: the list of `rules`, and rules/README.md."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from diagnose_samples import DEATH_RULE, SHM_RULE, write_rule
from hangscope.cli import rules as rules_command
from hangscope.diagnose import reference
from hangscope.diagnose.catalogue import causes
from hangscope.diagnose.loader import load_rule
from hangscope.errors import RuleError, UnknownNameError


@pytest.fixture
def own_rules(tmp_path: Path) -> Path:
    for text, name, family in ((SHM_RULE, "sample-shm", "host"), (DEATH_RULE, "sample-death", "process")):
        old = "shm-extend-failed" if family == "host" else "killed-by-somebody"
        write_rule(tmp_path, text.replace(old, name), name, family)
    return tmp_path


def test_rules_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert rules_command.run(_parse(rules_command)) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["FAMILY", "RULE", "CAUSE", "ROLE", "TITLE"]
    assert {row.split()[2] for row in rows} <= set(causes())


def test_rules_prints_one_family_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert rules_command.run(_parse(rules_command, "--family", "process", "--json")) == 0
    rules = json.loads(capsys.readouterr().out)
    assert {rule["family"] for rule in rules} == {"process"}
    assert set(rules[0]) == {"family", "id", "cause", "role", "status", "since", "weight", "title"}


def test_rules_refuses_an_unknown_family() -> None:
    with pytest.raises(UnknownNameError, match=r"there is no family 'proces' \(did you mean process\?\)"):
        rules_command.run(_parse(rules_command, "--family", "proces"))


def test_listing_rules_of_ones_own_checks_them(own_rules: Path) -> None:
    with pytest.raises(RuleError, match=r"when\.(all|any)\[\d\]\.fact: no fact "):
        rules_command.run(_parse(rules_command, "--rules", str(own_rules)))


def test_the_reference_lists_every_cause_and_rule(own_rules: Path) -> None:
    rules = [load_rule(path) for path in sorted(own_rules.glob("*/*.toml"))]
    text = reference.render_reference(rules)
    assert [name for name in causes() if f"### {name} (" not in text] == []
    assert "| [sample-shm](host/sample-shm.toml) | /dev/shm is full on the host | cause | 80 |" in text


def test_rules_readme_is_fresh(checkout: Path) -> None:
    text = (checkout / "rules" / "README.md").read_text(encoding="utf-8")
    assert text == reference.render_reference(), "run: python -m hangscope.diagnose.reference"


def test_the_reference_is_written_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "rules_dir", lambda: tmp_path)
    assert reference.main(["--check"]) == 1
    assert "rules/README.md is stale" in capsys.readouterr().err
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0


def _parse(command: object, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)  # type: ignore[attr-defined]
    return parser.parse_args(arguments)
