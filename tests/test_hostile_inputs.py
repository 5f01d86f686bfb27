"""What strangers put into logs, names and archives, through the whole analysis: it ends, and shows it harmlessly."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from hangscope.align.copies import without_copies
from hangscope.api import analyze, load
from hangscope.model import Report
from hangscope.parse.reader import read_input, read_stream
from hangscope.report.formats import load_format
from hangscope.report.options import RenderOptions
from hangscope.sources.discover import discover

LOG = b"[rank0]: ValueError: no\n"

PAYLOADS = {
    "colors": "\x1b[31;5mred\x1b[2J",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://192.0.2.1\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "controls": "\x07\x08\x0e\x9b2J\x9d0;x\x9c\x90q",
    "bidi": "\u202egnp.exe\u202c\u2066x\u2069",
    "invisible": "\u200b\ufeff\u2060\u00ad\U000e0041",
    "markup": "[bold red]x[/bold red][link=http://192.0.2.1]y[/link][/] :skull: [@click=app.quit]z[/]",
}
HARMFUL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
STYLES = re.compile(r"\x1b\[[0-9;]*m")

# a payload at every place of a line that the report quotes or fills into its texts
LINES = """\
nodePAYLOAD01:2281:2281 [0] NCCL INFO Bootstrap : Using eth0PAYLOAD:10.0.0.1<0>
node01:2281:2281 [0] init.cc:1 NCCL WARN Cuda failure 'PAYLOAD out of memory'
[rank0]: Traceback (most recent call last):
[rank0]:   File "/app/PAYLOAD/train.py", line 7, in stepPAYLOAD
[rank0]:     loss(PAYLOAD)
[rank0]: torch.OutOfMemoryError: CUDA out of memory. PAYLOAD Tried to allocate 2.00 GiB.
[rank1]: PAYLOADError: PAYLOAD
[rank1]: RuntimeError: PAYLOAD Connection closed by peer [PAYLOAD]:29500
2024-05-01T10:00:00 nodePAYLOAD kernel: Out of memory: Killed process 7 (pyPAYLOAD) total-vm:1kB
slurmstepd: error: Detected 1 oom_kill event in StepId=1.PAYLOAD. Some of the step tasks have been OOM Killed.
Process 77: python PAYLOAD train.py
Python v3.11.7 (/usr/bin/PAYLOADpython)

Thread 77 (idle): "PAYLOADMainThread"
    all_reduce (torch/distributed/PAYLOADdistributed_c10d.py:2501)
    stepPAYLOAD (PAYLOADtrain.py:12)
    <module> (train.py:30)
"""


def _page(report: Report, **options: object) -> str:
    stream = io.StringIO()
    load_format("text").render(report, stream, RenderOptions(width=120, verbose=True, **options))  # type: ignore[arg-type]
    return stream.getvalue()


@pytest.mark.parametrize("name", PAYLOADS)
def test_nothing_of_a_log_or_its_name_steers_the_terminal(name: str, tmp_path: Path) -> None:
    payload = PAYLOADS[name]
    logs = tmp_path / "logs"
    logs.mkdir()
    shown = payload.replace("/", "_").replace("\0", "")
    text = LINES.replace("PAYLOAD", payload).encode()
    (logs / f"rank0{shown}.log").write_bytes(text)
    with zipfile.ZipFile(logs / f"{shown}.zip", "w") as archive:
        archive.writestr(f"deep{payload}/../../rank1{payload}x.log", text.replace(b"rank1", b"rank2"))
    (logs / f"core{shown}").write_bytes(b"\x7fELF")
    report = analyze(logs, jobs=1)
    assert len(report.findings) > 1 and len(report.sources) == 3
    assert not HARMFUL.search(_page(report))
    colored = _page(report, color=True)
    assert not HARMFUL.search(STYLES.sub("", colored))
    if name == "markup":
        assert "[bold red]" in _page(report)


def test_undecodable_file_names_are_shown(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/rank0-\xff\xfe.log"
    with open(path, "wb") as file:  # noqa: PTH123  (a name that is no text)
        file.write(LOG)
    report = analyze(tmp_path, jobs=1)
    _page(report).encode()
    load_format("json").render(report, stream := io.StringIO(), RenderOptions())
    stream.getvalue().encode()
    assert json.loads(stream.getvalue())["sources"][0]["lines"] == 1


# --- archives ---------------------------------------------------------------------------------------------

NAMES = [
    "../../etc/passwd",
    "/etc/shadow",
    "C:\\Windows\\a.log",
    "..\\..\\b.log",
    "a" * 5000 + ".log",
    "x\x1b[2J.log",
    "same.log",
]


def _zip(path: Path, names: list[str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, LOG)


def _tar(path: Path, names: list[str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(LOG)
            archive.addfile(info, io.BytesIO(LOG))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("pack", [_zip, _tar])
def test_member_names_are_names_only(pack: Callable[[Path, list[str]], None], tmp_path: Path) -> None:
    pack(tmp_path / "b", [*NAMES, "same.log"])
    before = sorted(tmp_path.rglob("*"))
    inputs, records = discover([str(tmp_path)])
    assert records == [] and len({item.name for item in inputs}) == len(NAMES) + 1
    for item in inputs:
        assert item.name.startswith("b/") and ".." not in item.name.split("/") and "\\" not in item.name
        assert read_input(item).record.lines == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_directory_of_a_zip_is_read_once_and_not_for_each_member(tmp_path: Path) -> None:
    _zip(tmp_path / "b.zip", [f"rank{number}.log" for number in range(60)])
    inputs, _ = discover([str(tmp_path)])
    with mock.patch("zipfile.ZipFile", side_effect=zipfile.ZipFile) as opened:
        assert [read_input(item).record.lines for item in inputs] == [1] * 60
    assert opened.call_count == 1


def test_zip_that_changes_while_it_is_read_is_an_error_of_its_members(tmp_path: Path) -> None:
    _zip(tmp_path / "b.zip", ["rank0.log", "rank1.log"])
    inputs, _ = discover([str(tmp_path)])
    _zip(tmp_path / "b.zip", ["rank0.log"])
    assert "changed" in str(read_input(inputs[1]).record.error)
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04")
    assert "damaged" in str(read_input(inputs[0]).record.error)


# --- folders ----------------------------------------------------------------------------------------------


def test_devices_and_pipes_behind_links_do_not_block(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(LOG)
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.log").symlink_to("pipe")
    report = analyze(tmp_path, jobs=1)
    assert {source.file: source.error for source in report.sources} == {
        "rank0.log": None,
        "zero.log": "not a file but a character device",
        "pipe": "not a file but a named pipe",
        "link.log": "not a file but a named pipe",
    }


def test_files_that_vanish_shrink_or_grow_while_they_are_read(tmp_path: Path) -> None:
    for name in ("gone", "short", "long"):
        (tmp_path / name).write_bytes(LOG * 3)
    inputs, _ = discover([str(tmp_path)])
    (tmp_path / "gone").unlink()
    (tmp_path / "short").write_bytes(LOG)
    (tmp_path / "long").write_bytes(LOG * 9)
    read = {item.name: read_input(item).record for item in inputs}
    assert "No such file" in str(read["gone"].error)
    assert (read["short"].lines, read["long"].lines) == (1, 9)


def test_many_small_files_are_not_compared_with_each_other(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"rank{number}.log").write_bytes(b"hello\n")
    with mock.patch("hangscope.align.copies._same_rest") as compared:
        kept, _ = without_copies(load(tmp_path, jobs=1).parsed)
    assert len(kept) == 300 and not compared.called


# --- contents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"log":"' + b"\\ud800" * 9 + b' ValueError: x\\n","stream":"stderr","time":"2024-05-01T10:00:00Z"}\n' * 3,
        b"[rank0]: ValueError: \xff\xfe\xed\xa0\x80\xc0\x80\n",
        "[rank0]: ValueError: \u202e\n".encode("utf-16"),
        b"\x00" * 10 + LOG * 9,
        b"9" * 100_000,
        b"[rank" + b"9" * 5000 + b"]: ValueError: x\n",
    ],
    ids=["deep-list", "deep-object", "surrogates", "not-utf-8", "utf-16", "nuls", "digits", "rank"],
)
def test_strange_contents_are_read_and_shown(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(data)
    report = analyze(tmp_path, jobs=1)
    assert not HARMFUL.search(_page(report))
    load_format("json").render(report, stream := io.StringIO(), RenderOptions())
    json.loads(stream.getvalue().encode())


@pytest.mark.parametrize("unit", ["[rank0]: ncclRemoteError ", "9", "9 ", "a.", "x\r", "9\r", "it "])
def test_longest_line_costs_no_more_than_its_bytes(unit: str) -> None:
    def seconds(size: int) -> float:
        line = unit.encode() * (size // len(unit))
        begun = time.process_time()
        assert read_stream("a", io.BytesIO(line + b"\n")).record.lines == 1
        return time.process_time() - begun

    seconds(1000)
    assert seconds(1 << 19) < 50 * (seconds(1 << 14) + 0.02)
