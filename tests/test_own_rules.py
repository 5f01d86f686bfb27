"""`--rules DIR`: a site's own rules, and the one clear line about each thing that can be wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hangscope.cli.main import main
from test_diagnose_pages import OWN

LOG = "OSError: [Errno 122] Disk quota exceeded: '/scratch/ckpt/step_10.pt'\n"


def _folder(tmp_path: Path, text: str | bytes, name: str = "our-quota-full", family: str = "host") -> Path:
    path = tmp_path / "site-rules" / family / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / "site-rules"


BROKEN: dict[str, tuple[str | bytes, str]] = {
    "TOML syntax": (
        OWN.replace("[when]", "[when"),
        ":16: no valid TOML: Expected ']' at the end of a table declaration",
    ),
    "no end of a string": (OWN.replace('page 7"]', "page 7]"), ":13: no valid TOML: "),
    "unknown key": (OWN.replace("weight = 80", "weigth = 80"), ":8: weigth: unknown key (did you mean weight?)"),
    "unknown cause": (
        OWN.replace('"disk-full"', '"disk-ful"'),
        ":3: cause: 'disk-ful' is no cause (did you mean disk-full",
    ),
    "unknown fact": (
        OWN.replace('"no_space_left"', '"no_space_lef"'),
        ":17: when.all[0].fact: no fact 'no_space_lef' (did you mean no_space_left",
    ),
    "unknown field": (
        OWN.replace(', as = "f" }', ', as = "f", paht_exists = true }'),
        ":17: when.all[0].paht_exists: the fact 'no_space_left' has no field 'paht'",
    ),
    "unknown field in a text": (OWN.replace("{f.path|a file}", "{f.paht}"), ":10: explanation: {f.paht}: "),
    "bad placeholder": (
        OWN.replace("The quota of {hosts}", "The quota of {host}"),
        ":7: title: {host} is none of ranks",
    ),
    "missing case": (OWN.replace("fires = false", "fires = true"), ":29: cases: needs a case that looks like it"),
    "missing key": (OWN.replace("confidence = 0.9\n", ""), ":1: confidence: is missing"),
    "id taken": (
        OWN.replace('aliases = ["our', 'aliases = ["peer-gone", "disk-full", "our'),
        ":14: aliases: 'disk-full' is taken by",
    ),
    "wrong type": (OWN.replace("weight = 80", 'weight = "80"'), ":8: weight: must be a number, is a string"),
    "wrong version": (
        OWN.replace("nccl>=2.8,<2.20", "nccl=2.8"),
        ":27: remedies[1].versions: 'nccl=2.8' is no comparison",
    ),
    "not UTF-8": (OWN.encode().replace(b"page 7", b"page \xff7"), ":13: is not UTF-8: invalid start byte"),
    "not TOML at all": (b"\x00\x01\x02", ":1: no valid TOML: "),
    "nested too deeply": ("id = " + "[" * 100_000, ":1: no valid TOML: brackets are nested too deeply"),
    "too large": (OWN + "#" * (1 << 20), ": is larger than 1 MiB"),
}


@pytest.mark.parametrize("command", ["analyze", "explain", "rules"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, command: str
) -> None:
    text, message = BROKEN[kind]
    assert text not in (OWN, OWN.encode()), "this breaks nothing"
    folder = _folder(tmp_path, text)
    log = tmp_path / "job.log"
    log.write_text(LOG, encoding="utf-8")
    arguments = {"analyze": [str(log)], "explain": ["disk-full"], "rules": []}[command]
    assert main([command, *arguments, "--rules", str(folder)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, *advice = captured.err.splitlines()
    assert first.startswith(f"hangscope: site-rules/host/our-quota-full.toml{message}"), first
    assert len(advice) <= 1
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    folder = _folder(tmp_path, OWN)
    path = folder / "host" / "endless.toml"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    assert main(["rules", "--rules", str(folder)]) == 2
    assert capsys.readouterr().err.startswith("hangscope: site-rules/host/endless.toml: is no file")


def test_id_of_another_file_of_the_site_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _folder(tmp_path, OWN)
    folder = _folder(tmp_path, OWN.replace("our-quota-full", "our-quota-two"), "our-quota-two")
    assert main(["rules", "--rules", str(folder)]) == 2
    expected = "site-rules/host/our-quota-two.toml:14: aliases: 'our-disk-full' is taken by"
    assert expected in capsys.readouterr().err


def test_file_outside_of_a_family_and_folder_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules", "--rules", str(tmp_path / "no")]) == 2
    assert "no such folder" in capsys.readouterr().err
    folder = _folder(tmp_path, OWN, family=".")
    assert main(["rules", "--rules", str(folder)]) == 2
    assert "lies outside of the folder of a family" in capsys.readouterr().err


def test_a_right_one_is_used_by_all_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path, OWN)
    log = tmp_path / "job.log"
    log.write_text(LOG, encoding="utf-8")
    assert main(["rules", "--rules", str(folder)]) == 0
    assert "our-quota-full" in capsys.readouterr().out
    assert main(["explain", "our-quota-full", "--rules", str(folder)]) == 0
    assert "our storage handbook" in capsys.readouterr().out
    assert main(["analyze", str(log), "--rules", str(folder), "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("disk-full")


def test_a_folder_without_rules_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text(LOG, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    assert main(["analyze", str(log), "--rules", str(tmp_path / "empty")]) == 2
    assert "empty: holds no rule" in capsys.readouterr().err


def test_a_wrong_rule_is_told_before_the_logs_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("read first")

    monkeypatch.setattr("hangscope.parse.run.read_inputs", read)
    log = tmp_path / "job.log"
    log.write_text(LOG, encoding="utf-8")
    folder = _folder(tmp_path, OWN.replace("weight = 80", "weight = 800"))
    assert main(["analyze", str(log), "--rules", str(folder)]) == 2
    assert "weight: must lie between 0 and 100" in capsys.readouterr().err
