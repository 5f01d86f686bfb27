"""README.md tells the truth: its blocks are fresh, its commands name things that exist, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from readme import README, fresh, shell_blocks

TEXT = README.read_text(encoding="utf-8")


def test_marked_blocks_are_what_hangscope_prints() -> None:
    assert "<!-- begin: hangscope analyze " in TEXT
    assert fresh(TEXT) == TEXT, "run python tests/readme.py --write"


def test_first_block_installs_and_runs_on_a_fixture() -> None:
    first = shell_blocks(TEXT)[0]
    assert "python3 -m venv" in first
    assert "pip install" in first
    analyzed = re.search(r"hangscope analyze (\S+)", first)
    assert analyzed is not None
    assert (README.parent / analyzed[1]).is_dir()


def test_second_block_installs_and_passes_the_tests() -> None:
    second = shell_blocks(TEXT)[1]
    assert "python3 -m venv" in second
    assert ".[dev]" in second
    assert "pytest" in second


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files_that_exist(page: str, checkout: Path) -> None:
    text = (checkout / page).read_text(encoding="utf-8")
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if target and not (checkout / target).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_files_named_in_the_text_exist(page: str, checkout: Path) -> None:
    named = re.findall(
        r"`((?:analyzer|fixtures|grammars|rules|tests|notebooks)/[\w./-]+)`", (checkout / page).read_text()
    )
    assert [path for path in named if not (checkout / path).exists()] == []
