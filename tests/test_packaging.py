"""What is shipped and what it costs to start: the wheel's contents, imports of --help, rules for names and sizes."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import make_layouts
from score_fixtures import FIXTURES

PACKAGE = FIXTURES.parent / "analyzer" / "hangscope"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 500

SHOW_IMPORTS = """
import contextlib, io, sys
from hangscope.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def _python(*arguments: str, cwd: Path, path: Path | None = None) -> str:
    """Standard output of a Python process; its complaint is the assertion's message."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | ({"PYTHONPATH": str(path)} if path else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _build(target: str, folder: Path, checkout: Path) -> Path:
    _python("-m", "hatchling", "build", "-t", target, "-d", str(folder), cwd=checkout)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build("wheel", tmp_path_factory.mktemp("wheel"), checkout)


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, as an installation would lay them out."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # noqa: S202  (a wheel of our own)
    return folder


def _files(folder: Path, pattern: str) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob(pattern)}


def test_wheel_holds_code_grammars_rules_and_schema(unpacked: Path, checkout: Path) -> None:
    shipped = unpacked / "hangscope"
    assert _files(shipped / "_data" / "grammars", "*.lark") == _files(checkout / "grammars", "*.lark") != set()
    assert _files(shipped / "_data" / "grammars", "*.toml") == {"frames.toml"}
    assert _files(shipped / "_data" / "rules", "*.toml") == _files(checkout / "rules", "*.toml") != set()
    assert _files(shipped, "*.py") == _files(PACKAGE, "*.py")
    assert _files(shipped / "_data", "*.json") == {f"grammars/releases/{name}.json" for name in ("nccl", "torch")}
    own = {name for name in _files(shipped, "*.json") if not name.startswith("_data/")}
    assert own == _files(PACKAGE, "*.json") >= {"report/schema/report.schema.json"}
    parts = {name for kind in ("css", "js", "html") for name in _files(PACKAGE, f"*.{kind}")}
    assert {name for kind in ("css", "js", "html") for name in _files(shipped, f"*.{kind}")} == parts
    assert parts >= {"report/html/templates/page.html", "report/html/assets/page.js", "report/html/assets/page.css"}
    assert (shipped / "py.typed").is_file()
    assert [path.name for path in unpacked.iterdir() if path.name.startswith(("tests", "fixtures"))] == []


def test_wheel_has_the_command_and_the_licence(unpacked: Path) -> None:
    (about,) = unpacked.glob("hangscope-*.dist-info")
    assert "hangscope = hangscope.cli.main:main" in (about / "entry_points.txt").read_text(encoding="utf-8")
    assert "Apache License" in (about / "licenses" / "LICENSE").read_text(encoding="utf-8")


def test_wheel_works_away_from_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    program = (
        "import sys, hangscope.resources as r; from hangscope.cli.main import main;"
        "print(r.grammars_dir(), r.rules_dir()); sys.exit(main(sys.argv[1:]))"
    )
    logs = FIXTURES / "gpu-out-of-memory-01-one-rank" / "logs"
    printed = _python("-c", program, "analyze", str(logs), "--format", "json", cwd=tmp_path, path=unpacked)
    places, _, report = printed.partition("\n")
    assert [str(Path(place).relative_to(unpacked)) for place in places.split()] == [
        "hangscope/_data/grammars",
        "hangscope/_data/rules",
    ]
    assert '"gpu-out-of-memory"' in report


def test_sdist_can_build_and_test_itself(checkout: Path, tmp_path: Path) -> None:
    with tarfile.open(_build("sdist", tmp_path, checkout)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "grammars/base.lark",
        "rules/causes.toml",
        "analyzer/hangscope/py.typed",
        "analyzer/hangscope/report/html/assets/page.css",
        "analyzer/hangscope/report/html/templates/page.html",
        "tests/test_packaging.py",
        "fixtures/make_layouts.py",
        "fixtures/layout-tar-gz/logs/job-4711.tar.gz",
    } <= names


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], {"pandas", "numpy", "matplotlib", "lark", "rich", "dask", "distributed", "fsspec"}),
        (["--version"], {"pandas", "numpy", "matplotlib", "lark", "rich"}),
        (["analyze", "--help"], {"pandas", "numpy", "matplotlib", "lark", "dask", "distributed", "fsspec"}),
        (["explain", "gpu-out-of-memory"], {"pandas", "numpy", "matplotlib"}),
        (["rules"], {"pandas", "numpy", "matplotlib"}),
        (
            ["analyze", "fixtures/gpu-out-of-memory-01-one-rank/logs"],
            {"pandas", "numpy", "matplotlib", "jsonschema", "jinja2"},
        ),
        (["analyze", "fixtures/gpu-out-of-memory-01-one-rank/logs", "--format", "json"], {"pandas", "numpy", "rich"}),
        (["analyze", "fixtures/gpu-out-of-memory-01-one-rank/logs", "--quiet"], {"dask", "distributed", "fsspec"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_short_commands_start_light(arguments: list[str], unwanted: set[str], checkout: Path) -> None:
    loaded = _python("-c", SHOW_IMPORTS, *arguments, cwd=checkout, path=checkout / "analyzer")
    assert set(loaded.split()) & unwanted == set()


def test_second_analysis_needs_no_lark(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arguments = ("-c", SHOW_IMPORTS, "analyze", "fixtures/gpu-out-of-memory-01-one-rank/logs")
    first, second = (set(_python(*arguments, cwd=checkout, path=PACKAGE.parent).split()) for _ in range(2))
    assert "lark" in first and "lark" not in second


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_modules_are_short_and_named_after_one_job(module: Path) -> None:
    assert module.stem not in {"utils", "util", "common", "helpers", "helper", "misc", "tools", "shared"}
    assert len(module.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def _fixture_texts() -> list[tuple[str, str]]:
    """Every file of every fixture as text, archives opened."""
    texts = []
    for path in sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        content = make_layouts.unpack(path.name, path.read_bytes())
        members = content.items() if isinstance(content, dict) else [("", content)]
        texts += [(f"{path.relative_to(FIXTURES)} {name}".strip(), data.decode("latin-1")) for name, data in members]
    return texts


def _public_addresses(text: str) -> list[str]:
    """IPv4 addresses outside the private, loopback and documentation ranges (four numbers below 256)."""
    addresses = re.findall(r"(?<![\w.:+-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])", text)
    return [
        address
        for address in addresses
        if all(int(part) < 256 for part in address.split(".")) and ipaddress.ip_address(address).is_global
    ]


def test_fixtures_name_no_person_and_no_machine() -> None:
    found = [
        f"{name}: {thing}"
        for name, text in _fixture_texts()
        for thing in (
            *re.findall(r"/(?:home|Users)/(?!user\b)[\w.-]+", text),
            *re.findall(r"[\w.+-]+@[\w-]+\.[\w.]*[a-z]\b", text),
            *_public_addresses(text),
        )
    ]
    assert found == []


def test_fixtures_stay_small() -> None:
    sizes = {path: path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()}
    assert [str(path) for path, size in sizes.items() if size > 500_000] == []
    assert sum(sizes.values()) < 2_500_000
