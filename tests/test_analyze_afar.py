"""Logs in an object store, read here or by the workers of a cluster, give the report of local files byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dask_clusters
from hangscope.cli.main import main

pytest.importorskip("s3fs", reason="s3fs, of the extra hangscope[remote], is not installed")
pytest.importorskip("moto", reason="moto, of the extra hangscope[dev], is not installed")
pytest.importorskip("distributed", reason="dask, of the extra hangscope[dask], is not installed")

CASES = (
    "layout-torchrun-attempts",
    "layout-tar-gz",
    "p2p-unmatched-21-recorder-microbatch",
)


@pytest.fixture(scope="module")
def s3(checkout: Path) -> Iterator[dict[str, str]]:
    """The environment in which s3fs finds an S3 server of this machine; its bucket holds some cases' logs."""
    import boto3  # noqa: PLC0415 (comes with moto)
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
        settings = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
        client = boto3.client(
            "s3",
            endpoint_url=settings["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",  # noqa: S106 (the server takes any)
        )
        client.create_bucket(Bucket="bucket")
        for case in CASES:
            logs = checkout / "fixtures" / case / "logs"
            for path in logs.rglob("*"):
                if path.is_file():
                    key = f"{case}/{path.relative_to(logs).as_posix()}"
                    client.put_object(Bucket="bucket", Key=key, Body=path.read_bytes())
        client.close()
        yield settings | keys
    finally:
        server.stop()


@pytest.fixture(scope="module")
def two_workers(s3: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dask_clusters.Processes]:
    with dask_clusters.cluster(tmp_path_factory.mktemp("cluster"), 2, **s3) as processes:
        yield processes


def hangscope(checkout: Path, environment: dict[str, str], *arguments: str, status: int = 0) -> str:
    """What `hangscope analyze` prints, in a process of its own; for a failure what it complains."""
    done = subprocess.run(
        [sys.executable, "-m", "hangscope.cli.main", "analyze", *arguments],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout / "analyzer"), "COLUMNS": "100"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    if status:
        assert done.stdout == ""
        return done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def local(checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Analyzes the local files of a case in this process."""

    def analyzed(case: str, *arguments: str) -> str:
        monkeypatch.setenv("COLUMNS", "100")
        assert main(["analyze", str(checkout / "fixtures" / case / "logs"), *arguments]) == 0
        printed = capsys.readouterr().out
        assert len(printed) > 3000
        return printed

    return analyzed


@pytest.mark.parametrize("case", CASES)
def test_workers_read_from_an_object_store(
    case: str,
    s3: dict[str, str],
    two_workers: dask_clusters.Processes,
    checkout: Path,
    local: Callable[..., str],
) -> None:
    afar = hangscope(checkout, s3, f"s3://bucket/{case}", "--format", "json", "--scheduler", two_workers.address)
    assert afar == local(case, "--format", "json")


def test_without_a_cluster_an_object_store_is_read_here(
    s3: dict[str, str], checkout: Path, local: Callable[..., str]
) -> None:
    assert hangscope(checkout, s3, f"s3://bucket/{CASES[0]}/") == local(CASES[0])


def test_a_cluster_of_this_machine(checkout: Path, local: Callable[..., str]) -> None:
    logs = f"fixtures/{CASES[0]}/logs"
    assert hangscope(checkout, {}, logs, "--scheduler", "local", "--jobs", "2") == local(CASES[0])


@pytest.mark.parametrize(
    ("url", "changed", "said", "advice"),
    [
        ("s3://bucket/nothing", {}, "no such file or folder", "Check the path"),
        ("s3://nowhere/logs", {}, "no such file or folder", "Check the path"),
        (
            "s3://bucket/layout-tar-gz",
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "no valid credentials",
            "AWS_ACCESS_KEY_ID",
        ),
    ],
)
def test_what_cannot_be_read_is_said_in_two_lines(  # noqa: PLR0917 (a table of four columns, and fixtures)
    url: str, changed: dict[str, str], said: str, advice: str, s3: dict[str, str], checkout: Path, tmp_path: Path
) -> None:
    nothing_else = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    complaint = hangscope(checkout, s3 | nothing_else | changed, url, status=2)
    assert complaint.startswith(f"hangscope: {url}: {said}")
    assert advice in complaint
    assert len(complaint.splitlines()) == 2
