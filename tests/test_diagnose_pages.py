"""The pages of `hangscope explain`: of causes, and of rules, those of a site among them."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest

from diagnose_samples import write_rule
from hangscope.cli import explain as command
from hangscope.diagnose.catalogue import causes
from hangscope.diagnose.loader import load_rules
from hangscope.diagnose.outline import outline
from hangscope.diagnose.pages import explain_text
from hangscope.diagnose.settings import NAME, settings
from hangscope.errors import UnknownNameError

OWN = """
id = "our-quota-full"
cause = "disk-full"
role = "cause"
status = "stable"
since = "0.1.0"
title = "The quota of {hosts} is used up"
weight = 80
confidence = 0.9
explanation = "{ranks:named} wrote to {f.path|a file} on {hosts}."
explains = ["peer-lost", "watchdog-timeout"]
false_positives = ["A quota that was raised since."]
references = ["our storage handbook, page 7"]
aliases = ["our-disk-full"]

[when]
all = [{ fact = "no_space_left", as = "f" }]
culprits = "f"

[[remedies]]
text = "Ask for more on {hosts}."
command = "quota-tool --grow"

[[remedies]]
text = "Keep it off the slow path."
command = "NCCL_P2P_DISABLE=1"
versions = "nccl>=2.8,<2.20"

[[cases]]
name = "a full quota"
fires = true
lines = '''
node01: OUR QUOTA IS FULL
'''

[[cases]]
name = "room left"
fires = false
lines = "quota is fine"
"""


@pytest.fixture
def own_rules(tmp_path: Path) -> Path:
    write_rule(tmp_path, OWN, "our-quota-full", "host")
    return tmp_path


def test_page_of_a_rule(own_rules: Path) -> None:
    page = explain_text("our-quota-full", [own_rules])
    for part in (
        "our-quota-full (rule; stable since 0.1.0",
        "Names the cause disk-full: A disk other than /dev/shm is full",
        "In the logs, for example:\n  node01: OUR QUOTA IS FULL",
        "  - Ask for more on the host.\n      quota-tool --grow",
        "  - Keep it off the slow path. (nccl>=2.8,<2.20) A test, not a cure: ",
        "It can be wrong when:\n  - A quota that was raised since.",
        "References:\n  - our storage handbook, page 7",
        "Accounts for: peer-lost, watchdog-timeout.",
        "Earlier names: our-disk-full",
        "hangscope explain disk-full",
    ):
        assert part in page


def test_page_by_an_earlier_name(own_rules: Path) -> None:
    assert explain_text("our-disk-full", [own_rules]) == explain_text("our-quota-full", [own_rules])


def test_page_of_a_cause_has_its_parts_in_order(own_rules: Path) -> None:
    page = explain_text("disk-full", [own_rules])
    assert page.startswith("disk-full  (cause; family host)\n\nA disk other than")
    parts = [
        *(
            "\nHow it looks:",
            "\nIn the logs, for example:",
            "\nWhy it happens:",
            "\nHow to confirm:",
            "\nHow to fix it:",
        ),
        *("\nIt can be wrong when:", "\nWhat may follow from it: ", "\nRules that name it (", "\nReferences:"),
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "  - our-quota-full: The quota of the host is used up" in page
    assert "watchdog-timeout" in page.split("What may follow from it: ")[1].split("\n\n")[0]


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("name", sorted(causes()))
def test_every_cause_has_a_page_that_fits(name: str, width: int) -> None:
    cause, page = causes()[name], explain_text(name, width=width)
    flat = " ".join(page.split())
    for text in (cause.means, cause.looks, cause.why, *cause.confirm):
        assert " ".join(text.split()) in flat
    broken = [line for line in page.split("\n") if len(line) > min(width, 110) and not line.startswith("      ")]
    # a word that is longer than the page cannot be broken without becoming another one
    assert [line for line in broken if max(map(len, line.split())) + 4 < min(width, 110)] == []


def test_every_rule_has_a_page() -> None:
    for rule in load_rules():
        if rule.weight % 10 == 0 and rule.family in ("launch", "version"):
            page = explain_text(rule.id)
            assert rule.id in page
            assert all(" ".join(text.split())[:60] in " ".join(page.split()) for text in rule.references)


def test_no_page_shows_a_placeholder() -> None:
    """Braces of a command are a shell's and stay."""
    for rule in load_rules():
        for text in (rule.title, rule.explanation, *(remedy.text for remedy in rule.remedies)):
            for expression in re.findall(r"(?<!{){([^{}]+)}", text):
                field = re.split(r"[|:]", expression)[0].rpartition(".")[2]
                page = outline(text)
                assert f"{{{field}}}" not in page
                assert f"{{{expression}" not in page
    titles = [line for name in causes() for line in explain_text(name).split("\n") if line.startswith("  - ")]
    assert [line for line in titles if re.search(r"(?<!\$){[a-z_]+}", line)] == []


def test_page_of_a_cause_does_not_bury_what_matters() -> None:
    page = explain_text("collective-skipped", width=80)
    assert page.index("How to fix it:") < 80 * 60
    assert "more, on the pages of the rules" in page


def test_no_sentence_of_the_catalogue_is_written_twice() -> None:
    texts = [text for cause in causes().values() for text in (cause.means, cause.looks, cause.why)]
    assert len(texts) == len(set(texts))
    long = [text for text in texts if len(text) > 320]
    assert long == []


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("gpu-out-of-memry", "gpu-out-of-memory"),
        ("Peer_Lost", "peer-lost"),
        ("our-quota-ful", "our-quota-full"),
        ("oom!", ""),
    ],
)
def test_an_unknown_name_suggests_similar_ones(own_rules: Path, name: str, suggestion: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        explain_text(name, [own_rules])
    assert str(caught.value) == f"there is no cause or rule named {name!r}"
    assert suggestion in caught.value.advice
    assert caught.value.advice


@pytest.mark.parametrize("columns", [80, 160])
def test_explain_prints_the_page_as_wide_as_the_terminal(
    own_rules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(["our-quota-full", "--rules", str(own_rules)])) == 0
    assert capsys.readouterr().out == explain_text("our-quota-full", [own_rules], width=columns)


def test_settings_that_the_catalogue_names_are_known() -> None:
    texts = json.dumps([[cause.looks, cause.why, *cause.confirm] for cause in causes().values()])
    named = {name for name in NAME.findall(texts) if not name.endswith("_")}
    assert {name for name in named if name not in settings()} == set()
    assert re.search("NCCL_DEBUG", texts)
