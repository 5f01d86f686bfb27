"""The command line as a whole: quick help, and a line instead of a traceback whatever happens."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import hangscope
from hangscope.cli import main as cli
from hangscope.errors import HangscopeError, InputError

_ANALYZER = Path(hangscope.__file__).parent.parent

_CALL_MAIN = "from hangscope.cli.main import main\ntry:\n    main"

Install = Callable[[Callable[[], int]], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a subcommand `try` that does what the test wants."""

    def install_command(action: Callable[[], int]) -> None:
        module = ModuleType("hangscope.cli.try")
        module.__dict__["add_arguments"] = lambda _: None
        module.__dict__["run"] = lambda _: action()
        monkeypatch.setitem(sys.modules, "hangscope.cli.try", module)
        monkeypatch.setattr(cli, "command_names", lambda: ("try",))
        monkeypatch.setattr(cli, "first_line", lambda _: "Try something.")
        monkeypatch.delenv("HANGSCOPE_DEBUG", raising=False)

    return install_command


def _raise(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(_ANALYZER), "PATH": ""},
    )


@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    done = _python(
        f"import sys\n{_CALL_MAIN}({arguments!r})\nexcept SystemExit:\n    pass\n"
        "heavy = {'pandas', 'numpy', 'matplotlib', 'rich', 'lark'} & sys.modules.keys()\n"
        "print('HEAVY', sorted(heavy))\n"
    )
    assert done.stdout.endswith("HEAVY []\n"), done.stdout + done.stderr


def test_help_takes_little_processor_time() -> None:
    seconds = min(
        float(
            _python(
                f"import time\n{_CALL_MAIN}(['--help'])\nexcept SystemExit:\n    pass\nprint(time.process_time())"
            ).stdout.split()[-1]
        )
        for _ in range(3)
    )
    assert seconds < 0.15


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for name in cli.command_names():
        assert f"\n    {name}" in shown
    assert "read logs and dumps" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"hangscope {hangscope.__version__}\n"


def test_every_command_declares_and_runs() -> None:
    for name in cli.command_names():
        module = __import__(f"hangscope.cli.{name}", fromlist=["run"])
        module.add_arguments(argparse.ArgumentParser())
        assert callable(module.run)
        assert module.__doc__


def test_nothing_asked_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "usage:" in streams.err


def test_a_path_without_a_command_is_told_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(tmp_path)])
    assert ended.value.code == 2
    assert f"hangscope analyze {tmp_path}" in capsys.readouterr().err


def test_status_of_the_command_is_the_status(install: Install) -> None:
    install(lambda: 1)
    assert cli.main(["try"]) == 1


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            InputError("no such path: logs/\x1b[2J", "Give a folder."),
            2,
            "hangscope: no such path: logs/\\x1b[2J\nGive a folder.\n",
        ),
        (HangscopeError("rules are missing"), 2, "hangscope: rules are missing\n"),
        (KeyboardInterrupt(), 130, "hangscope: interrupted\n"),
        (PermissionError(13, "Permission denied", "out"), 2, "hangscope: Permission denied: out\n"),
        (MemoryError(), 2, "hangscope: out of memory\nGive it fewer files at once, or lower --jobs.\n"),
    ],
)
def test_failures_are_a_line(
    install: Install, capsys: pytest.CaptureFixture[str], error: BaseException, status: int, words: str
) -> None:
    install(_raise(error))
    assert cli.main(["try"]) == status
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", words)


def test_a_defect_says_so_and_how_to_see_the_trace(
    install: Install, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(_raise(ZeroDivisionError("division by zero")))
    assert cli.main(["try"]) == 2
    shown = capsys.readouterr().err
    assert "a defect of hangscope" in shown
    assert "HANGSCOPE_DEBUG=1" in shown
    assert "Traceback" not in shown
    monkeypatch.setenv("HANGSCOPE_DEBUG", "1")
    assert cli.main(["try"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_pipe_is_silent() -> None:
    code = (
        "import sys\nfrom hangscope.cli import main as cli\n"
        "def run():\n    for _ in range(100_000):\n        print('a line of a long report')\n    return 0\n"
        "status = cli._guarded(run)\nsys.exit(status)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(_ANALYZER), "PATH": ""},
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_a_line() -> None:
    code = (
        "import sys\nfrom hangscope.cli import main as cli\nsys.stdout = open('/dev/full', 'w')\n"
        "def run():\n    print('a line')\n    return 0\n"
        "sys.exit(cli._guarded(run))"
    )
    done = _python(code)
    assert (done.returncode, done.stderr) == (2, "hangscope: No space left on device\n")


def test_closed_streams_are_no_failure(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(lambda: 0 if sys.stdout.write("lost") else 2)
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert cli.main(["try"]) == 0
    sys.stdout.close()
    sys.stderr.close()
