"""The reference of the command line and the shells' completion know what the parsers declare."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from hangscope.cli._declared import actions_of, commands_of, meaning, spellings, synopsis
from hangscope.cli._reference import MANUAL, PAGE, main, render_manual, render_page
from hangscope.cli.completion import SHELLS
from hangscope.cli.main import build_parser, command_names
from hangscope.cli.main import main as hangscope

COMPLETE = """
source {script}
COMP_WORDS=({words})
COMP_CWORD={last}
_shtab_hangscope hangscope "${{COMP_WORDS[{last}]}}" "${{COMP_WORDS[{before}]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def test_the_pages_are_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run: python -m hangscope.cli._reference"
    assert MANUAL.read_text(encoding="utf-8") == render_manual(), "run: python -m hangscope.cli._reference"
    assert main(["--check"]) == 0


def test_stale_pages_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hangscope.cli._reference.PAGE", tmp_path / "README.md")
    assert main(["--check"]) == 1
    assert "cli/README.md stale; run:" in capsys.readouterr().err


@pytest.mark.parametrize("name", command_names())
def test_every_command_and_option_is_on_both_pages(name: str) -> None:
    command = commands_of(build_parser())[name]
    page = PAGE.read_text(encoding="utf-8").partition(f"## hangscope {name}\n")[2].partition("\n## ")[0]
    manual = MANUAL.read_text(encoding="utf-8").partition(f".SH {name.upper()}\n")[2].partition("\n.SH ")[0]
    assert synopsis(command) in page
    for action in actions_of(command):
        for written in spellings(action):
            assert f"`{written}`" in page
            assert written.replace("-", "\\-") in manual
        assert meaning(action, command.prog).split()[0] in page


def test_help_is_filled_in_and_hidden_options_are_left_out() -> None:
    parser = argparse.ArgumentParser("try")
    parser.add_argument("--n", default=3, metavar="N", nargs="+", help="so many (default: %(default)s) of %(prog)s")
    parser.add_argument("--old", help=argparse.SUPPRESS)
    parser.add_argument("--how", choices=("a", "b"), help="one of %(choices)s")
    parser.add_argument("path", metavar="PATH", nargs="?", help="it")
    _, count, how, path = actions_of(parser)
    assert (spellings(count), meaning(count, "try")) == (["--n N..."], "so many (default: 3) of try")
    assert (spellings(how), meaning(how, "try")) == (["--how {a,b}"], "one of a, b")
    assert (spellings(path), synopsis(parser)) == (["[PATH]"], "try [OPTIONS] [PATH]")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff, which shows manual pages, is not installed")
def test_the_manual_page_has_no_mistakes() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-b", str(MANUAL)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "HANGSCOPE(1)" in done.stdout


# --- completion ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_with_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hangscope(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*command_names(), "gpu-out-of-memory", "verbose", "perfetto"):
        assert word in script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("hangscope ana", {"analyze"}),
        ("hangscope analyze --exit", {"--exit-code"}),
        ("hangscope analyze --format js", {"json"}),
        ("hangscope explain gpu-fell-off-", {"gpu-fell-off-bus"}),
        ("hangscope rules --family hos", {"host"}),
        ("hangscope analyze --color a", {"auto", "always"}),
        ("hangscope completion z", {"zsh"}),
        ("hangscope plot time", {"timeline"}),
    ],
)
def test_bash_completes(typed: str, offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hangscope(["completion", "bash"]) == 0
    script = tmp_path / "hangscope.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    last = len(typed.split()) - 1
    code = COMPLETE.format(script=script, words=typed, last=last, before=last - 1)
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert offered <= found
    assert all(word.startswith(typed.rsplit(maxsplit=1)[-1]) for word in found)


@pytest.mark.parametrize(("typed", "kind"), [("analyze x", "file"), ("analyze --out x", "folder"), ("diff x", "file")])
def test_bash_completes_paths(typed: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "xlogs").mkdir()
    (tmp_path / "xfile.log").touch()
    assert hangscope(["completion", "bash"]) == 0
    script = tmp_path / "hangscope.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    words = f"hangscope {typed}"
    last = len(words.split()) - 1
    code = COMPLETE.format(script=script, words=words, last=last, before=last - 1)
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    found = {word.rstrip("/") for word in done.stdout.split()}
    assert found == ({"xlogs", "xfile.log"} if kind == "file" else {"xlogs"})


def test_an_unknown_shell_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        hangscope(["completion", "cmd"])
    assert "bash" in capsys.readouterr().err
