"""Every rule in rules/: it can be loaded, names facts that exist, and fires on its cases exactly as they say.

A rule is tested by being there. Its cases run through the whole analysis, as files on a disk would; a line
``### FILE name`` in a case begins another file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hangscope.api import load
from hangscope.diagnose import loader
from hangscope.diagnose.catalogue import BOOKKEEPING_FAMILY
from hangscope.diagnose.check import check_rule
from hangscope.diagnose.evaluate import evaluate
from hangscope.diagnose.kinds import declared_kinds, known_kinds
from hangscope.diagnose.loader import load_rule, load_rules, rule_files
from hangscope.diagnose.rule import Case, Rule
from hangscope.diagnose.shipped import load_rules_about
from hangscope.facts.collect import collect_facts
from hangscope.model import Finding

FILES = rule_files()
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

_NEW_FILE = "### FILE "


def _by_place(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=_by_place)
def test_rule_is_well_formed(path: Path) -> None:
    check_rule(load_rule(path), known_kinds())


@pytest.mark.parametrize("path", FILES, ids=_by_place)
def test_rule_fires_as_its_cases_say(path: Path, tmp_path: Path) -> None:
    rule = load_rule(path)
    wrong = []
    for number, case in enumerate(rule.cases):
        finding = _find(rule, _logs(case, tmp_path / str(number)))
        if (finding is not None) is not case.fires:
            wrong.append(f"{case.name!r} {'does not fire' if case.fires else 'fires'}: {finding}")
        elif finding and not finding.evidence and rule.family != BOOKKEEPING_FAMILY:
            wrong.append(f"{case.name!r} cites no line")
    assert wrong == []


def test_rules_go_together() -> None:
    assert len(load_rules()) == len(FILES) > 0


@pytest.mark.parametrize("path", FILES, ids=_by_place)
def test_index_names_the_facts_that_a_rule_needs(path: Path) -> None:
    when = load_rule(path).when
    assert loader.read_needs(path) == (tuple(c.fact for c in when.all), tuple(c.fact for c in when.any))


def test_only_rules_that_what_was_seen_can_fire_are_loaded() -> None:
    rules = load_rules()
    both = next(rule for rule in rules if len({c.fact for c in rule.when.all}) > 1 and rule.when.any)
    needed, either = {c.fact for c in both.when.all}, both.when.any[0].fact
    assert both in load_rules_about(frozenset({*needed, either}))
    assert both not in load_rules_about(frozenset(needed))
    assert both not in load_rules_about(frozenset({min(needed), either}))
    kind = next(rule.when.any[0].fact for rule in rules if not rule.when.all)
    alone = [r for r in rules if {c.fact for c in r.when.all} <= {kind}]
    alone = [r for r in alone if not r.when.any or kind in {c.fact for c in r.when.any}]
    assert load_rules_about(frozenset([kind])) == tuple(alone)
    assert load_rules_about(frozenset()) == ()


def test_every_kind_of_fact_has_one_source() -> None:
    owners: dict[str, set[str]] = {}
    for owner, kind, _ in declared_kinds():
        owners.setdefault(kind, set()).add(owner)
    assert {kind: found for kind, found in owners.items() if len(found) > 1} == {}


def _logs(case: Case, folder: Path) -> Path:
    """The folder that holds what the case is about."""
    if case.fixture:
        logs = FIXTURES / case.fixture / "logs"
        assert logs.is_dir(), f"{case.name!r}: no such fixture: {case.fixture}"
        return logs
    folder.mkdir()
    files: dict[str, list[str]] = {}
    name = "case.log"
    for line in case.lines.strip("\n").splitlines():
        if line.startswith(_NEW_FILE):
            name = line.removeprefix(_NEW_FILE).strip()
        files.setdefault(name, [])
        if not line.startswith(_NEW_FILE):
            files[name].append(f"{line}\n")
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
    return folder


def _find(rule: Rule, logs: Path) -> Finding | None:
    """What the rule by itself finds; the verdict may join findings of one cause, so it is not asked here."""
    job = load(logs, jobs=1)
    return next(iter(evaluate([rule], collect_facts(job), job.versions)), None)
