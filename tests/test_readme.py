"""README.md tells the truth: its blocks are fresh, its commands name things that exist, its links lead somewhere."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import hangscope as hs
from hangscope.cli.main import main
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


PYTHON = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
COMMANDS = [
    line for block in re.findall(r"^```text\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE) for line in block.splitlines()
]


def options_behind(command: str) -> set[str]:
    """Options that README gives to a command, wherever it stands in a line."""
    found: set[str] = set()
    for line in COMMANDS:
        words = shlex.split(line.partition(f"{command} ")[2].replace("'", "")) if f"{command} " in line else []
        found |= {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}
    return found


OURS = re.compile(r"job\.(?P<method>\w+)|(?:hs|hangscope)\.(?P<function>\w+)")


@pytest.mark.parametrize("code", PYTHON)
def test_python_calls_the_api_as_it_is(code: str) -> None:
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    ours = [(call, name) for call in calls if (name := OURS.fullmatch(ast.unparse(call.func)))]
    assert ours
    for call, name in ours:
        function = getattr(hs.Job, name["method"]) if name["method"] else getattr(hs, name["function"])
        itself = [None] if name["method"] else []
        keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
        inspect.signature(function).bind(*itself, *call.args, **keywords)


def test_hangscope_has_the_options_of_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    options = options_behind("hangscope analyze")
    assert "--scheduler" in options
    with pytest.raises(SystemExit):
        main(["analyze", "--help"])
    known = capsys.readouterr().out
    assert {option for option in options if option not in known} == set()


@pytest.mark.parametrize("command", ["scheduler", "worker"])
def test_dask_has_the_options_of_the_commands(command: str) -> None:
    pytest.importorskip("distributed", reason="dask, of the extra hangscope[dask], is not installed")
    options = options_behind(f"dask {command}")
    assert "--scheduler-file" in options
    known = subprocess.run(
        [sys.executable, "-m", "dask", command, "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert {option for option in options if not re.search(rf"{option}\b", known)} == set()
