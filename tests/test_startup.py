"""What commands load before they answer: modules are most of the time of a short run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hangscope
from hangscope.cli.main import command_names
from recorder_dumps import WORLD, Dump, write

ANALYZER = Path(hangscope.__file__).parent.parent
SHOW_MODULES = """
import contextlib, io, sys
from hangscope.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(*sorted(sys.modules))
"""
HEAVY = {
    *("IPython", "dask", "distributed", "fsspec", "jinja2", "lark", "matplotlib", "numpy", "pandas", "pyarrow"),
    # of Python itself: what only archives, processes, sockets and the like need
    *("_hashlib", "asyncio", "bz2", "concurrent", "lzma", "multiprocessing", "shutil", "socket", "sqlite3", "ssl"),
    *("statistics", "subprocess", "tarfile", "tempfile", "unittest", "xml", "zipfile", "zstandard"),
}
LIGHT = {
    "hangscope",
    "hangscope.cli",
    "hangscope.cli._about",
    "hangscope.cli._terminal",
    "hangscope.cli.main",
    "hangscope.errors",
}
"""All of hangscope that it takes to list the commands."""
NOT_FOR_DUMPS = {
    "hangscope.diagnose.own_rules",
    "hangscope.grammar.compile",
    "hangscope.grammar.definition",
    "hangscope.live",
    "hangscope.model.difference",
    "hangscope.notebook",
    "hangscope.parse.executors.cluster",
    "hangscope.parse.executors.work",
    "hangscope.plot",
    "hangscope.report.html",
    "hangscope.report.trace",
    "hangscope.sources.archive",
    "hangscope.sources.remote",
    "hangscope.tables.saved",
}


def _loaded(*arguments: str, cache: Path) -> set[str]:
    """What a command loads that has run before: what takes long to work out is kept (`hangscope.cache`)."""
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SHOW_MODULES, *arguments],
            env={"PYTHONPATH": str(ANALYZER), "PATH": "", "XDG_CACHE_HOME": str(cache)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def _heavy(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & HEAVY


def _own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "hangscope"}


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_list_of_commands_loads_none_of_them(argument: str, tmp_path: Path) -> None:
    modules = _loaded(argument, cache=tmp_path)
    assert _own(modules) == LIGHT
    assert _heavy(modules) == set()
    assert not {"dataclasses", "json", "logging", "rich", "tomllib"} & modules


@pytest.mark.parametrize("command", ["rules", "explain"])
def test_pages_about_rules_load_what_reads_rules(command: str, tmp_path: Path) -> None:
    modules = _loaded(command, *(["collective-skipped"] if command == "explain" else []), cache=tmp_path)
    assert _heavy(modules) == set()
    assert not {"logging", "pickle", "rich"} & modules
    parts = {name.split(".")[1] for name in _own(modules) - {"hangscope"}}
    assert parts <= {
        "align",
        "cache",
        "cli",
        "diagnose",
        "errors",
        "expressions",
        "model",
        "ranges",
        "records",
        "resources",
    }
    assert {name for name in _own(modules) if name.startswith("hangscope.align.")} == {"hangscope.align.versions"}
    assert {name for name in _own(modules) if name.startswith("hangscope.model.")} <= {
        "hangscope.model.evidence",
        "hangscope.model.findings",
    }
    assert not {f"hangscope.cli.{name}" for name in command_names() if name != command} & modules


def test_an_analysis_of_dumps_loads_nothing_of_other_outputs_and_inputs(tmp_path: Path) -> None:
    groups = {WORLD[0]: (WORLD[1], range(8))}
    dumps = [Dump(rank, groups=groups).call().call().call(state="scheduled") for rank in range(7)]
    folder = write(tmp_path / "dumps", [*dumps, Dump(7, groups=groups).call().call()])
    modules = _loaded("analyze", str(folder), cache=tmp_path / "cache")
    assert _heavy(modules) == set()
    assert NOT_FOR_DUMPS & modules == set()
    assert not {f"hangscope.cli.{name}" for name in command_names() if name != "analyze"} & modules
    assert "rich" not in _loaded("analyze", str(folder), "--format", "json", cache=tmp_path / "cache")
