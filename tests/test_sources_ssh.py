"""ssh:// with a real SSH server on this machine: what is reported is what a look at the local files reports."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hangscope.cli.main import main

fsspec = pytest.importorskip("fsspec", reason="fsspec, of the extra hangscope[remote], is not installed")
paramiko: Any = pytest.importorskip("paramiko", reason="paramiko, of the extra hangscope[remote], is not installed")

LAYOUTS = ("layout-tar-gz", "layout-zip", "layout-torchrun-attempts", "collective-op-mismatch-01-ag-rs-2289")
USER, PASSWORD = "engineer", "night shift"


class _Doors(paramiko.ServerInterface):  # type: ignore[misc] # paramiko is untyped
    def check_auth_password(self, username: str, password: str) -> int:
        known = (username, password) == (USER, PASSWORD)
        return int(paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002 (paramiko calls it so)
        return int(paramiko.OPEN_SUCCEEDED)

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002
        return "password"


class _Handle(paramiko.SFTPHandle):  # type: ignore[misc]
    def stat(self) -> Any:  # noqa: ANN401
        return paramiko.SFTPAttributes.from_stat(os.fstat(self.readfile.fileno()))


class _Files(paramiko.SFTPServerInterface):  # type: ignore[misc]
    """The files of this machine, to be read only."""

    def list_folder(self, path: str) -> Any:  # noqa: ANN401
        try:
            names = os.listdir(path)  # noqa: PTH208 (names are wanted)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)
        return [paramiko.SFTPAttributes.from_stat(Path(path, name).stat(), name) for name in names]

    def stat(self, path: str) -> Any:  # noqa: ANN401
        try:
            return paramiko.SFTPAttributes.from_stat(Path(path).stat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    lstat = stat

    def open(self, path: str, flags: int, attr: object) -> Any:  # noqa: ANN401, ARG002
        try:
            file = Path(path).open("rb")  # noqa: SIM115 (the handle closes it)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)
        handle = _Handle(flags)
        handle.filename, handle.readfile = path, file
        return handle


@pytest.fixture
def ssh(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The beginning of URLs of a server that shows this machine's files."""
    key = paramiko.ECDSAKey.generate()
    transports: list[Any] = []

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    transport = paramiko.Transport(connection)
                    transport.add_server_key(key)
                    transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Files)
                    transports.append(transport)
                    transport.start_server(server=_Doors(), event=threading.Event())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setitem(fsspec.config.conf, "ssh", {"password": PASSWORD, "look_for_keys": False})
        yield f"ssh://{USER}@127.0.0.1:{listener.getsockname()[1]}"
        fsspec.get_filesystem_class("ssh").clear_instance_cache()
        for transport in transports:
            transport.close()
        # closing alone does not wake who waits in accept
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert not thread.is_alive()


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["analyze", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("case", LAYOUTS)
def test_the_report_is_that_of_the_local_files(
    ssh: str, case: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = checkout / "fixtures" / case / "logs"
    local = printed(capsys, str(logs), "--format", "json")
    assert printed(capsys, f"{ssh}{logs}", "--format", "json") == local


def test_a_pattern_and_what_is_missing(ssh: str, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = checkout / "fixtures" / LAYOUTS[-1] / "logs"
    local = printed(capsys, *map(str, sorted(logs.glob("rank*.log"))), "--quiet")
    assert printed(capsys, f"{ssh}{logs}/rank*.log", "--quiet") == local
    assert main(["analyze", f"{ssh}{logs}/nothing"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_wrong_password_is_told_without_showing_it(
    ssh: str, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(fsspec.config.conf, "ssh", {"password": "day shift", "look_for_keys": False})
    assert main(["analyze", f"{ssh}{checkout}/fixtures"]) == 2
    said = capsys.readouterr().err
    assert "credentials" in said or "access was refused" in said
    assert "ssh-agent" in said
    assert "day shift" not in said
