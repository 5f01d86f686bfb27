"""`hangscope plot`: files, and what is said when there is nothing to draw."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hangscope.cli.main import main
from nccl_logs import ranks
from recorder_dumps import Dump, write


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    made = [Dump(rank).step() for rank in range(4)]
    made[0].wait()
    return write(tmp_path / "dumps", made)


def test_one_picture_goes_into_the_file_that_is_named(
    dumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "waits.svg"
    assert main(["plot", "waits", str(dumps), "--output", str(target)]) == 0
    assert "<svg" in target.read_text()
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"hangscope: wrote {target}\n")


def test_options_may_stand_between_the_kind_and_the_logs(dumps: Path, tmp_path: Path) -> None:
    target = tmp_path / "waits.png"
    assert main(["plot", "waits", "-o", str(target), str(dumps)]) == 0
    assert target.exists()


def test_without_a_name_it_is_named_after_its_kind(
    dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "timeline", str(dumps)]) == 0
    assert (tmp_path / "hangscope-timeline.png").read_bytes().startswith(b"\x89PNG")


def test_all_pictures_go_into_a_folder_and_those_without_evidence_are_named(
    dumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "pictures"
    assert main(["plot", "--all", str(dumps), "--output", str(folder), "--dark"]) == 0
    assert sorted(file.name for file in folder.iterdir()) == [
        "progress.png",
        "ranks.png",
        "skew.png",
        "timeline.png",
        "waits.png",
    ]
    assert "left out init: no init of a communicator is known to be unfinished" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["timeline"], "no logs are given"),
        (["pie", "LOGS"], "there is no picture 'pie'"),
        (["LOGS"], "there is no picture"),
        (["timeline", "LOGS", "--output", "x.doc"], "does not end like a picture"),
        (["timeline", "LOGS"], "nothing tells which calls the ranks made"),
    ],
)
def test_what_cannot_be_drawn_is_said_with_what_to_do(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for log in ranks(2):
        (logs / f"rank{log.rank}.log").write_text("\n".join([*log.lines, ""]))
    assert main(["plot", *(str(logs) if one == "LOGS" else one for one in arguments)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[0] and len(lines) == 2


def test_folders_are_made_and_what_cannot_be_one_is_told_before_the_work(
    dumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "waits.svg"
    assert main(["plot", "waits", str(dumps), "--output", str(target)]) == 0
    assert target.exists()
    capsys.readouterr()
    for arguments in (["--all", "LOGS", "--output", str(target)], ["waits", "LOGS", "--output", str(target / "x.png")]):
        # logs that are not there would be told first, were they looked for
        assert main(["plot", *arguments]) == 2
        assert capsys.readouterr().err.splitlines() == [
            f"hangscope: {target} is no folder", "Name a folder; it is made when needed.",
        ]  # fmt: skip


def test_help_loads_no_matplotlib() -> None:
    code = (
        "import sys; from hangscope.cli.main import main\n"
        "try:\n    main(['plot', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'matplotlib', 'numpy', 'pandas'} & set(sys.modules)"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True)
