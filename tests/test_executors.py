"""A cluster of real worker processes gives what one process gives, whatever happens to its workers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import dask_clusters
from hangscope import api
from hangscope.errors import InputError
from hangscope.parse.executors import Executor, open_executor
from hangscope.parse.executors import batches as batches_module
from hangscope.parse.executors import cluster as cluster_module
from hangscope.parse.executors.batches import batches
from hangscope.parse.executors.cluster import Cluster, LostError
from hangscope.parse.executors.here import Here
from hangscope.parse.executors.work import OTHER_BUILD, build, pack, work
from hangscope.parse.source import ParsedSource
from hangscope.report.serialize import to_dict
from hangscope.sources.around import Around, Spot
from hangscope.sources.container import Limits
from hangscope.sources.discover import discover
from hangscope.sources.inputs import Input
from hangscope.sources.quote import Quoted

pytest.importorskip("distributed", reason="dask, of the extra hangscope[dask], is not installed")

LAYOUTS = ("layout-tar-gz", "layout-zip", "layout-torchrun-attempts", "p2p-unmatched-21-recorder-microbatch")
POISON = """
import os
import hangscope.parse.executors.work as work
read_input = work.read_input
work.read_input = lambda item: os._exit(9) if item.name == "poison.log" else read_input(item)
"""
NO_HANGSCOPE = """
import sys
sys.modules["hangscope"] = None
"""


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dask_clusters.Processes]:
    with dask_clusters.cluster(tmp_path_factory.mktemp("cluster"), 2, "--no-nanny") as processes:
        yield processes


def read(executor: Executor, *paths: Path | str) -> list[ParsedSource]:
    inputs, _ = discover([str(path) for path in paths], members=executor.list_members)
    return executor.read(inputs, None)


def said(sources: list[ParsedSource]) -> list[object]:
    return [
        (source.record, source.events, source.writers, source.dumps, source.recordings, len(source.calls))
        for source in sources
    ]


def many_files(folder: Path, count: int = 40) -> Path:
    folder.mkdir()
    for rank in range(count):
        lines = [
            f"node01:{rank}:{rank} [{rank % 8}] NCCL INFO AllReduce: opCount {call:x} sendbuff 0x7f00 recvbuff 0x7f00 "
            f"count 4096 datatype 7 op 0 root 0 comm 0x7f927c435010 [nranks={count}] stream 0x55c16a585900"
            for call in range(400)
        ]
        lines.append(f"RuntimeError: rank {rank} stopped")
        (folder / f"rank{rank}.log").write_text("\n".join([*lines, ""]))
    return folder


class TestBatches:
    def test_small_files_go_together_and_large_ones_alone(self) -> None:
        inputs = [Input(f"{size}", f"{size}", size) for size in (1, 2, 20 << 20, 3)]
        assert list(batches(inputs)) == [(0, 1), (2,), (3,)]

    def test_members_stay_with_their_archive_in_at_most_some_parts(self) -> None:
        inputs = [Input(f"a/{at}", "a.tar", 10 << 20, member=at) for at in range(40)]
        inputs += [Input(f"b/{at}", "b.tar", 1, member=at) for at in range(8)]
        parts = list(batches(inputs))
        assert [at for part in parts for at in part] == list(range(48))
        assert len(parts) == 5
        assert parts[-1] == tuple(range(40, 48))


class TestArchivesInThreads:
    @pytest.mark.parametrize("layout", ["layout-tar-gz", "layout-zip"])
    def test_a_worker_with_several_threads_mixes_nothing_up(self, checkout: Path, layout: str) -> None:
        inputs, _ = discover([str(checkout / "fixtures" / layout / "logs")])
        expected = said(Here(1).read(inputs, None))
        with ThreadPoolExecutor(8) as pool:
            for got in pool.map(lambda _: said(Here(1).read(inputs, None)), range(24)):
                assert got == expected


class TestCluster:
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_workers_give_what_one_process_gives(
        self, two_workers: dask_clusters.Processes, checkout: Path, layout: str
    ) -> None:
        logs = checkout / "fixtures" / layout / "logs"
        with open_executor(two_workers.address, None) as executor:
            assert said(read(executor, logs)) == said(read(Here(1), logs))

    def test_lines_to_quote_are_read_by_the_workers(self, two_workers: dask_clusters.Processes, tmp_path: Path) -> None:
        (tmp_path / "a.log").write_text("one\ntwo\nthree\n")
        (tmp_path / "b.log").write_text("four\n")
        inputs, _ = discover([str(tmp_path)])
        wanted = {"a.log": {2, 3, 9}, "b.log": {1}, "c.log": {1}}
        with open_executor(str(two_workers.file), None) as executor:
            assert executor.read_lines(inputs, wanted) == {
                ("a.log", 2): Quoted("two", 4),
                ("a.log", 3): Quoted("three", 8),
                ("b.log", 1): Quoted("four", 0),
            }

    def test_lines_around_others_are_read_by_the_workers(
        self, two_workers: dask_clusters.Processes, tmp_path: Path
    ) -> None:
        (tmp_path / "a.log").write_text("one\ntwo\nthree\n")
        inputs, _ = discover([str(tmp_path)])
        with open_executor(two_workers.address, None) as executor:
            assert executor.read_around(inputs, {"a.log": [Spot(2, 4, "two")]}) == {
                ("a.log", 2): Around(("one",), ("three",))
            }

    def test_paths_are_those_of_the_user_s_folder(
        self, two_workers: dask_clusters.Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.log").write_text("RuntimeError: x\n")
        monkeypatch.chdir(tmp_path)
        with open_executor(two_workers.address, None) as executor:
            assert [source.record.error for source in read(executor, "a.log")] == [None]

    def test_a_damaged_archive_is_told_as_it_is_here(
        self, two_workers: dask_clusters.Processes, tmp_path: Path
    ) -> None:
        (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + bytes(100))
        (tmp_path / "a.log").write_text("RuntimeError: x\n")
        with open_executor(two_workers.address, None) as executor:
            afar = discover([str(tmp_path)], members=executor.list_members)
        assert afar == discover([str(tmp_path)])
        assert len(afar[1]) == 1

    def test_a_file_that_only_the_user_has_is_an_error_of_its_source(
        self, two_workers: dask_clusters.Processes, tmp_path: Path
    ) -> None:
        (tmp_path / "a.log").write_text("RuntimeError: x\n")
        inputs, _ = discover([str(tmp_path)])
        (tmp_path / "a.log").unlink()
        with open_executor(two_workers.address, None) as executor:
            [source] = executor.read(inputs, None)
        assert source.record.file == "a.log"
        assert source.record.error is not None
        assert "does not see" in source.record.error

    def test_another_version_is_told(
        self, two_workers: dask_clusters.Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.log").write_text("RuntimeError: x\n")
        version, digest = build()
        for mine, words in ((("9.9", "0"), f"9.9 here and {version} on"), ((version, "0"), f"0 and {digest}")):
            monkeypatch.setattr(cluster_module, "build", lambda mine=mine: mine)
            with (
                open_executor(two_workers.address, None) as executor,
                pytest.raises(InputError, match=words) as raised,
            ):
                read(executor, tmp_path)
            assert "same hangscope" in raised.value.advice

    def test_another_build_s_work_is_not_even_unpacked(self) -> None:
        assert work(("0.0.0", ""), b"no pickle") == (OTHER_BUILD, repr(build()).encode())
        assert work(build(), pack(("members", ("/nowhere.zip", Limits()))))[0] == "failed"


class TestTrouble:
    def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logs = many_files(tmp_path / "logs")
        monkeypatch.setattr(batches_module, "_FILES", 1)
        progress: list[tuple[int, int]] = []
        with dask_clusters.cluster(tmp_path, 2, "--no-nanny") as processes:

            def kill(done: int, total: int) -> None:
                if not progress:
                    dask_clusters.end(processes.workers[0])
                progress.append((done, total))

            report = api.analyze(logs, scheduler=processes.address, progress=kill)
            assert processes.workers[0].poll() is not None
        assert progress[0][0] < progress[0][1]
        assert progress[-1][0] == progress[-1][1]
        assert to_dict(report) == to_dict(api.analyze(logs, jobs=1))
        assert len(report.sources) == 40

    def test_work_whose_result_is_lost_with_its_worker_is_given_out_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logs = many_files(tmp_path / "logs")
        value = Cluster._value
        lost: list[Any] = []

        def lose_one(cluster: Cluster, future: Any) -> Any:  # noqa: ANN401 (as the method has it)
            if not lost:
                lost.append(future)
                raise LostError("lost")
            return value(cluster, future)

        monkeypatch.setattr(Cluster, "_value", lose_one)
        with (
            dask_clusters.cluster(tmp_path, 1, "--no-nanny") as processes,
            open_executor(processes.address, None) as executor,
        ):
            sources = read(executor, logs)
        assert len(lost) == 1
        assert [source.record.error for source in sources] == [None] * len(sources)

    def test_an_input_that_ends_every_worker_is_an_error_of_its_source(self, tmp_path: Path) -> None:
        logs = tmp_path / "logs"
        logs.mkdir()
        for name in ("a.log", "poison.log", "z.log"):
            (logs / name).write_text("RuntimeError: x\n")
        (tmp_path / "poison_of_tests.py").write_text(POISON)
        with (
            dask_clusters.cluster(
                tmp_path, 2, "--preload", "poison_of_tests", DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0"
            ) as processes,
            open_executor(processes.address, None) as executor,
        ):
            sources = read(executor, logs)
        assert [len(source.events) for source in sources] == [1, 0, 1]
        assert sources[1].record.error == ("could not be read: every worker that tried it ended: too little memory?")

    def test_workers_without_hangscope_are_told(self, tmp_path: Path) -> None:
        (tmp_path / "a.log").write_text("RuntimeError: x\n")
        (tmp_path / "without_of_tests.py").write_text(NO_HANGSCOPE)
        with (
            dask_clusters.cluster(tmp_path, 1, "--no-nanny", "--preload", "without_of_tests") as processes,
            open_executor(processes.address, None) as executor,
            pytest.raises(InputError, match="do not have hangscope"),
        ):
            read(executor, tmp_path / "a.log")

    def test_no_workers_are_waited_for_and_then_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "a.log").write_text("RuntimeError: x\n")
        monkeypatch.setattr(cluster_module, "_LOOK_S", 0.2)
        monkeypatch.setattr(cluster_module, "WORKERS_S", 1)
        with (
            dask_clusters.cluster(tmp_path, 0) as processes,
            open_executor(processes.address, None) as executor,
            pytest.raises(InputError, match="has had no workers"),
        ):
            read(executor, tmp_path / "a.log")
        assert caplog.text.count("waiting for workers") == 1

    def test_a_scheduler_that_goes_away_is_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "a.log").write_text("RuntimeError: x\n")
        monkeypatch.setattr(cluster_module, "_LOOK_S", 0.2)
        inputs, _ = discover([str(tmp_path / "a.log")])
        with (
            dask_clusters.cluster(tmp_path, 0) as processes,
            open_executor(processes.address, None) as executor,
        ):
            dask_clusters.end(processes.scheduler)
            begun = time.monotonic()
            with pytest.raises(InputError, match="was lost"):
                executor.read(inputs, None)
            assert time.monotonic() - begun < 30

    @pytest.mark.parametrize(
        ("scheduler", "said"),
        [
            ("tcp://127.0.0.1:9", "the scheduler at tcp://127.0.0.1:9 cannot be reached"),
            ("odd://127.0.0.1:9", "the scheduler at odd://127.0.0.1:9 cannot be reached"),
            ("nonsense", "--scheduler nonsense: no address, and no such file"),
            (os.devnull, "no address, and no such file"),
            ("tests/readme.py", "the scheduler at tests/readme.py cannot be reached"),
        ],
    )
    def test_a_scheduler_that_cannot_be_reached(
        self, scheduler: str, said: str, monkeypatch: pytest.MonkeyPatch, checkout: Path
    ) -> None:
        monkeypatch.chdir(checkout)
        monkeypatch.setattr(cluster_module, "CONNECT_S", 1)
        with pytest.raises(InputError, match=said) as raised, open_executor(scheduler, None):
            pass
        assert "tcp://host:8786" in raised.value.advice

    def test_jobs_are_not_for_a_cluster_of_its_own(self) -> None:
        with pytest.raises(InputError, match="--jobs"), open_executor("tcp://127.0.0.1:9", 2):
            pass
