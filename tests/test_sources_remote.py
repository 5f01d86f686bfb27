"""Files behind URLs: found and read as local ones are, within bounded memory, and errors that say what to do."""

from __future__ import annotations

import builtins
import functools
import http.server
import io
import os
import shutil
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hangscope.cli.main import main
from hangscope.errors import InputError
from hangscope.sources import urls
from hangscope.sources.discover import discover
from hangscope.sources.storage import CHUNK, open_path
from hangscope.sources.urls import is_url, local_path, shown

fsspec = pytest.importorskip("fsspec", reason="fsspec, of the extra hangscope[remote], is not installed")

LOG = b"node01:1:1 [0] NCCL INFO hello\n"
LAYOUTS = ("layout-tar-gz", "layout-zip", "layout-torchrun-attempts", "layout-empty-rank")

# paramiko's threads are gone when Python ends, and closing a file of another host then waits for ever
LATE = """
import io, os, sys
from pathlib import Path
from fsspec.implementations.memory import MemoryFileSystem
from hangscope.cli.main import main

class File(io.BytesIO):
    def close(self, say=os.write, late=sys.is_finalizing):
        if late():
            say(1, b"late\\n")
        elif not self.closed:
            say(1, b"in time\\n")
        super().close()

def open_far(self, path, *arguments, **options):
    return File(self.store[path].getvalue())

MemoryFileSystem().pipe("/logs/" + Path("{logs}").name, Path("{logs}").read_bytes())
MemoryFileSystem._open = open_far
main(["analyze", "memory://logs", "--quiet"])
"""


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory, empty before and after."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """The address of a web server that shows `tmp_path` as pages of links."""
    pytest.importorskip("aiohttp", reason="aiohttp, of the extra hangscope[remote], is not installed")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name it has there)
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def names(*paths: str) -> list[str]:
    inputs, records = discover(paths)
    assert records == []
    return [item.name for item in inputs]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["analyze", *arguments]) == 0
    return capsys.readouterr().out


def upload(system: Any, folder: Path, target: str) -> None:  # noqa: ANN401 (fsspec is untyped)
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe(f"{target}/{path.relative_to(folder)}", path.read_bytes())


class TestFinding:
    def test_a_folder_is_walked_in_natural_order_without_what_is_hidden(self, memory: Any) -> None:  # noqa: ANN401
        for name in ("rank10.log", "rank2.log", "0/stderr.log", ".git/config", "0/.hidden", "rank3.log"):
            memory.pipe(f"/logs/{name}", LOG)
        assert names("memory://logs") == ["0/stderr.log", "rank2.log", "rank3.log", "rank10.log"]
        assert names("memory://logs/") == names("memory://logs")

    @pytest.mark.parametrize("pattern", ["*rank*", "rank?.log", "*/*.log", "**/*.log", "rank.d"])
    def test_a_pattern_gives_what_it_gives_on_a_disk(self, memory: Any, tmp_path: Path, pattern: str) -> None:  # noqa: ANN401
        for name in ("rank10.log", "rank2.log", "rank.d/x.log", "other.log", ".rank1.log"):
            memory.pipe(f"/logs/{name}", LOG)
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(LOG)
        local = names(f"{tmp_path}/{pattern}")
        assert local
        assert names(f"memory://logs/{pattern}") == local

    def test_a_file_is_named_by_its_base_name_and_taken_once(self, memory: Any) -> None:  # noqa: ANN401
        memory.pipe("/deep/rank0.log", LOG)
        assert names("memory://deep/rank0.log", "memory://deep", "memory://deep/*") == ["rank0.log"]

    def test_a_second_folder_with_the_same_names_has_its_own_in_front(self, memory: Any) -> None:  # noqa: ANN401
        memory.pipe("/a/rank0.log", LOG)
        memory.pipe("/b/rank0.log", LOG)
        assert names("memory://a", "memory://b") == ["rank0.log", "b/rank0.log"]

    def test_what_is_missing_is_told_and_the_rest_is_read(self, memory: Any) -> None:  # noqa: ANN401
        memory.pipe("/logs/rank0.log", LOG)
        memory.pipe("/logs/core", b"\x7fELF" + bytes(600))
        inputs, records = discover(["memory://logs", "memory://nowhere", "memory://logs/*.txt"])
        assert [item.name for item in inputs] == ["rank0.log"]
        assert [(record.file, record.error) for record in records] == [
            ("core", "not a log: an ELF program, library or core dump"),
            ("memory://nowhere", "no such file or folder"),
            ("memory://logs/*.txt", "no file matches"),
        ]

    def test_file_urls_are_paths(self, tmp_path: Path) -> None:
        (tmp_path / "rank0.log").write_bytes(LOG)
        assert names(f"file://{tmp_path}") == ["rank0.log"]

    @pytest.mark.parametrize(
        ("path", "url"),
        [("s3://b/k", True), ("logs/a", False), ("/s3://x", False), ("c:/x", False), ("file:///x", False)],
    )
    def test_what_is_a_url(self, path: str, url: bool) -> None:
        assert is_url(path) is url
        assert local_path(path) == path.removeprefix("file://")


class TestReports:
    @pytest.mark.parametrize("form", ["json", "text"])
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_the_report_is_that_of_the_local_files(
        self,
        memory: Any,  # noqa: ANN401
        checkout: Path,
        capsys: pytest.CaptureFixture[str],
        layout: str,
        form: str,
    ) -> None:
        logs = checkout / "fixtures" / layout / "logs"
        upload(memory, logs, "/bucket")
        local = printed(capsys, str(logs), "--format", form)
        assert len(local) > 1000
        assert printed(capsys, "memory://bucket", "--format", form) == local

    def test_a_web_server_s_folder_is_followed(
        self, web: str, tmp_path: Path, checkout: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        logs = checkout / "fixtures/layout-torchrun-attempts/logs"
        shutil.copytree(logs, tmp_path / "logs")
        local = printed(capsys, str(logs), "--format", "json")
        assert printed(capsys, f"{web}/logs/", "--format", "json") == local

    def test_one_file_of_a_web_server(self, web: str, tmp_path: Path) -> None:
        (tmp_path / "rank0.log").write_bytes(LOG)
        assert names(f"{web}/rank0.log?token=abc") == ["rank0.log"]


class TestStreams:
    def test_memory_does_not_grow_with_the_file(self, web: str, tmp_path: Path) -> None:
        size = 12 * CHUNK
        with (tmp_path / "big.log").open("wb") as file:
            for _ in range(12):
                file.write(b"x" * CHUNK)
        tracemalloc.start()
        try:
            with open_path(f"{web}/big.log") as stream:
                read = sum(len(block) for block in iter(lambda: stream.read(1 << 18), b""))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert read == size
        assert peak < size / 2

    def test_an_error_while_reading_is_one_of_the_file(self, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
        class OddError(Exception):
            pass

        class Broken(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                raise OddError(f"the connection broke at {size}")

        memory.pipe("/rank0.log", LOG)
        monkeypatch.setattr(type(memory), "open", lambda *_, **__: Broken())
        with pytest.raises(InputError, match=r"rank0\.log: cannot be read: the connection broke"):
            discover(["memory://rank0.log"])

    @pytest.mark.parametrize("layout", ["layout-tar-gz", "layout-zip"])
    def test_nothing_is_closed_when_it_is_too_late_for_that(self, checkout: Path, layout: str) -> None:
        program = LATE.format(logs=str(next((checkout / "fixtures" / layout / "logs").iterdir())))
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONPATH": str(checkout / "analyzer")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.endswith("in time\n")
        assert done.stderr == ""


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "said", "advice"),
        [
            (PermissionError("Access Denied"), "access was refused: Access Denied", "AWS_ACCESS_KEY_ID"),
            (
                type("NoCredentialsError", (Exception,), {})("Unable to locate credentials"),
                "no valid credentials: Unable to locate credentials",
                "AWS_PROFILE",
            ),
            (OSError("Could not connect\nto 10.0.0.1"), "cannot be reached: Could not connect to 10.0.0.1", "network"),
            (type("Odd", (Exception,), {})(), "cannot be reached: Odd", "address"),
        ],
    )
    def test_one_line_says_what_and_one_what_to_do(self, error: Exception, said: str, advice: str) -> None:
        with pytest.raises(InputError) as raised, urls.translated("s3://bucket/logs"):
            raise error
        assert str(raised.value) == f"s3://bucket/logs: {said}"
        assert advice in raised.value.advice
        assert raised.value.exit_code == 2

    def test_fsspec_itself_is_missing(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        imported = builtins.__import__

        def without(name: str, *rest: Any, **more: Any) -> Any:  # noqa: ANN401 (stands for __import__)
            if name.partition(".")[0] == "fsspec":
                raise ImportError(name)
            return imported(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", without)
        assert main(["analyze", "s3://bucket/logs"]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == (
            "hangscope: s3://bucket/logs: to read URLs fsspec is needed\n"
            "Install it, here and on the workers: pip install 'hangscope[remote]'\n"
        )

    def test_the_package_of_a_protocol_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def url_to_fs(_: str) -> None:
            raise ImportError("Install paramiko")

        monkeypatch.setattr("fsspec.core.url_to_fs", url_to_fs)
        with pytest.raises(InputError, match="to read ssh:// paramiko is needed") as raised:
            discover(["ssh://host/logs"])
        assert "hangscope[remote]" in raised.value.advice

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("nonsense://a/b", "no such protocol: nonsense"),
            ("memory://nowhere", "no such file or folder"),
            ("memory://nowhere/*.log", "no file matches"),
            ("http://127.0.0.1:1/logs/", "cannot be reached"),
        ],
    )
    def test_exit_status_is_2(self, url: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["analyze", url]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"hangscope: {url}: {said}")
        assert len(err.splitlines()) == 2

    @pytest.mark.parametrize(
        ("url", "safe"),
        [
            ("ssh://me:secret@host:22/logs", "ssh://me@host:22/logs"),
            ("https://host/logs/a.log?X-Amz-Signature=abc", "https://host/logs/a.log"),
            ("s3://bucket/a:b@c/d", "s3://bucket/a:b@c/d"),
            ("logs/a?b", "logs/a?b"),
        ],
    )
    def test_secrets_in_urls_are_not_shown(self, url: str, safe: str) -> None:
        assert shown(url) == safe
