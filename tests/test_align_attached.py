"""What attach says of process ids decides whose the files of its bundle are."""

from __future__ import annotations

import io

import pytest

from hangscope.align.attached import find_attached, find_hosts, pid_in_name, what_was_refused
from hangscope.align.identity import identify
from hangscope.parse.reader import read_stream
from hangscope.parse.source import ParsedSource

WHO = (
    "hangscope attach: process pid=70 parent=1 role=launcher host={host}",
    "hangscope attach: process pid=77 parent=70 role=rank rank={rank} local_rank=0 world_size=2 host={host}",
    "hangscope attach: process pid=88 parent=77 role=child rank={rank} local_rank=0 world_size=2 host={host}",
)
DUMP = (
    "Process {pid}: python train.py",
    "Python v3.11.7 (/usr/bin/python3.11)",
    "",
    'Thread {pid} (idle): "MainThread"',
    "    train (train.py:9)",
)


def _read(name: str, *lines: str, **values: object) -> ParsedSource:
    text = "\n".join(line.format(**values) for line in lines) + "\n"
    return read_stream(name, io.BytesIO(text.encode()))


def _bundle(folder: str, host: str, rank: int) -> list[ParsedSource]:
    return [
        _read(f"{folder}attach.txt", *WHO, host=host, rank=rank),
        _read(f"{folder}stacks/rank{rank}-pid77.1.txt", *DUMP, pid=77),
        _read(f"{folder}stacks/rank{rank}-pid77.2.txt", *DUMP, pid=77),
        _read(f"{folder}logs/rank{rank}-pid77.stdout.log", "step 12", "loss 0.25"),
        _read(f"{folder}logs/job.log", f"{host}:77:90 [0] NCCL INFO NCCL_DEBUG set by environment to INFO"),
    ]


def test_all_files_of_a_process_are_one_process() -> None:
    identity = identify(_bundle("alpha/", "alpha", 1))
    assert list(identity.ranks) == [1]
    process = identity.ranks[1]
    assert (process.host, process.pid, process.rank_source) == ("alpha", 77, "environment")
    assert len(process.files) == 4
    assert identity.world_size == 2


@pytest.mark.parametrize("above", ["", "bundles/"])
def test_equal_process_ids_of_two_hosts_are_two_processes(above: str) -> None:
    sources = [*_bundle(f"{above}alpha/", "alpha", 0), *_bundle(f"{above}beta/", "beta", 1)]
    identity = identify(sources)
    assert {rank: (p.host, p.pid) for rank, p in identity.ranks.items()} == {0: ("alpha", 77), 1: ("beta", 77)}
    assert identity.duplicates == {}


def test_children_and_launchers_claim_no_rank() -> None:
    found = find_attached(_bundle("alpha/", "alpha", 1))
    assert {one.pid: one.rank for one in found} == {70: None, 77: 1, 88: None}


def test_the_nearest_bundle_names_the_host() -> None:
    attached = find_attached([*_bundle("", "alpha", 0), *_bundle("inner/", "beta", 1)])
    hosts = find_hosts(["inner/ps.1.txt", "ps.1.txt"], attached)
    assert hosts == {"inner/ps.1.txt": "beta", "ps.1.txt": "alpha"}


@pytest.mark.parametrize(
    ("name", "pid"),
    [
        ("alpha/stacks/rank3-pid77.1.txt", 77),
        ("logs/pid77.stdout.log", 77),
        ("logs/launcher-pid70.stderr.log", 70),
        ("rapid77.log", None),
        ("pid77/other.txt", None),
        ("job.log", None),
    ],
)
def test_process_id_in_a_name(name: str, pid: int | None) -> None:
    assert pid_in_name(name) == pid


def test_what_was_refused_is_a_warning() -> None:
    source = _read("attach.txt", "hangscope attach: not complete: stacks of rank 3 (pid 77): it belongs to user 1001")
    assert list(what_was_refused([source])) == ["not seen: stacks of rank 3 (pid 77): it belongs to user 1001"]
